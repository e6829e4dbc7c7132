"""`agentsmith why`: every gate between a ticket and its run, what was seen there, when, and what to do about it."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Final

from rich.text import Text

from agentsmith.cli import finding, output, reach, session
from agentsmith.config import Config
from agentsmith.daemon.open import open_trackers, shadow_of
from agentsmith.domain.errors import SecretMissing, TrackerError
from agentsmith.domain.gates import Gate
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.outcomes import OutcomeName
from agentsmith.domain.ticket import TicketId
from agentsmith.store.looks import PastLook
from agentsmith.tickets import explain
from agentsmith.tickets.explain import Known

_PATIENCE: Final = 5.0


def why(text: str, file: Path | None, *, as_json: bool) -> None:
    """Show why the ticket does or does not run."""
    config = session.begin(file)
    ticket, known, imagined = asyncio.run(output.patiently(_ask(config, text), "waiting for Redis"))
    if as_json:
        shadow = {"shadow": explain.as_data(ticket, imagined)["looks"]} if imagined is not None else {}
        output.json_result({**explain.as_data(ticket, known), **shadow})
    else:
        _show(ticket, known, imagined, config)


async def _ask(config: Config, text: str) -> tuple[TicketId, Known | None, Known | None]:
    """What is known of the ticket, and what a shadow made of it, if one has looked."""
    async with open_trackers(config) as trackers:
        tracker, key = finding.find(text, trackers)
        ticket = tracker.ticket_id(key)
        async with reach.store_if_up(config) as opened:
            known = await explain.known(opened.store, ticket, tracker.name) if opened else None
        if known is None or not known.looks:
            # Nobody ever saw it: perhaps because there is none. A tracker that is away keeps nobody from an answer.
            with contextlib.suppress(TrackerError, SecretMissing, TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await finding.read(tracker, key)
        if known is None:
            return ticket, None, None
    async with reach.store_if_up(shadow_of(config)) as opened:
        imagined = await explain.known(opened.store, ticket) if opened else None
    return ticket, known, imagined if imagined and imagined.looks else None


def _show(ticket: TicketId, known: Known | None, imagined: Known | None, config: Config) -> None:
    output.say(ticket)
    if known is None:
        output.say("Redis is not running, so nothing is known; start agentsmith: agentsmith up")
        return
    output.say(f"now      {known.where}")
    if known.published not in (None, Status.PENDING):
        output.say(f"label    {config.labels.label(known.published)}, as agentsmith wrote it last")
    for name, text in (("decided", known.unpublished), ("stop", known.stop)):
        if text:
            output.say(f"{name:8} {output.clean(text)}")
    for refusal in known.refused:
        output.say(f"refused  {refusal.doing}, since {explain.when(refusal.since)}: {output.clean(refusal.said)}")
        output.say(f"{'':8} {output.clean(refusal.remedy)}")
    if known.looks:
        _show_looks(known.looks)
    else:
        every = ", ".join(f"{name} {settings.polled}" for name, settings in config.trackers.items())
        output.say(explain.NEVER_SEEN)
        output.say(f"It is looked at when its trigger label is found: {every}. Is a daemon up? agentsmith status")
    if imagined is not None:
        output.title("What a shadow made of it (agentsmith up --shadow)")
        _show_looks(imagined.looks)


def _show_looks(looks: list[PastLook]) -> None:
    *earlier, latest = looks
    _show_look(latest)
    for look in reversed(earlier):
        output.say(f"before, {explain.span(look)}: {output.clean(explain.summary(look))}")


def _show_look(look: PastLook) -> None:
    if look.outcome == OutcomeName.ENDED:
        output.say(
            f"{explain.summary(look)}, {explain.span(look)}; what was seen before is not kept for longer than an hour"
        )
        return
    output.title(f"Looked at {explain.span(look)}, because of: {output.clean(look.cause) or 'unknown'}")
    results = {result.gate: result for result in look.gates}
    body: list[list[str | Text]] = []
    for gate in Gate:
        result = results.get(gate)
        if result is None:
            body.append([Text("-", style="dim"), gate.value, "not looked at", ""])
        else:
            mark = Text("ok", style="green") if result.passed else Text("no", style="red")
            body.append([mark, gate.value, result.saw, result.remedy])
    if look.gates:
        output.rows(("", "Gate", "What was seen", "What to do"), body)
    output.say(f"so: {output.clean(explain.summary(look))}")
