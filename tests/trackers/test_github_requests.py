"""What goes over the wire to GitHub, field by field."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import parse_qs

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.errors import ConfigError
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.tracker import AlreadySo
from agentsmith.simulators import Recorded
from agentsmith.trackers.github.labels import SWAP
from tests.support.edges import CLAIM, FINISH, MEMO, START, TRIGGER, applied, edge
from tests.support.simulated_github import REPOSITORY, SimulatedGitHub, mutations, simulated_github

ISSUE = "/repos/acme/web/issues/1"


@pytest.fixture
async def github() -> AsyncIterator[SimulatedGitHub]:
    async with simulated_github() as started:
        yield started


def told(request: Recorded) -> tuple[str, str, object]:
    """Method, path as sent, body."""
    return request.method, request.raw_path, request.body


async def test_every_request_has_githubs_headers_and_no_write_is_conditional(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    number = github.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get(number), edge(*CLAIM))).ticket
    await tracker.write_sticky(ticket, "queued", MEMO, known=None, deadline=boottime() + 30)
    requests = github.recorded()
    assert {r.method for r in requests} == {"GET", "POST"}
    for request in requests:
        assert request.headers["accept"] == "application/vnd.github+json"
        assert request.headers["x-github-api-version"] == "2022-11-28"
        assert request.headers["authorization"] == "Bearer ***"
        assert request.headers["user-agent"].startswith("agentsmith/")
        if request.method != "GET":
            assert request.headers["content-type"] == "application/json"
            assert not [name for name in request.headers if name.startswith("if-")]


async def test_get(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER)
    first = await tracker.get("1")
    second = await tracker.get("1")
    one, two = github.recorded()
    assert told(one) == told(two) == ("GET", ISSUE, None)
    assert "if-none-match" not in one.headers
    assert two.headers["if-none-match"] == one.answer_headers["etag"]
    assert (one.status, two.status) == (200, 304)
    assert second == first


async def test_find(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    github.issue("agent-smith:fix bug/ü&co")
    assert [t.key async for t in tracker.find("agent-smith:fix bug/ü&co")] == ["1"]
    (request,) = github.recorded()
    assert (request.method, request.raw_path) == ("GET", "/repos/acme/web/issues")
    assert parse_qs(request.query) == {
        "state": ["open"],
        "labels": ["agent-smith:fix bug/ü&co"],
        "sort": ["created"],
        "direction": ["asc"],
        "per_page": ["100"],
    }


async def test_find_filters_again_what_github_filtered_wrongly(github: SimulatedGitHub) -> None:
    github.issue("bug")
    github.issue("BUG", TRIGGER.upper())
    github.fail("wrong_filter", times=None)
    assert [t.key async for t in github.tracker().find(TRIGGER)] == ["2"]


async def test_find_cannot_look_for_a_comma(github: SimulatedGitHub) -> None:
    with pytest.raises(ConfigError, match="comma"):
        _ = [t async for t in github.tracker().find("a,b")]


async def test_claim_adds_one_label_and_nothing_else(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER, "bug")
    ticket = await tracker.get("1")
    (read,) = github.recorded()
    applied(await tracker.move(ticket, edge(*CLAIM)))
    check, write = github.recorded()
    assert told(check) == ("GET", ISSUE, None)
    assert check.headers["if-none-match"] == read.answer_headers["etag"]
    assert told(write) == ("POST", f"{ISSUE}/labels", {"labels": ["agent-smith:enqueued"]})


async def test_start_swaps_two_labels_in_one_request_once_their_ids_are_known(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    await tracker.ensure_labels()
    github.issue(TRIGGER, "agent-smith:enqueued", "old-smith:enqueued")
    ticket = await tracker.get("1")
    github.recorded()
    moved = applied(await tracker.move(ticket, edge(*START))).ticket
    check, write = github.recorded()
    assert check.status == 304
    assert (write.method, write.raw_path) == ("POST", "/graphql")
    ids = {label.name: f"LA_{label.id}" for label in github.simulator.repository(REPOSITORY).labels.values()}
    assert write.body == {
        "query": SWAP,
        "variables": {
            "issue": f"I_{github.simulator.issue(REPOSITORY, 1).id}",
            "add": [ids["agent-smith:in-progress"]],
            "remove": [ids["agent-smith:enqueued"]],
        },
    }
    assert moved.labels == {TRIGGER, "agent-smith:in-progress", "old-smith:enqueued"}


async def test_finish_adds_then_removes_without_graphql(github: SimulatedGitHub) -> None:
    labels = LabelSet(former_prefixes=("früher: x/y",))
    tracker = github.tracker(labels=labels)
    await tracker.ensure_labels()
    github.issue(TRIGGER, "agent-smith:in-progress", "früher: x/y:in-progress")
    ticket = await tracker.get("1")
    github.recorded()
    applied(await tracker.move(ticket, edge(*FINISH)))
    _, add, first, second = github.recorded()
    assert told(add) == ("POST", f"{ISSUE}/labels", {"labels": ["agent-smith:done"]})
    assert told(first) == ("DELETE", f"{ISSUE}/labels/agent-smith%3Ain-progress", None)
    assert told(second) == ("DELETE", f"{ISSUE}/labels/fr%C3%BCher%3A%20x%2Fy%3Ain-progress", None)
    assert github.labels("1") == {TRIGGER, "agent-smith:done"}


async def test_comment_and_edit(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    github.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    github.recorded()
    made = await tracker.write_sticky(ticket, "queued --> now", MEMO, known=None, deadline=boottime() + 30)
    (create,) = github.recorded()
    head = (
        '<!-- agent-smith:status {"attempt":0,"due":null,"fence":7,"follow_up":false,"run":"run-1","text":"","v":1} -->'
    )
    assert told(create) == ("POST", f"{ISSUE}/comments", {"body": f"{head}\nqueued --> now"})
    edited = await tracker.write_sticky(ticket, "running", MEMO, known=made, deadline=boottime() + 30)
    (edit,) = github.recorded()
    comment = made.ref.split(".")[0]
    assert told(edit) == ("PATCH", f"/repos/acme/web/issues/comments/{comment}", {"body": f"{head}\nrunning"})
    assert (edited.ref, edited.text, edited.memo) == (made.ref, "running", MEMO)


async def test_labels_are_made_once_with_their_looks(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    github.issue("Agent-Smith:DONE")
    made = await tracker.ensure_labels()
    assert made == tuple(f"agent-smith:{s}" for s in Status if s is not Status.DONE)
    first = github.recorded()[1]
    assert told(first) == (
        "POST",
        "/repos/acme/web/labels",
        {"name": "agent-smith:pending", "color": "fbca04", "description": "agentsmith: waits for its turn"},
    )
    assert await tracker.ensure_labels() == ()
    assert len(github.recorded()) == 1


async def test_two_who_make_the_labels_at_once_do_not_mind(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    body = {
        "message": "Validation Failed",
        "errors": [{"resource": "Label", "code": "already_exists", "field": "name"}],
    }
    github.fail("status", status=422, body=body, method="POST", times=None)
    assert len(await tracker.ensure_labels()) == 6


async def test_an_enterprise_server_has_its_addresses_elsewhere() -> None:
    async with simulated_github(enterprise=True) as github:
        tracker = github.tracker()
        await tracker.ensure_labels()
        github.issue(TRIGGER, "agent-smith:enqueued")
        ticket = await tracker.get("1")
        applied(await tracker.move(ticket, edge(*START)))
        paths = [r.raw_path for r in github.recorded()]
        assert f"/api/v3{ISSUE}" in paths
        assert "/api/graphql" in paths
        assert ticket.url.startswith(f"{github.running.url}/acme/web/")
        assert tracker.identify(ticket.url) == "1"


async def test_graphql_variables_carry_ids_only(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    await tracker.ensure_labels()
    number = github.issue(TRIGGER, "agent-smith:pending")
    ticket = await tracker.get(number)
    applied(await tracker.move(ticket, edge(*CLAIM)))
    assert isinstance(await tracker.move(ticket, edge(*CLAIM)), AlreadySo)
    (variables,) = mutations(github.recorded())
    assert set(variables) == {"issue", "add", "remove"}
