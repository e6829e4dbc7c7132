"""That something was not there is remembered by nobody: the platform said it without naming a revision."""

from __future__ import annotations

import pytest

from agentsmith.domain.ticket import Actor
from agentsmith.domain.tracker import Access
from tests.support import simulated_azuredevops, simulated_gitlab, simulated_jira
from tests.support.edges import TRIGGER
from tests.support.simulated_azuredevops import PROJECT


@pytest.mark.parametrize(
    ("cloud", "path", "status", "body"),
    [(True, "/bulkfetch$", 200, {"issues": []}), (False, "/issue/WEB-1$", 404, {"errorMessages": ["not there"]})],
)
async def test_a_jira_issue_that_was_missing_once_is_found(cloud: bool, path: str, status: int, body: object) -> None:
    async with simulated_jira.simulated_jira(cloud=cloud) as jira:
        tracker, key = jira.tracker(), jira.issue(TRIGGER)
        jira.fail("status", path=path, status=status, body=body)
        assert [t.key async for t in tracker.find(TRIGGER)] == []
        assert [t.key async for t in tracker.find(TRIGGER)] == [key]


@pytest.mark.parametrize("listed_before", [False, True])
async def test_a_work_item_that_was_missing_once_is_found(listed_before: bool) -> None:
    async with simulated_azuredevops.simulated_azuredevops() as azure:
        tracker = azure.tracker()
        first = azure.item(TRIGGER)
        if listed_before:
            assert [t.key async for t in tracker.find(TRIGGER)] == [first]
        second = azure.item(TRIGGER)
        azure.simulator.clock.advance(300)  # longer ago than what every look asks for again anyway
        azure.fail("status", path="/workitemsbatch$", status=200, body={"count": 0, "value": []})
        assert [t.key async for t in tracker.find(TRIGGER)] == []
        assert [t.key async for t in tracker.find(TRIGGER)] == [first, second]


async def test_who_was_in_no_team_is_asked_for_again() -> None:
    async with simulated_azuredevops.simulated_azuredevops() as azure:
        tracker = azure.tracker()
        eve = Actor(azure.simulator.hub.world.user("eve@example.com").id, "eve@example.com")
        assert await tracker.access_of(eve) is Access.READ
        assert await tracker.belongs_to(eve, teams=frozenset({"ops"}), roles=frozenset()) == ""
        azure.simulator.add_member(PROJECT, "eve@example.com", team="ops")
        assert await tracker.access_of(eve) is Access.WRITE
        assert await tracker.belongs_to(eve, teams=frozenset({"ops"}), roles=frozenset()) == "team 'ops'"


async def test_whether_somebody_is_a_program_is_asked_again_where_it_was_not_told() -> None:
    async with simulated_gitlab.simulated_gitlab() as gitlab:
        gitlab.simulator.hub.world.user("renovate", bot=True)
        gitlab.issue()
        gitlab.simulator.add_label(simulated_gitlab.PROJECT, 1, TRIGGER, "renovate")
        tracker = gitlab.tracker()
        ticket = await tracker.get("1")
        gitlab.fail("status", path="/users/", status=403, body={"message": "403 Forbidden"})
        bots = []
        for _ in range(2):
            by = await tracker.labelled_by(ticket, TRIGGER)
            assert by is not None
            bots.append(by.actor.bot)
        assert bots == [False, True]
