"""What a tracker remembers has a bound: finished tickets, open or closed, leave nothing that grows without one."""

from __future__ import annotations

from typing import Final

import pytest

from agentsmith.domain.lifecycle import Status
from agentsmith.domain.tracker import Applied, Tracker
from tests.conformance.harness import Platform
from tests.conformance.steps import FINISH, MEMO, START, TRIGGER, edge, found, soon
from tests.support.holdings import holdings

AS_LONG_AS_THE_LIST: Final = frozenset({"KeptList.tickets"})
"""Bounded by a number that is looked at when it is made: a longer list is not kept."""


async def finish(platform: Platform, tracker: Tracker, count: int) -> None:
    for _ in range(count):
        key = await platform.open_ticket(labels=(TRIGGER,))
        ticket = await tracker.get(key)
        await tracker.labelled_by(ticket, TRIGGER)
        for expect, to in ((Status.PENDING, Status.ENQUEUED), START, FINISH):
            outcome = await tracker.move(ticket, edge(expect, to))
            assert isinstance(outcome, Applied)
            ticket = outcome.ticket
        await tracker.write_sticky(ticket, "done", MEMO, known=None, deadline=soon())
        await tracker.read_sticky(ticket)
    await found(tracker, TRIGGER)


@pytest.mark.needs("cheap")
async def test_finished_tickets_leave_nothing_that_grows_without_a_bound(platform: Platform) -> None:
    tracker = platform.paged_by(3)
    await finish(platform, tracker, 4)
    before = holdings(tracker)
    await finish(platform, tracker, 4)
    grown = {name: count - before[name] for name, count in holdings(tracker).items() if count - before[name] >= 4}
    assert set(grown) <= AS_LONG_AS_THE_LIST, "use Bounded for what is remembered by a name from outside"
