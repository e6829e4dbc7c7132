"""A label's new name says nothing about who set it under its old one (P7): GitLab's label events know numbers only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agentsmith.domain.gates import Gate
from agentsmith.domain.outcomes import Claimed, Rejected
from agentsmith.domain.tracker import Labelling
from agentsmith.simulators import Fault
from agentsmith.simulators.gitlab.simulator import GitLabSimulator
from agentsmith.store import Store
from tests.support.edges import TRIGGER
from tests.support.roles_on_simulator import TRIGGERS, RolesOnSimulator, roles_on_simulator
from tests.support.simulated_gitlab import PROJECT, SimulatedGitLab, simulated_gitlab


@pytest.fixture
async def gitlab() -> AsyncIterator[SimulatedGitLab]:
    async with simulated_gitlab() as started:
        yield started


@pytest.fixture
async def world(tmp_path: Path, store: Store, redis_url: str) -> AsyncIterator[RolesOnSimulator]:
    async with roles_on_simulator("gitlab", tmp_path, store, redis_url) as world:
        yield world


async def setter(gitlab: SimulatedGitLab, page_size: int = 100) -> Labelling | None:
    """Who set the trigger on the first issue, for somebody who has never looked before."""
    tracker = gitlab.tracker(page_size=page_size)
    return await tracker.labelled_by(await tracker.get("1"), TRIGGER)


async def test_P7_a_label_that_is_renamed_to_the_trigger_starts_nothing(world: RolesOnSimulator) -> None:
    """The ticket is not claimed, the gate tells the reason, and setting the trigger again is the way out."""
    simulator = world.stage.simulator
    assert isinstance(simulator, GitLabSimulator)
    project = next(iter(simulator.hub.world.projects.values())).path
    key = world.stage.tickets.open("Fix it", ["later"])  # by somebody who might have set the trigger
    simulator.clock.advance(60)
    simulator.edit_label(project, "later", name=TRIGGERS[0], actor="a planner")
    assert TRIGGERS[0] in world.labels(key)
    outcome = await world.claim(key)
    assert isinstance(outcome, Rejected)
    who = next(result for result in outcome.gates if result.gate is Gate.ACTOR)
    assert "may have had another name when it was set" in who.saw
    assert who.remedy == "set the trigger again"
    simulator.clock.advance(60)
    simulator.remove_label(project, int(key), TRIGGERS[0], world.stage.writer)
    simulator.add_label(project, int(key), TRIGGERS[0], world.stage.writer)
    assert isinstance(await world.claim(key), Claimed)


@pytest.mark.parametrize("change", [{"name": "other"}, {"color": "#000000"}], ids=["a name", "a colour"])
async def test_P7_nobody_has_set_a_label_that_was_changed_since(
    gitlab: SimulatedGitLab, change: dict[str, str]
) -> None:
    """GitLab does not tell what was changed; whether the name came back does not matter either."""
    gitlab.issue(TRIGGER)
    gitlab.simulator.clock.advance(60)
    gitlab.simulator.edit_label(PROJECT, TRIGGER, **change)
    if "name" in change:
        gitlab.simulator.edit_label(PROJECT, change["name"], name=TRIGGER)
    assert await setter(gitlab) is None


@pytest.mark.parametrize(("between", "known"), [(0, False), (0.5, False), (2, True)])
async def test_P7_in_the_same_second_the_change_came_last(gitlab: SimulatedGitLab, between: float, known: bool) -> None:
    """GraphQL tells whole seconds."""
    gitlab.issue(TRIGGER)
    gitlab.simulator.clock.advance(60 - gitlab.simulator.clock.now() % 1)
    gitlab.simulator.remove_label(PROJECT, 1, TRIGGER)
    gitlab.simulator.edit_label(PROJECT, TRIGGER, color="#123456")
    gitlab.simulator.clock.advance(between)
    gitlab.simulator.add_label(PROJECT, 1, TRIGGER, "mona")
    assert (await setter(gitlab) is not None) is known


async def test_a_label_that_somebody_makes_by_setting_it_was_set_by_them(gitlab: SimulatedGitLab) -> None:
    gitlab.issue()
    gitlab.simulator.add_label(PROJECT, 1, TRIGGER, "mona")
    found = await setter(gitlab)
    assert found is not None
    assert found.actor.name == "mona"


async def test_the_label_is_found_among_any_number_of_them(gitlab: SimulatedGitLab) -> None:
    gitlab.issue(*(f"label-{number}" for number in range(7)), TRIGGER, "zulu")
    assert await setter(gitlab, page_size=3) is not None
    gitlab.simulator.clock.advance(60)
    gitlab.simulator.edit_label(PROJECT, TRIGGER, color="#123456")
    assert await setter(gitlab, page_size=3) is None


async def test_a_trigger_set_on_a_waiting_ticket_by_a_new_name_is_nobodys(gitlab: SimulatedGitLab) -> None:
    """What happened after another label was set is told too: there a renamed label has nobody who set it either."""
    gitlab.issue("agent-smith:waiting")
    gitlab.simulator.clock.advance(60)
    gitlab.simulator.add_label(PROJECT, 1, "later", "mona")
    gitlab.simulator.clock.advance(60)
    gitlab.simulator.edit_label(PROJECT, "later", name=TRIGGER)
    tracker = gitlab.tracker()
    parked, renamed = (await tracker.history(await tracker.get("1"), "agent-smith:waiting")).deeds
    assert parked.actor is not None
    assert (renamed.label, renamed.actor) == (TRIGGER, None)


@pytest.mark.parametrize(
    "fault", [Fault("no_label_dates", times=None), Fault("status", status=404, path="/graphql$", times=None)]
)
async def test_P7_where_gitlab_does_not_tell_nobody_has_set_anything(gitlab: SimulatedGitLab, fault: Fault) -> None:
    gitlab.issue(TRIGGER)
    gitlab.simulator.inject(fault)
    tracker = gitlab.tracker()
    with capture_logs() as logged:
        for _ in range(2):
            (deed,) = (await tracker.history(await tracker.get("1"), TRIGGER)).deeds
            assert deed.actor is None
            assert "GraphQL API is needed" in deed.doubt
    assert len([line for line in logged if "GraphQL" in line["event"]]) == 1, "told once"
