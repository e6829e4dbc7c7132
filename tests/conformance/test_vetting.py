"""What was vetted is what runs, on every platform (P7, T21): who asked last, and who changed the text after that."""

from __future__ import annotations

import itertools

import pytest

from agentsmith.domain.gates import Gate, Policy, Trigger, may
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.rules import ClaimRules
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Access, Applied, Labelling
from agentsmith.domain.vetting import DeedKind
from agentsmith.tickets import authority
from tests.conformance.harness import Platform
from tests.conformance.steps import DONE, FAILED, TRIGGER, WAITING, edge

pytestmark = [pytest.mark.needs("tells_who_labelled"), pytest.mark.needs("named_people")]

OURSELVES = "agentsmith"
BOB = Policy(access=Access.ADMIN, users=frozenset({"bob"}))
"""Bob may start work, and nobody else: nobody administers the project."""

TO_WAITING = (
    (Status.PENDING, Status.ENQUEUED),
    (Status.ENQUEUED, Status.IN_PROGRESS),
    (Status.IN_PROGRESS, Status.WAITING),
)
PHASES = {
    "before the first claim": (),
    "back from waiting": (*TO_WAITING, (Status.WAITING, Status.PENDING)),
    "recovered": (*TO_WAITING[:2], (Status.IN_PROGRESS, Status.PENDING)),
}


def rules(platform: Platform) -> ClaimRules:
    trigger = Trigger(TRIGGER, "work", exact_on=frozenset({platform.tracker.name}))
    return ClaimRules((trigger,), {platform.tracker.name: BOB}, loop_limit=10, loop_window=60.0, retry_backoff=1.0)


async def moved(platform: Platform, key: str, *moves: tuple[Status, Status | None]) -> Ticket:
    """We take the ticket along these edges."""
    ticket = await platform.tracker.get(key)
    for expect, to in moves:
        outcome = await platform.tracker.move(ticket, edge(expect, to))
        assert isinstance(outcome, Applied), outcome
        ticket = outcome.ticket
    return ticket


async def gates_of(platform: Platform, key: str) -> dict[Gate, bool]:
    judged = await authority.judge(
        authority.AccessCheck(platform.tracker), await platform.tracker.get(key), rules(platform)
    )
    return {result.gate: result.passed for result in judged.gates}


@pytest.mark.parametrize("phase", PHASES)
async def test_P7_text_that_somebody_changed_who_may_not_is_not_vetted(platform: Platform, phase: str) -> None:
    """Edited before or after the trigger was set, by whom, and what; Redis knows nothing of it."""
    me = await platform.tracker.me()
    we_may = may(Labelling(me, await platform.tracker.access_of(me)), "edited", BOB).passed
    vetting = {"bob", OURSELVES} if we_may else {"bob"}
    for number, (after, editor, what) in enumerate(
        itertools.product((False, True), ("mallory", "bob", OURSELVES), ("title", "body"))
    ):
        key = await platform.open_ticket("a ticket", "please", author="mallory")
        text = {what: f"edition {number}"}
        if not after:
            await platform.edit(key, actor=editor, **text)
        await platform.time_passes()
        await platform.person_adds(key, TRIGGER, actor="bob")
        await moved(platform, key, *PHASES[phase])
        await platform.time_passes()
        if after:
            await platform.edit(key, actor=editor, **text)
        seen = await gates_of(platform, key)
        assert seen[Gate.ACTOR], (after, editor, what)
        assert seen[Gate.TEXT] == (not after or editor in vetting), (after, editor, what)


async def test_P7_setting_the_trigger_again_vets_the_text_as_it_is_then(platform: Platform) -> None:
    key = await platform.open_ticket(author="mallory")
    await platform.person_adds(key, TRIGGER, actor="bob")
    await platform.edit(key, body="mine", actor="mallory")
    assert not (await gates_of(platform, key))[Gate.TEXT]
    await platform.time_passes()
    await platform.person_removes(key, TRIGGER, actor="bob")
    await platform.person_adds(key, TRIGGER, actor="bob")
    assert (await gates_of(platform, key))[Gate.TEXT]


async def test_P7_in_the_same_second_a_change_of_the_text_came_last(platform: Platform) -> None:
    """Where the platform tells their order none the less, that counts; to be wrong is to be safe."""
    key = await platform.open_ticket(author="mallory")
    await platform.person_adds(key, TRIGGER, actor="bob")
    await platform.edit(key, body="mine", actor="mallory")
    assert not (await gates_of(platform, key))[Gate.TEXT]


async def test_P7_a_ticket_that_is_opened_with_its_trigger_runs(platform: Platform) -> None:
    key = await platform.open_ticket("a ticket", "please", labels=("bug", TRIGGER), author="bob")
    seen = await gates_of(platform, key)
    assert seen[Gate.ACTOR]
    assert seen[Gate.TEXT]


@pytest.mark.parametrize("label", [DONE, FAILED, WAITING])
async def test_P7_unlabelled_by_tells_who_asks_for_another_run(platform: Platform, label: str) -> None:
    for remover, passes in (("bob", True), ("carol", False)):
        key = await platform.open_ticket(labels=(TRIGGER,), author="bob")
        await platform.person_adds(key, label)
        await platform.person_removes(key, label, actor=remover)
        assert (await gates_of(platform, key))[Gate.ACTOR] is passes, remover
        # Whoever may asks for it anew by setting the trigger.
        await platform.person_removes(key, TRIGGER, actor="bob")
        await platform.person_adds(key, TRIGGER, actor="bob")
        assert (await gates_of(platform, key))[Gate.ACTOR]


async def test_P7_what_we_take_off_ourselves_is_nobodys_wish(platform: Platform) -> None:
    key = await platform.open_ticket(labels=(TRIGGER,), author="carol")
    await moved(platform, key, *TO_WAITING, (Status.WAITING, Status.PENDING))
    assert not (await gates_of(platform, key))[Gate.ACTOR], "carol set the trigger, and we are not bob"
    key = await platform.open_ticket(labels=(TRIGGER,), author="bob")
    await moved(platform, key, *TO_WAITING, (Status.WAITING, Status.PENDING))
    assert (await gates_of(platform, key))[Gate.ACTOR]


async def test_T21_who_set_a_label_that_was_taken_off_last_is_nobody(platform: Platform) -> None:
    key = await platform.open_ticket(labels=(TRIGGER,), author="bob")
    ticket = await platform.tracker.get(key)
    await platform.person_removes(key, TRIGGER, actor="carol")
    assert await platform.tracker.labelled_by(ticket, TRIGGER) is None
    assert (await platform.tracker.history(ticket, TRIGGER)).deeds == ()


async def test_T21_the_history_is_told_in_order_over_all_pages(platform: Platform) -> None:
    key = await platform.open_ticket("one", "please", author="mallory")
    await platform.person_adds(key, TRIGGER, actor="bob")
    names = [f"label-{number}" for number in range(7)]
    for name in names:
        await platform.person_adds(key, name, actor="carol")
    await platform.time_passes()
    await platform.edit(key, title="two", actor="mallory")
    await platform.time_passes()
    await platform.person_removes(key, names[3], actor="alice")
    history = await platform.tracker.history(await platform.tracker.get(key), TRIGGER)
    assert history.tells_edits
    assert [str(deed) for deed in history.deeds] == [
        f"set {TRIGGER!r}",
        *(f"set {name!r}" for name in names),
        "changed the title",
        f"removed {names[3]!r}",
    ]
    who = [deed.actor.name if deed.actor else None for deed in history.deeds]
    assert who == ["bob", *("carol" for _ in names), "mallory", "alice"]
    assert [deed.at for deed in history.deeds] == sorted(deed.at for deed in history.deeds)
    labelled = [deed.event for deed in history.deeds if deed.kind is DeedKind.LABELLED]
    assert len(set(labelled)) == len(labelled)


async def test_T21_a_waiting_ticket_whose_trigger_is_set_again_is_wanted(platform: Platform) -> None:
    key = await platform.open_ticket(labels=(TRIGGER,), author="bob")
    parked = await moved(platform, key, (Status.PENDING, Status.WAITING))
    assert await authority.wanted_again(authority.AccessCheck(platform.tracker), parked, rules(platform)) is None
    await platform.time_passes()
    for actor, wanted in (("carol", None), ("bob", "bob")):
        await platform.person_removes(key, TRIGGER, actor=actor)
        await platform.person_adds(key, TRIGGER, actor=actor)
        by = await authority.wanted_again(
            authority.AccessCheck(platform.tracker), await platform.tracker.get(key), rules(platform)
        )
        assert (by.name if by else None) == wanted
