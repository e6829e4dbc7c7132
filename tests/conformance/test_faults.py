"""A bad day on every platform: each fault against each call, and what is on the ticket afterwards (T9, T14).

Bad input is a fault like others: malformed JSON, another shape, HTML, huge answers, invalid UTF-8, expired tokens.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from agentsmith.domain.errors import (
    AgentSmithError,
    RateLimited,
    Refused,
    TrackerError,
    TrackerUnavailable,
)
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.domain.tracker import (
    AlreadySo,
    Applied,
    DefinesLabels,
    Forbidden,
    Tracker,
)
from agentsmith.trackers.http import Pace
from tests.conformance.simulated import WRITES, SimulatedPlatform
from tests.conformance.steps import DONE, ENQUEUED, IN_PROGRESS, LABELS, MEMO, START, TRIGGER, edge, found, soon
from tests.support.wire_faults import FAULTS, OUTCOMES

pytestmark = pytest.mark.needs("simulated")

Platform = SimulatedPlatform[Any]
SMALL = Pace(first_delay=0.001, longest_delay=0.002, largest_body=1_000_000)
BODY = "x" * 300 + "the whole body"

CALLS: Mapping[str, Callable[[Tracker, Ticket], Awaitable[Any]]] = {
    "get": lambda tracker, ticket: tracker.get(ticket.key),
    "find": lambda tracker, _: found(tracker, TRIGGER),
    "find several": lambda tracker, _: found(tracker, TRIGGER, "bug"),
    "tidy": lambda tracker, ticket: tracker.tidy(ticket, keep=Status.DONE, deadline=soon()),
    "read_sticky": lambda tracker, ticket: tracker.read_sticky(ticket),
    "write_sticky": lambda tracker, ticket: tracker.write_sticky(ticket, "x", MEMO, known=None, deadline=soon()),
    "me": lambda tracker, _: tracker.me(),
    "labelled_by": lambda tracker, ticket: tracker.labelled_by(ticket, TRIGGER),
    "history": lambda tracker, ticket: tracker.history(ticket, TRIGGER),
    "access_of": lambda tracker, _: tracker.access_of(Actor("4711", "alice")),
    "blockers": lambda tracker, ticket: tracker.blockers(ticket),
}


async def _fails(platform: Platform, call: str, options: Mapping[str, Any], expected: type[TrackerError]) -> str:
    """Let one call meet the fault on a ticket of its own; answers what was said."""
    key = await platform.open_ticket("title", BODY, labels=(TRIGGER, "bug", IN_PROGRESS, DONE))
    ticket = await platform.tracker.get(key)
    await platform.edit(key, title="edited")  # else a 304 would have nothing to spoil
    tracker = platform.another(pace=SMALL)
    platform.spoil(**options, times=None)
    with pytest.raises(AgentSmithError) as caught:
        async with asyncio.timeout(30):
            await CALLS[call](tracker, ticket)
    assert isinstance(caught.value, expected), (call, caught.value)
    text = str(caught.value)
    assert text.startswith(platform.says), call
    assert not any(secret in text for secret in (*platform.secrets, "the whole body")), call
    assert len(text) < 500, call
    if isinstance(caught.value, RateLimited):
        assert caught.value.retry_at is not None
        assert caught.value.retry_at > time.time()
    await platform.heal()
    return text


@pytest.mark.parametrize("fault", FAULTS)
async def test_T14_every_failure_of_every_call_is_typed_and_holds_no_secret(platform: Platform, fault: str) -> None:
    options, expected, _ = FAULTS[fault]
    for call in CALLS:
        await _fails(platform, call, options, expected)


async def test_T14_a_refusal_is_told_in_the_platforms_own_words(platform: Platform) -> None:
    options = {"kind": "status", "status": 403, "body": platform.denial}
    for call in CALLS:
        if (platform.says, call) != ("GitLab", "blockers"):  # where a refusal means a tier without links
            assert platform.refusal in await _fails(platform, call, options, Refused), call


async def test_T14_what_can_go_wrong_only_here_is_typed_too(platform: Platform, own_fault: str) -> None:
    options, expected = platform.own_faults[own_fault]
    for call in CALLS:
        if platform.says == "Azure DevOps" and call == "access_of":
            continue  # asked once in a while: who else has asked decides
        await _fails(platform, call, options, expected)


async def test_T14_labels_that_cannot_be_made_are_an_error_too(platform: Platform) -> None:
    tracker = platform.another(pace=SMALL)
    if not isinstance(tracker, DefinesLabels):
        return
    for options, expected, _ in FAULTS.values():
        platform.spoil(**options, times=None)
        with pytest.raises(expected):
            await tracker.ensure_labels()
        await platform.heal()
    assert len(await tracker.ensure_labels()) == len(Status)


async def test_T2_records_that_are_none_are_skipped_or_refused_but_never_believed(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(TRIGGER,)))
    bodies: list[Any] = [
        [None, 3, {"body": []}],
        {"value": [None], "issues": [3], "values": [None], "comments": [7]},
    ]
    for body in bodies:
        platform.spoil("status", status=200, body=body, times=None)
        for call in CALLS.values():
            try:
                async with asyncio.timeout(30):
                    seen = await call(platform.another(pace=SMALL), ticket)
            except TrackerError:
                continue
            assert not seen, seen
        await platform.heal()


@pytest.mark.parametrize("which", ["reads", "writes"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_T9_a_move_under_every_fault_ends_in_an_outcome_and_the_same_move_later_ends_well(
    platform: Platform, fault: str, which: str
) -> None:
    options, _, expected = FAULTS[fault]
    await _move_under(platform, options, which, expected)


@pytest.mark.parametrize("which", ["reads", "writes"])
async def test_T9_a_move_under_what_can_go_wrong_only_here(platform: Platform, own_fault: str, which: str) -> None:
    options, error = platform.own_faults[own_fault]
    if error in OUTCOMES:
        await _move_under(platform, options, which, OUTCOMES[error])


async def _move_under(platform: Platform, options: Mapping[str, Any], which: str, expected: type) -> None:
    tracker = platform.another(pace=SMALL)
    ticket = await tracker.get(await platform.open_ticket(labels=(TRIGGER, ENQUEUED, "bug")))
    if which == "reads":
        # So that what was read is stale, and the move has to look again.
        await platform.edit(ticket.key, title="edited")
        platform.spoil(**options, method="GET", times=None)
    else:
        platform.spoil(**options, method=WRITES, path=platform.written, times=None)
    outcome = await tracker.move(ticket, edge(*START))
    assert isinstance(outcome, expected), outcome
    assert not any(secret in str(outcome) for secret in platform.secrets)
    await platform.heal()
    assert isinstance(await tracker.move(ticket, edge(*START)), Applied | AlreadySo)
    assert await platform.labels(ticket.key) == {TRIGGER, "bug", IN_PROGRESS}
    history = await platform.label_history(ticket.key)
    assert all(LABELS.statuses(labels) for labels in history)


@pytest.mark.parametrize("kind", ["applied_then_lost", "reset_mid_body", "malformed_json", "invalid_utf8"])
async def test_T13_a_comment_whose_answer_was_lost_or_garbled_is_never_made_twice(
    platform: Platform, kind: str
) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED,)))
    outcome = await platform.tracker.move(ticket, edge(*START))
    assert isinstance(outcome, Applied)
    platform.spoil(kind, method="POST", path=r"comment|notes")
    for text in ("queued", "running"):
        try:
            await platform.tracker.write_sticky(outcome.ticket, text, MEMO, known=None, deadline=soon())
        except TrackerError:
            assert text == "queued"
    (comment,) = await platform.comments(ticket.key)
    assert "running" in comment.body


async def test_T13_a_comment_that_nobody_knows_about_is_looked_for_next_time(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(ENQUEUED,)))
    outcome = await platform.tracker.move(ticket, edge(*START))
    assert isinstance(outcome, Applied)
    platform.spoil("applied_then_lost", method="POST", path=r"comment|notes")
    platform.spoil("status", status=502, method="GET", times=None)
    with pytest.raises(TrackerUnavailable):
        await platform.tracker.write_sticky(outcome.ticket, "queued", MEMO, known=None, deadline=soon())
    await platform.heal()
    await platform.tracker.write_sticky(outcome.ticket, "running", MEMO, known=None, deadline=soon())
    (comment,) = await platform.comments(ticket.key)
    assert "running" in comment.body


async def test_T14_a_write_that_is_dropped_in_silence_is_forbidden(platform: Platform) -> None:
    """Where the token may not write labels some platforms answer with success and do nothing."""
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(TRIGGER, ENQUEUED)))
    platform.spoil("silent_permission_loss", times=None)
    outcome = await platform.tracker.move(ticket, edge(*START))
    assert isinstance(outcome, Forbidden)
    assert "may not" in outcome.reason
    with pytest.raises(Refused, match="may not"):
        await platform.tracker.tidy(await platform.tracker.get(ticket.key), keep=Status.DONE, deadline=soon())
    assert await platform.labels(ticket.key) == {TRIGGER, ENQUEUED}
    await platform.heal()
    assert isinstance(await platform.tracker.move(ticket, edge(*START)), Applied)


async def test_T9_a_move_that_was_cancelled_half_way_is_finished_after_a_look(platform: Platform) -> None:
    ticket = await platform.tracker.get(await platform.open_ticket(labels=(TRIGGER, ENQUEUED)))
    hold = platform.spoil("slow", method=WRITES, path=platform.written)
    moving = asyncio.create_task(platform.tracker.move(ticket, edge(*START)))
    await hold.hit()
    moving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await moving
    await platform.heal()
    assert isinstance(await platform.tracker.move(ticket, edge(*START)), Applied | AlreadySo)
    assert await platform.labels(ticket.key) == {TRIGGER, IN_PROGRESS}


# --- records that are nearly right ---------------------------------------------------------------------------------


def _garbled(record: Any, path: tuple[str, ...], value: Any) -> Any:
    head, *rest = path
    return {**record, head: _garbled(record[head], tuple(rest), value) if rest else value}


async def test_T3_a_record_with_a_wrong_field_is_never_believed(platform: Platform) -> None:
    key = await platform.open_ticket("title", BODY, labels=(TRIGGER,))
    assert key.removeprefix("WEB-") == "1"
    tracker = platform.another(pace=SMALL)
    ticket = await tracker.get(key)
    record = json.loads(next(r for r in platform.recorded() if r.path.endswith(f"/{key}")).answer_body)
    await platform.edit(key, title="edited")
    for path, value in platform.wrong:
        garbled = _garbled(record, path, value)
        platform.spoil("status", status=200, body=garbled, method="GET", times=None)
        with pytest.raises(TrackerError) as caught:
            await tracker.get(key)
        assert not caught.value.retryable, (path, value)
        assert str(caught.value).startswith(platform.says)
        assert "the whole body" not in str(caught.value)
        outcome = await tracker.move(ticket, edge(*START))
        assert not isinstance(outcome, Applied), (path, value)
        await platform.heal()
    assert await platform.labels(key) == {TRIGGER}
