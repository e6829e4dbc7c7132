"""The judge itself: what it holds against the product must be the product's fault."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.ticket import TicketId
from agentsmith.store import LeaseTimes
from tests.simulation.promises import Promises
from tests.simulation.tracker import PROJECT, TRIGGER, Board, BoardTracker, Page
from tests.simulation.workers import Child, Floor

TICKET = TicketId(f"{PROJECT}#1")
TIMES = LeaseTimes(ttl=24, renew_every=6, margin=4, lock=6, leader=6)


def judge(*labels: str) -> Promises:
    board = Board(LabelSet(), lambda _: None, pages={"1": Page("1", set(labels))})
    moments = itertools.count(1)
    promises = Promises(
        board, Floor(lambda _: None, lambda _: None), times=TIMES, max_attempts=3, now=lambda: 0.0,
        moment=lambda: next(moments), say=lambda _: None,
    )  # fmt: skip
    promises.opened("1", {TRIGGER})
    return promises


def acquires(promises: Promises, fence: int) -> None:
    """The same request each time: its run has one name."""
    doer: Any = SimpleNamespace(lock_tokens=set())
    promises.heard(doer, "runs.acquire", {"ticket": TICKET}, ["acquired", str(fence), "{}", "0", "1"])


async def test_a_lease_that_redis_forgot_keeps_nobody_out_though_the_run_has_the_same_name() -> None:
    """Seed 7101440: the second lease of the same run was taken for the first one, and so for one that stood."""
    for forgets in (True, False):
        promises = judge(TRIGGER)
        acquires(promises, 1)
        guard = SimpleNamespace(actor="c1")
        child = Child(TICKET, "run-1", 1, guard, asyncio.get_running_loop().create_future())
        promises._floor.starts(child)
        if forgets:
            promises.forgot()
        acquires(promises, 2)
        assert bool(promises.violations) is not forgets


async def test_a_copy_that_lags_behind_does_so_in_everything_that_it_shows() -> None:
    """Seed 9017752: old labels came with the new revision, so nobody could ever tell that they had changed."""
    board = Board(LabelSet(), lambda _: None, pages={"1": Page("1", set())})
    tracker: BoardTracker[Any] = BoardTracker(board, SimpleNamespace(), SimpleNamespace(), lambda *_: None)
    before = tracker._ticket("1")
    board.by_person("1", add=TRIGGER)
    stale = tracker._ticket("1", stale=True)
    assert (stale.labels, stale.revision) == (before.labels, before.revision)
    assert tracker._ticket("1").revision != stale.revision


def test_what_nobody_lists_is_held_against_nobody_once_redis_forgot_it() -> None:
    """Seed 9023448: a retry was half written on a ticket without its trigger when Redis forgot it."""
    for labels, forgets, wrong in (
        (("agent-smith:done", "agent-smith:pending"), True, 0),
        (("agent-smith:done", "agent-smith:pending"), False, 1),
        ((TRIGGER, "agent-smith:done", "agent-smith:pending"), True, 1),
    ):
        promises = judge(*labels)
        promises.reconsidered("1")
        if forgets:
            promises.forgot()
        assert len(promises.wrong_labels()) == wrong
