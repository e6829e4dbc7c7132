"""T19, T20 and T22: hearing what people say on a ticket, and showing them that it was read. And who belongs where."""

from __future__ import annotations

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.conversation import (
    CLOCKS_DIFFER,
    Acknowledged,
    CommentCommand,
    KeepsRemarks,
    TakesCommands,
    Verb,
    command_in,
)
from agentsmith.domain.errors import TrackerError
from agentsmith.domain.memo import Memo
from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.domain.tracker import KnowsCircles
from tests.conformance.harness import Fault, Platform
from tests.conformance.steps import TRIGGER, soon

TEXT = "/agent-smith retry\nThe server <b>is</b> back & well."


@pytest.fixture
async def ticket(platform: Platform) -> Ticket:
    key = await platform.open_ticket(labels=(TRIGGER,))
    return await platform.tracker.get(key)


def voice(platform: Platform) -> TakesCommands:
    assert isinstance(platform.tracker, TakesCommands)
    return platform.tracker


async def test_T19_a_comment_is_read_by_what_a_webhook_calls_it(platform: Platform, ticket: Ticket) -> None:
    await platform.person_comments(ticket.key, "before", actor="alice")
    ref = await platform.person_comments(ticket.key, TEXT, actor="bob")
    await platform.person_comments(ticket.key, "after", actor="alice")
    remark = await voice(platform).remark(ticket, ref)
    assert remark is not None
    assert remark.text.splitlines()[0] == "/agent-smith retry"
    assert remark.author.name == "bob"
    assert await platform.tracker.access_of(remark.author) == await platform.tracker.access_of(
        Actor(remark.author.id, "bob")
    )


async def test_T19_one_that_is_gone_is_none(platform: Platform, ticket: Ticket) -> None:
    ref = await platform.person_comments(ticket.key, TEXT)
    await platform.person_withdraws(ticket.key, ref)
    assert await voice(platform).remark(ticket, ref) is None


async def test_T19_one_on_another_ticket_is_none(platform: Platform, ticket: Ticket) -> None:
    other = await platform.open_ticket()
    await platform.person_comments(other, "more")
    ref = await platform.person_comments(other, TEXT)
    found = await voice(platform).remark(ticket, ref)
    assert found is None or found.text != TEXT


@pytest.mark.parametrize("ref", ["", "0", "4711", "../../user", "1?x=1", "rev-999", "x" * 300, "١٢"])
async def test_T19_what_names_no_comment_is_none(platform: Platform, ticket: Ticket, ref: str) -> None:
    assert await voice(platform).remark(ticket, ref) is None


async def test_T20_an_acknowledgement_shows_once(platform: Platform, ticket: Ticket) -> None:
    ref = await platform.person_comments(ticket.key, TEXT)
    remark = await voice(platform).remark(ticket, ref)
    assert remark is not None
    first = await voice(platform).acknowledge(ticket, remark.id, deadline=soon())
    again = await voice(platform).acknowledge(ticket, remark.id, deadline=soon())
    if platform.capabilities.reactions:
        assert (first, again) == (Acknowledged.NOW, Acknowledged.BEFORE)
        assert await platform.reactions(ticket.key, ref) == ["agentsmith"]
    else:
        assert first is again is Acknowledged.NO_WAY
    assert len(await platform.comments(ticket.key)) == 1, "it says nothing"
    assert await platform.labels(ticket.key) == {TRIGGER}


@pytest.mark.needs("reactions")
async def test_T20_somebody_elses_acknowledgement_is_not_ours(platform: Platform, ticket: Ticket) -> None:
    ref = await platform.person_comments(ticket.key, TEXT)
    remark = await voice(platform).remark(ticket, ref)
    assert remark is not None
    second = await platform.second_tracker()
    assert isinstance(second, TakesCommands)
    assert await second.acknowledge(ticket, remark.id, deadline=soon()) is Acknowledged.NOW
    assert await voice(platform).acknowledge(ticket, remark.id, deadline=soon()) is Acknowledged.BEFORE, "one account"


@pytest.mark.needs("reactions", Fault.FORBIDDEN)
async def test_T20_failures_are_typed(platform: Platform, ticket: Ticket) -> None:
    ref = await platform.person_comments(ticket.key, TEXT)
    remark = await voice(platform).remark(ticket, ref)
    assert remark is not None
    await platform.inject(Fault.FORBIDDEN)
    with pytest.raises(TrackerError) as told:
        await voice(platform).acknowledge(ticket, remark.id, deadline=soon())
    assert not any(secret in str(told.value) for secret in platform.secrets)
    await platform.heal()
    with pytest.raises(TrackerError):
        await voice(platform).acknowledge(ticket, remark.id, deadline=boottime() - 1)
    assert await platform.reactions(ticket.key, ref) == []


ROLES = {
    "azure-devops": "team administrator",
    "github": "maintain",
    "gitlab": "maintainer",
    "jira": "Developers",
    "jira-data-center": "Developers",
    "jira-status": "Developers",
}


@pytest.mark.needs("circles")
async def test_who_belongs_where_is_told(platform: Platform, platform_name: str) -> None:
    tracker, role = platform.tracker, ROLES.get(platform_name, "")
    assert isinstance(tracker, KnowsCircles)
    people: dict[str, Actor] = {}
    for name in ("alice", "bob"):
        key = await platform.open_ticket(labels=(TRIGGER,), author=name)
        labelling = await tracker.labelled_by(await tracker.get(key), TRIGGER)
        assert labelling is not None
        people[name] = labelling.actor
    await platform.put_into_team("core", "alice")
    await platform.give_role(role, "bob")
    fresh = await platform.second_tracker()  # memberships are remembered for a while
    assert isinstance(fresh, KnowsCircles)

    async def where(name: str, teams: set[str], roles: set[str]) -> str:
        return await fresh.belongs_to(people[name], teams=frozenset(teams), roles=frozenset(roles))

    assert "'core'" in await where("alice", {"core", "other"}, set())
    assert await where("bob", {"core", "other"}, set()) == ""
    assert repr(role) in await where("bob", set(), {role, "nobody has this"})
    assert await where("alice", set(), {role}) == ""
    assert await where("alice", set(), set()) == ""
    nobody = Actor("", "core")
    assert await fresh.belongs_to(nobody, teams=frozenset({"core"}), roles=frozenset({role})) == ""


async def test_T22_everything_said_since_a_moment_is_told_with_author_and_time(
    platform: Platform, ticket: Ticket
) -> None:
    tracker = platform.tracker
    assert isinstance(tracker, KeepsRemarks)
    assert await tracker.remarks(ticket, since=0) == ()
    await platform.person_comments(ticket.key, "first\n\nand more", actor="alice")
    await platform.person_comments(ticket.key, "/agent-smith answer second", actor="bob")
    await tracker.write_sticky(ticket, "ours", Memo("r", 1), known=None, deadline=soon())
    told = await tracker.remarks(ticket, since=0)
    assert [remark.author.name for remark in told[:2]] == ["alice", "bob"]
    assert told[0].text.split() == ["first", "and", "more"]
    assert command_in(told[1].text, "agent-smith") == CommentCommand(Verb.ANSWER, "answer", "second")
    assert told[2].author.id == (await tracker.me()).id
    assert all(remark.at is not None for remark in told)
    ref = await voice(platform).remark(ticket, told[1].id)
    assert ref is not None
    assert (ref.author, ref.text, ref.at) == (told[1].author, told[1].text, told[1].at)
    newest = max(remark.at.timestamp() for remark in told if remark.at is not None)
    assert await tracker.remarks(ticket, since=newest + CLOCKS_DIFFER + 1) == ()
    assert await tracker.remarks(ticket, since=newest)
