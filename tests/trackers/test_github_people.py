"""Who set a label, what they may do, who we are, and what blocks an issue."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from agentsmith.domain.errors import TicketNotFound, TrackerUnavailable
from agentsmith.domain.ticket import Actor
from agentsmith.domain.tracker import Access
from tests.support.edges import TRIGGER
from tests.support.simulated_github import REPOSITORY, SimulatedGitHub, simulated_github

BUSY = "agent-smith:in-progress"
DONE = "agent-smith:done"
WRITE = "POST|DELETE|PATCH"


@pytest.fixture
async def github() -> AsyncIterator[SimulatedGitHub]:
    async with simulated_github() as started:
        yield started


ISSUE = "/repos/acme/web/issues/1"


async def test_who_labelled_is_read_from_the_end_of_the_history(github: SimulatedGitHub) -> None:
    tracker = github.tracker(page_size=3)
    github.issue("bug")
    for n in range(9):
        github.simulator.add_label(REPOSITORY, 1, f"label-{n}", "noise")
    github.simulator.add_label(REPOSITORY, 1, TRIGGER.upper(), "mona")
    ticket = await tracker.get("1")
    github.recorded()
    by = await tracker.labelled_by(ticket, TRIGGER)
    assert by is not None
    assert (by.actor.name, by.access) == ("mona", Access.WRITE)
    asked = [(r.raw_path, r.query) for r in github.recorded()]
    assert asked == [("/graphql", ""), ("/repos/acme/web/collaborators/mona/permission", "")]
    oldest = await tracker.labelled_by(ticket, "bug")
    assert oldest is not None
    assert await tracker.labelled_by(ticket, "never") is None


@pytest.mark.parametrize(
    ("role", "access"),
    [
        ("admin", Access.ADMIN),
        ("maintain", Access.WRITE),
        ("write", Access.WRITE),
        ("triage", Access.TRIAGE),
        ("read", Access.READ),
        ("none", Access.NONE),
    ],
)
async def test_roles(github: SimulatedGitHub, role: str, access: Access) -> None:
    github.simulator.set_permission(REPOSITORY, "hubot", role)
    github.issue()
    github.simulator.add_label(REPOSITORY, 1, TRIGGER, "hubot")
    tracker = github.tracker()
    by = await tracker.labelled_by(await tracker.get("1"), TRIGGER)
    assert by is not None
    assert by.access is access
    renamed = type(by.actor)(id="1", name="hubot")
    assert await tracker.access_of(renamed) is Access.NONE


async def test_programs_have_no_role(github: SimulatedGitHub) -> None:
    github.issue()
    github.simulator.add_label(REPOSITORY, 1, TRIGGER, "dependabot[bot]")
    tracker = github.tracker()
    by = await tracker.labelled_by(await tracker.get("1"), TRIGGER)
    assert by is not None
    assert (by.actor.bot, by.access) == (True, Access.NONE)


async def test_blockers(github: SimulatedGitHub) -> None:
    github.simulator.add_repository("acme/api")
    github.simulator.open_issue("acme/api")
    for _ in range(5):
        github.issue()
    tracker = github.tracker(page_size=2)
    assert await tracker.blockers(await tracker.get("1")) == ()
    github.simulator.set_blocked_by(REPOSITORY, 1, [(REPOSITORY, 2), (REPOSITORY, 3), ("acme/api", 1)])
    github.simulator.close_issue(REPOSITORY, 3)
    blockers = await tracker.blockers(await tracker.get("1"))
    host = tracker.project.split("/")[0]
    assert [(b.id, b.open) for b in blockers] == [
        (f"{host}/acme/web#2", True),
        (f"{host}/acme/web#3", False),
        (f"{host}/acme/api#1", True),
    ]
    assert blockers[2].url.endswith("/acme/api/issues/1")


@pytest.mark.parametrize(("version", "known"), [("3.14.2", True), ("3.18.0", True), ("3.19.0", False), (None, False)])
async def test_only_a_server_that_says_it_is_too_old_has_no_links(
    github: SimulatedGitHub, version: str | None, known: bool
) -> None:
    """Elsewhere a 404 is a ticket that is not there, never an empty list."""
    tracker = github.tracker()
    ticket = await tracker.get(github.issue())
    headers = {"X-GitHub-Enterprise-Version": version} if version else {}
    github.fail("status", status=404, body={"message": "Not Found"}, headers=headers, path="blocked_by", times=None)
    if known:
        assert await tracker.blockers(ticket) == ()
    else:
        with pytest.raises(TicketNotFound, match="Not Found"):
            await tracker.blockers(ticket)


async def test_an_account_that_was_deleted_labelled_nobody_knows_what(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    ticket = await tracker.get(github.issue(TRIGGER))
    at = "2026-01-01T00:00:00Z"
    events = [{"event": "labeled", "actor": None, "created_at": at, "label": {"name": TRIGGER, "color": "ededed"}}]
    github.fail("status", status=404, body={"message": "Not Found"}, path="graphql", times=None)
    github.fail("status", status=200, body=events, path="events", times=None)
    assert await tracker.labelled_by(ticket, TRIGGER) is None


async def test_without_graphql_the_list_of_events_tells_of_labels_and_nothing_of_the_text(
    github: SimulatedGitHub,
) -> None:
    """An old Enterprise Server, or a token that may not: then nobody is known to have left the text alone."""
    tracker = github.tracker(page_size=3)
    github.issue("bug")
    github.simulator.add_label(REPOSITORY, 1, TRIGGER, "mona")
    for n in range(7):
        github.simulator.add_label(REPOSITORY, 1, f"label-{n}", "noise")
    github.simulator.edit_issue(REPOSITORY, 1, title="Other", body="other", actor="noise")
    github.simulator.remove_label(REPOSITORY, 1, "label-3", "hubot")
    github.fail("status", status=404, body={"message": "Not Found"}, path="graphql", times=None)
    with capture_logs() as logged:
        history = await tracker.history(await tracker.get("1"), TRIGGER)
        assert (await tracker.history(await tracker.get("1"), "never")).deeds == ()
    assert len([line for line in logged if "GraphQL" in line["event"]]) == 1, "told once, not of every ticket"
    assert not history.tells_edits
    shown = [(str(deed), deed.actor.name) for deed in history.deeds if deed.actor]
    assert shown[0] == (f"set {TRIGGER!r}", "mona")
    assert shown[-2:] == [("changed the title", "noise"), ("removed 'label-3'", "hubot")]


async def test_a_graphql_that_is_out_of_order_is_an_outage_and_not_an_answer(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    ticket = await tracker.get(github.issue(TRIGGER))
    errors = {"errors": [{"type": "INTERNAL", "message": "Something went wrong while executing your query."}]}
    github.fail("status", status=200, body=errors, path="graphql", times=None)
    with pytest.raises(TrackerUnavailable, match="Something went wrong"):
        await tracker.history(ticket, TRIGGER)


async def test_a_role_that_an_organisation_made_up_counts_by_what_it_includes(github: SimulatedGitHub) -> None:
    tracker = github.tracker()
    answer = {"permission": "write", "role_name": "release manager", "user": {"id": 5, "login": "mona", "type": "User"}}
    github.fail("status", status=200, body=answer, path="permission", times=None)
    assert await tracker.access_of(Actor(id="5", name="mona")) is Access.WRITE
    assert await tracker.access_of(Actor(id="6", name="mona")) is Access.NONE


async def test_P7_without_graphql_who_labelled_last_is_told_at_every_length(github: SimulatedGitHub) -> None:
    """The list of events is never answered from what was kept: its Link header may be old."""
    tracker, people = github.tracker(page_size=3), ("mona", "hubot")
    ticket = await tracker.get(github.issue(TRIGGER))
    github.fail("status", status=404, body={"message": "Not Found"}, path="graphql", times=None)
    for turn in range(10):
        github.simulator.add_label(REPOSITORY, 1, f"label-{turn}", "noise")
        last = people[turn % 2]
        github.simulator.remove_label(REPOSITORY, 1, TRIGGER, last)
        github.simulator.add_label(REPOSITORY, 1, TRIGGER, last)
        by = await tracker.labelled_by(ticket, TRIGGER)
        assert by is not None
        assert by.actor.name == last, f"turn {turn}"


@pytest.mark.parametrize("counted", [True, False])
async def test_P7_without_graphql_the_oldest_page_is_never_taken_for_the_newest(
    github: SimulatedGitHub, monkeypatch: pytest.MonkeyPatch, counted: bool
) -> None:
    """There may be more pages than are looked at, and GitHub need not say which one is the last."""
    monkeypatch.setattr("agentsmith.trackers.github.history._MOST_PAGES", 3)
    if not counted:
        github.fail("uncounted", path="/events", times=None)
    tracker = github.tracker(page_size=2)
    ticket = await tracker.get(github.issue(TRIGGER))
    github.fail("status", status=404, body={"message": "Not Found"}, path="graphql", times=None)
    for n in range(3):
        github.simulator.add_label(REPOSITORY, 1, f"before-{n}", "noise")
    github.simulator.remove_label(REPOSITORY, 1, TRIGGER, "hubot")
    github.simulator.add_label(REPOSITORY, 1, TRIGGER, "hubot")
    told = []
    for n in range(9):
        by = await tracker.labelled_by(ticket, TRIGGER)
        told.append(by.actor.name if by else None)
        github.simulator.add_label(REPOSITORY, 1, f"after-{n}", "noise")
    assert told[0] == "hubot"
    assert set(told) == {"hubot", None}
