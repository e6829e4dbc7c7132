"""The roles on every platform's simulator: what a ticket really costs from label to done, and that faults lose nothing.

The README quotes `BUDGET`; `pytest tests/roles/test_platforms.py -k costs` counts it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentsmith.domain.gates import Gate
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.outcomes import Claimed, Rejected
from agentsmith.domain.tracker import DefinesLabels
from agentsmith.simulators import Fault
from agentsmith.simulators.stages import STAGES
from agentsmith.store import Store
from tests.support.stage_world import TRIGGERS, StageWorld, stage_world

BUDGET = {"github": 9, "gitlab": 8, "azure-devops": 6, "jira": 8}
"""Requests that count against a quota, from the label to done, comment included; look-ups of people apart."""
IDLE_POLL = {"github": 0, "gitlab": 1, "azure-devops": 1, "jira": 1}
LOOK_UPS = {"github": 2, "gitlab": 4, "azure-devops": 3, "jira": 3}
"""What it costs to find out who set the label and what they may, the first time."""
TRIGGER = TRIGGERS[1]


@pytest.fixture(params=STAGES)
def platform(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def world(platform: str, tmp_path: Path, store: Store, redis_url: str) -> AsyncIterator[StageWorld]:
    async with stage_world(platform, tmp_path, store, redis_url) as world:
        yield world


async def test_from_label_to_done_costs_no_more_than_the_budget(world: StageWorld, platform: str) -> None:
    """The first ticket teaches the process what does not change; this is what every further one costs."""
    if isinstance(world.tracker, DefinesLabels):
        await world.tracker.ensure_labels()
    first = world.stage.open_ticket("the first", [TRIGGER])
    await world.carry_through(first)
    for _ in range(2):
        before = await world.spent()
        world.sent()
        key = world.stage.open_ticket("Fix it", [TRIGGER, "team-blue"])
        assert isinstance(await world.claim(key), Claimed)
        await world.run_queue()
        assert world.labels(key) == {TRIGGER, "team-blue", "agent-smith:done"}
        assert len(world.stage.comments(key)) == 1
        counted = world.stage.simulator.counted_requests()
        told = world.sent()
        spent = await world.spent() - before
        assert sum(spent.values()) == len(counted), told
        assert spent["claim"] + spent["run"] == BUDGET[platform], told
        assert 0 < spent["actor"] <= LOOK_UPS[platform]


async def test_the_first_ticket_of_a_process_costs_little_more(world: StageWorld, platform: str) -> None:
    key = world.stage.open_ticket("Fix it", [TRIGGER])
    await world.carry_through(key)
    spent = await world.spent()
    assert BUDGET[platform] <= spent["claim"] + spent["run"] <= BUDGET[platform] + 2


async def test_our_one_comment_tells_the_end(world: StageWorld) -> None:
    key = world.stage.open_ticket("Fix it", [TRIGGER])
    assert isinstance(await world.claim(key), Claimed)
    (comment,) = world.stage.comments(key)
    assert "is waiting for a free slot" in comment
    await world.run_queue()
    (comment,) = world.stage.comments(key)
    assert "is done" in comment


async def test_an_idle_poll_costs_one_request_at_most_however_many_triggers_there_are(
    world: StageWorld, platform: str
) -> None:
    for label in TRIGGERS:
        for _ in range(3):
            world.stage.open_ticket("Fix it", [label, "agent-smith:done"])
    assert (await world.poller.poll(world.tracker)).found == 6
    world.stage.simulator.clock.advance(300)
    await world.poller.poll(world.tracker)  # what changed lately is looked at once more
    world.stage.simulator.clock.advance(300)
    for _ in range(3):
        world.sent()
        assert (await world.poller.poll(world.tracker)).found == 6
        assert len(world.stage.simulator.counted_requests()) == IDLE_POLL[platform]


async def test_a_poll_sees_what_changed_on_any_trigger(world: StageWorld) -> None:
    first, second = (world.stage.open_ticket("Fix it", [label, "agent-smith:done"]) for label in TRIGGERS)
    assert (await world.poller.poll(world.tracker)).found == 2
    third = world.stage.open_ticket("Fix it", [TRIGGERS[0]])
    world.stage.add_label(first, TRIGGERS[1])  # found once, although it carries both
    polled = await world.poller.poll(world.tracker)
    assert set(polled.looks) == {world.tracker.ticket_id(key) for key in (first, second, third)}
    assert polled.signalled == 1


async def test_labels_get_their_colours_once_where_labels_are_things(world: StageWorld) -> None:
    made: list[str] = []
    for _ in range(2):
        await world.poller._prepare(world.tracker)
        made += [line for line in world.sent() if line.startswith("POST") and line.endswith("/labels 201")]
    assert len(made) == (len(Status) if isinstance(world.tracker, DefinesLabels) else 0)


@pytest.mark.parametrize("nth", range(6))
async def test_an_answer_lost_after_the_write_loses_nothing(world: StageWorld, nth: int) -> None:
    """Whichever of the ticket's writes it is whose answer is lost."""
    if isinstance(world.tracker, DefinesLabels):
        await world.tracker.ensure_labels()
    key = world.stage.open_ticket("Fix it", [TRIGGER])
    fault = Fault("applied_then_lost", method="POST|PUT|PATCH|DELETE", path=f"/{key}|graphql|/comments/", skip=nth)
    world.stage.simulator.inject(fault)
    for _ in range(8):
        await world.carry_through(key)
        await world.keep_house()
    assert world.labels(key) == {TRIGGER, "agent-smith:done"}
    assert len(world.stage.comments(key)) == 1


async def test_whoever_may_not_write_starts_nothing(world: StageWorld) -> None:
    """P7, by each platform's own idea of who may what."""
    key = world.stage.open_ticket("Fix it", ["bug"])
    reader = list(world.stage.people)[-1]
    world.stage.add_label(key, TRIGGER, reader)
    outcome = await world.claim(key)
    assert isinstance(outcome, Rejected)
    assert outcome.gates[-1].gate is Gate.ACTOR
    assert world.labels(key) == {"bug", TRIGGER}
