"""What we say is never a command, whatever an agent had to say and wherever we say it (P7, T16)."""

from __future__ import annotations

import random
from datetime import timedelta

from agentsmith.domain.conversation import TakesCommands, command_in
from agentsmith.domain.ticket import Ticket
from tests.conformance.harness import Platform
from tests.conformance.steps import LABELS, MEMO, TRIGGER, soon

COMMANDS = ("/agent-smith retry", "/Agent-Smith CANCEL", "/old-smith why", "/agent-smith\u00a0retry")
AROUND = (
    "{}",
    "\n\n{}",
    " " * 200 + "{}",
    "\ufeff\u200b{}",
    "\r{}",
    "\u2028{}",
    "\x0b\x1c{}",
    "\0{}",
    "**{}**",
    "`{}`",
    "__{}__",
    "[{}](https://example.org)",
    "> {}",
    "# {}",
    "- {}",
    "```\n{}\n```",
    "<b>{}</b>",
    "<!-- x -->{}",
    "&#47;{}",
    "\\{}",
    "{{noformat}}{}{{noformat}}",
    "<details><summary>x</summary>\n\n{}\n</details>",
)


def texts() -> list[str]:
    """Every command in every wrapping, and some in two of them."""
    single = [around.format(command) for command in COMMANDS for around in AROUND]
    chance = random.Random(1)
    double = [chance.choice(AROUND).format(chance.choice(single)) for _ in range(20)]
    return single[: len(AROUND)] + chance.sample(single, 12) + double


async def heard(platform: Platform, ticket: Ticket) -> list[str]:
    """What our own reader makes of the comments on the ticket."""
    tracker = platform.tracker
    assert isinstance(tracker, TakesCommands)
    found = []
    for comment in await platform.comments(ticket.key):
        remark = await tracker.remark(ticket, comment.ref)
        assert remark is not None
        found.append(remark.text)
    return found


async def test_P7_nothing_that_we_say_is_a_command(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(TRIGGER,)))
    for text in texts():
        await platform.tracker.say(ticket, text, deadline=soon())
    said = await heard(platform, ticket)
    assert len(said) == len(texts())
    for text in said:
        for prefix in (LABELS.prefix, *LABELS.former_prefixes):
            # Somebody may strip what stands around it, and so may the platform.
            assert command_in(text, prefix) is None, text
            assert command_in(text.strip(), prefix) is None, text


async def test_P7_our_one_comment_is_no_command_either(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(TRIGGER,)))
    for text in texts()[:12]:
        sticky = await platform.tracker.write_sticky(ticket, text, MEMO, known=None, deadline=soon())
        (shown,) = await heard(platform, ticket)
        for prefix in (LABELS.prefix, *LABELS.former_prefixes):
            assert command_in(shown.strip(), prefix) is None, shown
        assert await platform.tracker.read_sticky(ticket) == sticky, "it is still known, and not written twice"


async def test_T19_a_comment_tells_when_it_was_written(platform: Platform) -> None:
    tracker = platform.tracker
    assert isinstance(tracker, TakesCommands)
    ticket = await tracker.get(await platform.open_ticket(labels=(TRIGGER,)))
    await platform.time_passes()
    ref = await platform.person_comments(ticket.key, "/agent-smith retry", actor="bob")
    remark = await tracker.remark(ticket, ref)
    assert remark is not None
    assert remark.at is not None
    await platform.edit(ticket.key, title="another", actor="bob")
    changed = (await tracker.history(ticket, TRIGGER)).deeds[-1]
    assert timedelta() <= changed.at - remark.at < timedelta(hours=1)
