"""GitHub on a bad day: every fault against every call, and what is on the issue afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.errors import (
    AgentSmithError,
    BadAnswer,
    RateLimited,
    Refused,
    TrackerError,
    TrackerUnavailable,
    Unauthorized,
)
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import AlreadySo, Applied, Forbidden, Limited, Unknown
from agentsmith.trackers.github.tracker import GitHubTracker
from agentsmith.trackers.http import LocalGovernor, Pace, Shared
from tests.support.github_bench import (
    MEMO,
    REPOSITORY,
    START,
    TOKEN,
    TRIGGER,
    Bench,
    bench,
    edge,
)

BUSY = "agent-smith:in-progress"
DONE = "agent-smith:done"
WRITE = "POST|DELETE|PATCH"
PACE = Pace(first_delay=0.001, longest_delay=0.002, largest_body=1_000_000)


@pytest.fixture
async def github() -> AsyncIterator[Bench]:
    async with bench() as started:
        yield started


async def _find(tracker: GitHubTracker) -> list[Ticket]:
    return [t async for t in tracker.find(TRIGGER)]


CALLS: dict[str, Callable[[GitHubTracker, Ticket], Awaitable[Any]]] = {
    "get": lambda tracker, ticket: tracker.get(ticket.key),
    "find": lambda tracker, _: _find(tracker),
    "tidy": lambda tracker, t: tracker.tidy(t, keep=Status.DONE, deadline=boottime() + 20),
    "read_sticky": lambda tracker, t: tracker.read_sticky(t),
    "write_sticky": lambda tracker, t: tracker.write_sticky(t, "x", MEMO, known=None, deadline=boottime() + 20),
    "me": lambda tracker, _: tracker.me(),
    "labelled_by": lambda tracker, t: tracker.labelled_by(t, TRIGGER),
    "blockers": lambda tracker, t: tracker.blockers(t),
    "ensure_labels": lambda tracker, _: tracker.ensure_labels(),
}
FAULTS: dict[str, tuple[dict[str, Any], type[TrackerError]]] = {
    "500": ({"kind": "status", "status": 500}, TrackerUnavailable),
    "502 html": ({"kind": "html_instead_of_json", "status": 502}, TrackerUnavailable),
    "200 html": ({"kind": "html_instead_of_json", "status": 200}, BadAnswer),
    "403 html": ({"kind": "html_instead_of_json", "status": 403}, Refused),
    "404 html": ({"kind": "html_instead_of_json", "status": 404}, BadAnswer),
    "refused": ({"kind": "refuse"}, TrackerUnavailable),
    "cut off": ({"kind": "reset_mid_body"}, TrackerUnavailable),
    "lost": ({"kind": "applied_then_lost"}, TrackerUnavailable),
    "half": ({"kind": "malformed_json"}, BadAnswer),
    "not utf-8": ({"kind": "invalid_utf8"}, BadAnswer),
    "huge": ({"kind": "huge", "size": 3_000_000}, BadAnswer),
    "another shape": ({"kind": "status", "status": 200, "body": {"message": "surprise"}}, BadAnswer),
    "a list of nothing": ({"kind": "status", "status": 200, "body": [None, 3, {"body": []}]}, BadAnswer),
    "expired": ({"kind": "bad_credentials"}, Unauthorized),
    "secondary": ({"kind": "secondary_limit", "retry_after": 120}, RateLimited),
    "secondary, no time": ({"kind": "secondary_limit", "status": 429}, RateLimited),
    "primary": ({"kind": "primary_limit", "seconds": 600}, RateLimited),
    "denied": ({"kind": "status", "status": 403, "body": {"message": f"No, {TOKEN}"}}, Refused),
    "too old": ({"kind": "status", "status": 410, "body": {"message": "This version is gone"}}, TrackerError),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_failure_is_typed_tells_githubs_words_and_no_secret(github: Bench, call: str, fault: str) -> None:
    tracker = github.tracker(pace=PACE)
    github.issue(TRIGGER, BUSY, DONE, body="the whole body")
    ticket = await tracker.get("1")
    github.simulator.edit_issue(REPOSITORY, 1, title="edited")  # else a 304 would have nothing to spoil
    options, expected = FAULTS[fault]
    github.fail(**options, times=None)
    if fault == "a list of nothing" and call in ("find", "read_sticky", "labelled_by", "write_sticky"):
        # Malformed records in a list are skipped; nothing else is made of them.
        await asyncio.wait_for(_quietly(CALLS[call](tracker, ticket)), 30)
        return
    with pytest.raises(AgentSmithError) as caught:
        await asyncio.wait_for(CALLS[call](tracker, ticket), 30)
    assert isinstance(caught.value, expected)
    text = str(caught.value)
    assert text.startswith("GitHub")
    assert TOKEN not in text
    assert "benchbench" not in text
    assert "the whole body" not in text
    assert len(text) < 500
    if isinstance(caught.value, RateLimited):
        assert caught.value.retry_at is not None
        assert caught.value.retry_at > time.time()


async def _quietly(call: Awaitable[Any]) -> None:
    try:
        await call
    except TrackerError:
        return


OUTCOMES: dict[str, type] = {
    "500": Unknown,
    "502 html": Unknown,
    "200 html": Unknown,
    "refused": Unknown,
    "cut off": Unknown,
    "lost": Unknown,
    "half": Unknown,
    "not utf-8": Unknown,
    "huge": Unknown,
    "another shape": Unknown,
    "a list of nothing": Unknown,
    "expired": Forbidden,
    "secondary": Limited,
    "secondary, no time": Limited,
    "primary": Limited,
    "denied": Forbidden,
    "403 html": Forbidden,
}


@pytest.mark.parametrize("prepared", [True, False], ids=["graphql", "rest"])
@pytest.mark.parametrize("which", [WRITE, "GET", "DELETE"], ids=["writes", "reads", "removals"])
@pytest.mark.parametrize("fault", OUTCOMES)
async def test_a_move_under_every_fault_ends_in_an_outcome_and_the_same_move_later_ends_well(
    github: Bench, fault: str, which: str, prepared: bool
) -> None:
    clock = [0.0]
    tracker = github.tracker(pace=PACE, shared=Shared(governor=LocalGovernor(lambda: time.time() + clock[0])))
    if prepared:
        await tracker.ensure_labels()
    github.issue(TRIGGER, "agent-smith:enqueued", "bug")
    ticket = await tracker.get("1")
    github.simulator.edit_issue(REPOSITORY, 1, title="edited")  # else a 304 would have nothing to spoil
    options, _ = FAULTS[fault]
    github.fail(**options, method=which, times=None)
    outcome = await tracker.move(ticket, edge(*START))
    if which == "DELETE" and prepared:
        assert isinstance(outcome, Applied)  # both labels changed in one POST
    else:
        assert isinstance(outcome, OUTCOMES[fault])
        assert TOKEN not in str(outcome)
    github.simulator.clear_faults()
    clock[0] = 4000.0
    # A quota that was used up comes back with time, on their clock as on ours.
    github.simulator.clock.advance(4000)
    assert isinstance(await tracker.move(ticket, edge(*START)), Applied | AlreadySo)
    assert github.labels("1") == {TRIGGER, "bug", BUSY}
    history = github.simulator.repository(REPOSITORY).versions[1]
    names = [{label.name for label in github.simulator.repository(REPOSITORY).labels_of(v)} for v in history]
    assert all({"agent-smith:enqueued", BUSY} & seen for seen in names)
