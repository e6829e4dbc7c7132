"""GitHub on a bad day, beyond what every platform is tested for: both labels in one request, and removals alone."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from agentsmith.domain.tracker import AlreadySo, Applied
from agentsmith.trackers.http import LocalGovernor, Pace, Shared
from tests.support.edges import START, TRIGGER, edge
from tests.support.simulated_github import REPOSITORY, TOKEN, SimulatedGitHub, simulated_github
from tests.support.wire_faults import FAULTS

BUSY = "agent-smith:in-progress"
PACE = Pace(first_delay=0.001, longest_delay=0.002, largest_body=1_000_000)


@pytest.fixture
async def github() -> AsyncIterator[SimulatedGitHub]:
    async with simulated_github() as started:
        yield started


@pytest.mark.parametrize(("prepared", "which"), [(True, "POST"), (False, "DELETE")], ids=["both at once", "removals"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_swap_under_every_fault_ends_in_an_outcome_and_the_same_move_later_ends_well(
    github: SimulatedGitHub, fault: str, which: str, prepared: bool
) -> None:
    clock = [0.0]
    tracker = github.tracker(pace=PACE, shared=Shared(governor=LocalGovernor(lambda: time.time() + clock[0])))
    if prepared:
        await tracker.ensure_labels()
    github.issue(TRIGGER, "agent-smith:enqueued", "bug")
    ticket = await tracker.get("1")
    github.simulator.edit_issue(REPOSITORY, 1, title="edited")  # else a 304 would have nothing to spoil
    options, _, expected = FAULTS[fault]
    github.fail(**options, method=which, times=None)
    outcome = await tracker.move(ticket, edge(*START))
    assert isinstance(outcome, expected)
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
