"""The one request that swaps two labels, and every way in which it can fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Applied, Limited, Unknown
from agentsmith.trackers.github.tracker import GitHubTracker
from tests.support.edges import START, TRIGGER, applied, edge
from tests.support.simulated_github import REPOSITORY, SimulatedGitHub, simulated_github

BUSY = "agent-smith:in-progress"
DONE = "agent-smith:done"
WRITE = "POST|DELETE|PATCH"


@pytest.fixture
async def github() -> AsyncIterator[SimulatedGitHub]:
    async with simulated_github() as started:
        yield started


async def _prepared(github: SimulatedGitHub) -> tuple[GitHubTracker, Ticket]:
    tracker = github.tracker()
    await tracker.ensure_labels()
    github.issue(TRIGGER, "agent-smith:enqueued")
    ticket = await tracker.get("1")
    github.sent()
    return tracker, ticket


async def test_a_label_that_was_made_anew_is_added_all_the_same(github: SimulatedGitHub) -> None:
    """Its id is stale: GitHub removes one label and fails to add the other. It is added at once, by name."""
    tracker, ticket = await _prepared(github)
    repository = github.simulator.repository(REPOSITORY)
    stale = repository.label_named(BUSY)
    assert stale is not None
    del repository.labels[stale.id]
    assert applied(await tracker.move(ticket, edge(*START))).ticket.labels == {TRIGGER, BUSY}
    assert [line.split()[1] for line in github.sent()[1:]] == ["/graphql", "/repos/acme/web/issues/1/labels"]
    assert github.labels("1") == {TRIGGER, BUSY}


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 403, "body": {"message": "Resource not accessible by personal access token"}},
        {"kind": "status", "status": 404, "body": {"message": "Not Found"}},
        {"kind": "status", "status": 200, "body": {"errors": [{"message": "Field 'x' doesn't exist"}]}},
    ],
)
async def test_a_server_without_graphql_is_asked_once(github: SimulatedGitHub, fault: dict[str, Any]) -> None:
    tracker, ticket = await _prepared(github)
    github.fail(**fault, path="graphql", times=None)
    applied(await tracker.move(ticket, edge(*START)))
    second = github.issue(TRIGGER, "agent-smith:enqueued")
    applied(await tracker.move(await tracker.get(second), edge(*START)))
    assert sum("graphql" in line for line in github.sent()) == 1


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ({"data": None, "errors": [{"message": "Something went wrong while executing your query."}]}, Unknown),
        ({"data": {"add": None, "remove": None}}, Unknown),
        ({"data": {"add": {"labelable": None}}, "errors": [{"type": "INTERNAL", "message": "?"}]}, Unknown),
        ({"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}]}, Limited),
        ({"data": {"add": None, "remove": None}, "errors": [{"type": "NOT_FOUND", "message": "no node"}]}, Applied),
        ({"data": {"add": None, "remove": None}, "errors": [{"type": "FORBIDDEN", "message": "no"}]}, Applied),
    ],
)
async def test_what_graphql_answers_in_its_own_way(
    github: SimulatedGitHub, body: dict[str, Any], outcome: type
) -> None:
    tracker, ticket = await _prepared(github)
    github.fail("status", status=200, body=body, path="graphql", times=None)
    assert isinstance(await tracker.move(ticket, edge(*START)), outcome)


async def test_a_removal_that_failed_inside_graphql_is_made_up_for(github: SimulatedGitHub) -> None:
    tracker, ticket = await _prepared(github)
    names = (TRIGGER, "agent-smith:enqueued", BUSY)
    here = [{"id": f"LA_{n}", "name": name} for n, name in enumerate(names)]
    body = {"data": {"add": {"labelable": {"labels": {"nodes": here}}}, "remove": None}, "errors": [{"message": "?"}]}
    github.fail("status", status=200, body=body, path="graphql")
    assert isinstance(await tracker.move(ticket, edge(*START)), Applied)
    assert github.sent()[-1] == "DELETE /repos/acme/web/issues/1/labels/agent-smith:enqueued 200"
    assert "agent-smith:enqueued" not in github.labels("1")
