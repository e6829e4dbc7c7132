"""What goes over the wire to Azure DevOps, field by field."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from urllib.parse import parse_qs

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.errors import ConfigError, Refused
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.memo import Memo
from agentsmith.domain.ticket import Actor
from agentsmith.domain.tracker import Access, Applied, Sticky
from agentsmith.simulators import Recorded
from agentsmith.trackers.azuredevops.listing import _WANTED, FULL_EVERY
from agentsmith.trackers.azuredevops.states import CONFIRM_AFTER, KEPT
from tests.support.edges import CLAIM, FINISH, MEMO, START, TRIGGER, applied, edge
from tests.support.loopback import FAST
from tests.support.simulated_azuredevops import (
    BOT,
    MONA,
    PROJECT,
    TOKEN,
    SimulatedAzureDevOps,
    say,
    simulated_azuredevops,
    warm,
)

ITEM = "/acme/Web/_apis/wit/workitems/1"
COMMENTS = "/acme/Web/_apis/wit/workItems/1/comments"
FOOT = (
    "The tags say how it stands now. "
    '`agent-smith:status {"attempt":0,"due":null,"fence":7,"follow_up":false,"run":"run-1","text":"","v":1}`'
)


@pytest.fixture
async def azure() -> AsyncIterator[SimulatedAzureDevOps]:
    async with simulated_azuredevops() as started:
        yield started
        assert TOKEN not in str([(r.headers, r.raw_body) for r in started.simulator.requests])


def told(request: Recorded) -> tuple[str, str, object]:
    """Method, path as sent, body."""
    return request.method, request.raw_path, request.body


def query(request: Recorded) -> dict[str, list[str]]:
    """The query, parsed."""
    return parse_qs(request.query)


async def test_every_request_has_the_headers_that_azure_needs(azure: SimulatedAzureDevOps) -> None:
    tracker = azure.tracker()
    azure.item(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    await say(tracker, ticket, "queued", None)
    assert [t.key async for t in tracker.find(TRIGGER)] == ["1"]
    for request in azure.recorded():
        assert request.headers["accept"] == "application/json"
        assert request.headers["x-tfs-fedauthredirect"] == "Suppress"
        assert request.headers["authorization"] == "Basic ***"
        assert request.headers["user-agent"].startswith("agentsmith/")
        assert not [name for name in request.headers if name.startswith("if-")]
        kind = "application/json-patch+json" if request.path == ITEM else "application/json"
        assert request.headers.get("content-type") == (None if request.method == "GET" else kind)


async def test_an_entra_token_is_sent_as_a_bearer(azure: SimulatedAzureDevOps) -> None:
    azure.simulator.add_token("eyJ0eXAi.entra.token", user="principal", bearer=True)
    me = await azure.tracker(token="eyJ0eXAi.entra.token", auth="bearer").me()
    assert (me.name, me.bot) == ("principal", True)
    assert azure.recorded()[-1].headers["authorization"] == "Bearer ***"


async def test_get(azure: SimulatedAzureDevOps) -> None:
    tracker = azure.tracker()
    azure.item(TRIGGER, "bug", title="T", body="B", assigned_to=MONA)
    await warm(tracker)
    azure.recorded()
    ticket = await tracker.get("1")
    (request,) = azure.recorded()
    assert told(request) == ("GET", ITEM, None)
    assert query(request) == {"api-version": ["7.1"]}
    assert (ticket.author, ticket.assignees, ticket.revision) == (MONA, frozenset({MONA}), "1")
    assert ticket.id == f"{azure.running.url.removeprefix('http://')}/acme/web#1"
    assert ticket.url == f"{azure.running.url}/acme/Web/_workitems/edit/1"


async def test_claim_of_a_work_item_with_tags(azure: SimulatedAzureDevOps) -> None:
    tracker = azure.tracker()
    azure.item("Zebra", TRIGGER)
    ticket = await tracker.get("1")
    azure.recorded()
    applied(await tracker.move(ticket, edge(*CLAIM)))
    (write,) = azure.recorded()
    assert told(write) == (
        "PATCH",
        ITEM,
        [
            {"op": "test", "path": "/rev", "value": 1},
            {
                "op": "replace",
                "path": "/fields/System.Tags",
                "value": "agent-smith:fix-bug; Zebra; agent-smith:enqueued",
            },
        ],
    )
    assert query(write) == {"api-version": ["7.1"]}


async def test_an_empty_field_is_added_to_and_the_last_tag_is_removed(azure: SimulatedAzureDevOps) -> None:
    tracker = azure.tracker()
    azure.item()
    moved = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    applied(await tracker.move(moved, edge(Status.ENQUEUED, None)))
    first, second = (r for r in azure.recorded() if r.method == "PATCH")
    assert first.body == [
        {"op": "test", "path": "/rev", "value": 1},
        {"op": "add", "path": "/fields/System.Tags", "value": "agent-smith:enqueued"},
    ]
    assert second.body == [
        {"op": "test", "path": "/rev", "value": 2},
        {"op": "remove", "path": "/fields/System.Tags"},
    ]
    assert azure.tags("1") == set()


async def test_words_travel_with_the_tags(azure: SimulatedAzureDevOps) -> None:
    tracker = azure.tracker()
    azure.item(TRIGGER)
    ticket = await tracker.get("1")
    azure.recorded()
    moved = applied(await tracker.move(ticket, edge(*CLAIM, say="a <b>\nc"))).ticket
    made = await say(tracker, moved, "a <b>\nc", None)
    (write,) = azure.recorded()
    assert write.body[2] == {
        "op": "add",
        "path": "/fields/System.History",
        "value": f"a &lt;b&gt;<br>c<br><br>{FOOT}",
    }
    assert (made.text, made.memo) == ("a <b>\nc", MEMO)
    assert await azure.tracker().read_sticky(ticket) == made


async def test_words_do_not_travel_where_somebody_has_commented_or_comments_meanwhile(
    azure: SimulatedAzureDevOps,
) -> None:
    tracker = azure.tracker()
    azure.item(TRIGGER)
    ticket = await tracker.get("1")
    azure.simulator.comment(1, "me first")
    outcome = await tracker.move(ticket, edge(*CLAIM, say="queued"))
    assert isinstance(outcome, Applied)
    assert [c["user"] for c in azure.simulator.comments(1)] == [MONA]
    await say(tracker, outcome.ticket, "queued", None)
    assert [c["user"] for c in azure.simulator.comments(1)] == [MONA, BOT]


async def test_comment_and_edit(azure: SimulatedAzureDevOps) -> None:
    tracker = azure.tracker()
    azure.item(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    azure.recorded()
    made = await say(tracker, ticket, "queued < now & then", None)
    (create,) = azure.recorded()
    assert told(create) == ("POST", COMMENTS, {"text": f"queued &lt; now &amp; then\n\n{FOOT}"})
    assert query(create) == {"api-version": ["7.1-preview.4"], "format": ["markdown"]}
    edited = await say(tracker, ticket, "running", made)
    (edit,) = azure.recorded()
    comment, author = made.ref.split(".")
    assert told(edit) == ("PATCH", f"{COMMENTS}/{comment}", {"text": f"running\n\n{FOOT}"})
    assert query(edit) == query(create)
    assert author == (await tracker.me()).id
    assert (edited.ref, edited.text, edited.memo) == (made.ref, "running", MEMO)


async def test_a_server_gets_html_in_an_older_version(azure: SimulatedAzureDevOps) -> None:
    tracker = azure.tracker(comment_format="html", comments_api="7.0-preview.3")
    azure.item(TRIGGER)
    ticket = await tracker.get("1")
    made = await say(tracker, ticket, "one\n\n  two <x>", None)
    create = azure.recorded()[-1]
    assert create.body == {"text": f"one<br><br>  two &lt;x&gt;<br><br>{FOOT}"}
    assert query(create) == {"api-version": ["7.0-preview.3"]}
    assert await azure.tracker().read_sticky(ticket) == made
    assert made.text == "one\n\n  two <x>"


async def test_known_by_its_reference_alone_our_comment_is_edited_and_nobody_elses(azure: SimulatedAzureDevOps) -> None:
    azure.item(TRIGGER)
    ticket = await azure.tracker().get("1")
    made = await say(azure.tracker(), ticket, "one", None)
    other = azure.simulator.comment(1, "somebody's")
    azure.sent()
    tracker = azure.tracker()
    await say(tracker, ticket, "two", Sticky(made.ref, "", None))
    assert azure.sent() == ["GET /connectionData 200", f"PATCH /wit/workItems/1/comments/{made.ref.split('.')[0]} 200"]
    forged = Sticky(f"{other}.{made.ref.split('.')[1]}", "", None)
    with pytest.raises(Refused, match="TF401243"):
        await say(tracker, ticket, "three", forged)
    await say(tracker, ticket, "three", Sticky(f"{other}.somebody-else", "", None))
    assert [c["text"].split("\n")[0] for c in azure.simulator.comments(1)] == ["three", "somebody's"]


async def test_our_comment_is_made_again_after_somebody_deleted_it(azure: SimulatedAzureDevOps) -> None:
    tracker = azure.tracker()
    azure.item(TRIGGER)
    ticket = await tracker.get("1")
    made = await say(tracker, ticket, "one", None)
    azure.simulator.delete_comment(1, int(made.ref.split(".")[0]))
    again = await say(tracker, ticket, "two", made)
    assert again.ref != made.ref
    assert len(azure.simulator.comments(1)) == 1


async def test_find(azure: SimulatedAzureDevOps) -> None:
    tracker = azure.tracker()
    azure.item(["it's", " x"][0], TRIGGER)
    await warm(tracker)
    azure.recorded()
    assert [t.key async for t in tracker.find("it's")] == ["1"]
    ask, batch = azure.recorded()
    assert (ask.method, ask.raw_path) == ("POST", "/acme/Web/_apis/wit/wiql")
    assert query(ask) == {"api-version": ["7.1"], "$top": ["10000"]}
    assert ask.body == {
        "query": "SELECT [System.Id] FROM WorkItems WHERE [System.TeamProject] = @project AND [System.Tags] CONTAINS"
        " 'it''s' AND [System.State] NOT IN ('done', 'removed') AND [System.Id] > 0 ORDER BY [System.Id]"
    }
    assert told(batch) == (
        "POST",
        "/acme/Web/_apis/wit/workitemsbatch",
        {"ids": [1], "fields": list(_WANTED), "errorPolicy": "omit"},
    )


async def test_states_count_by_their_category_and_not_by_their_name(azure: SimulatedAzureDevOps) -> None:
    """`Closed` is where a Chore is worked on, and `Closed` of a Task is closed."""
    tracker = azure.tracker()
    chore, task = azure.item(TRIGGER, type="Chore"), azure.item(TRIGGER)
    for number in (chore, task):
        azure.simulator.set_state(int(number), "Closed")
    assert ((await tracker.get(chore)).open, (await tracker.get(task)).open) == (True, False)
    assert [t.key async for t in tracker.find(TRIGGER)] == [chore]


def recategorize(azure: SimulatedAzureDevOps, **states: str) -> None:
    """An administrator of the process gives states of a Task another category, or adds some."""
    types = azure.simulator.hub.world.project(PROJECT).types
    types["Task"] = {**types["Task"], **states}


async def test_a_state_whose_category_changes_is_seen_within_minutes(azure: SimulatedAzureDevOps) -> None:
    ahead = [0.0]
    tracker = azure.tracker(pace=replace(FAST, now=lambda: boottime() + ahead[0]))
    number = azure.item(TRIGGER)
    azure.simulator.set_state(int(number), "Active")
    assert [t.key async for t in tracker.find(TRIGGER)] == [number]
    recategorize(azure, Active="Completed")
    ahead[0] += KEPT
    assert not (await tracker.get(number)).open
    ahead[0] += FULL_EVERY
    assert [t.key async for t in tracker.find(TRIGGER)] == []
    recategorize(azure, Active="InProgress")
    ahead[0] += FULL_EVERY
    assert [t.key async for t in tracker.find(TRIGGER)] == [number]


async def test_no_ticket_counts_as_closed_by_what_was_kept(azure: SimulatedAzureDevOps) -> None:
    """Its run would be withdrawn. So the categories are asked for again, unless that was a moment ago."""
    ahead = [0.0]
    tracker = azure.tracker(pace=replace(FAST, now=lambda: boottime() + ahead[0]))
    task, other = azure.item(TRIGGER), azure.item(TRIGGER)
    azure.simulator.set_state(int(task), "Closed")
    assert not (await tracker.get(task)).open
    recategorize(azure, Closed="InProgress")
    ahead[0] += CONFIRM_AFTER
    azure.sent()
    assert (await tracker.get(task)).open
    types = "GET /wit/workitemtypes 200"
    assert azure.sent() == [f"GET /wit/workitems/{task} 200", types]
    # What is open costs nothing more.
    ahead[0] += CONFIRM_AFTER
    await tracker.get(other)
    assert azure.sent() == [f"GET /wit/workitems/{other} 200"]


async def test_a_state_that_is_new_is_asked_for_in_a_moment(azure: SimulatedAzureDevOps) -> None:
    ahead = [0.0]
    tracker = azure.tracker(pace=replace(FAST, now=lambda: boottime() + ahead[0]))
    number = azure.item(TRIGGER)
    assert (await tracker.get(number)).open
    recategorize(azure, Testing="InProgress")
    azure.simulator.set_state(int(number), "Testing")
    ahead[0] += CONFIRM_AFTER
    assert (await tracker.get(number)).open


@pytest.mark.parametrize("refuses", [True, False])
async def test_more_hits_than_a_query_may_have_are_all_found(refuses: bool) -> None:
    async with simulated_azuredevops(query_limit=150, query_refuses=refuses) as azure:
        numbers = [azure.item(TRIGGER) for _ in range(230)]
        found = [t.key async for t in azure.tracker(page_size=100).find(TRIGGER)]
        assert found == numbers
        if refuses:  # and where even the page that we ask for is too large
            assert [t.key async for t in azure.tracker(page_size=200).find(TRIGGER)] == numbers


async def test_a_batch_holds_200_at_most(azure: SimulatedAzureDevOps) -> None:
    numbers = [azure.item(TRIGGER) for _ in range(401)]
    azure.recorded()
    assert [t.key async for t in azure.tracker().find(TRIGGER)] == numbers
    batches = [r.body["ids"] for r in azure.recorded() if r.path.endswith("batch")]
    assert [len(ids) for ids in batches] == [200, 200, 1]


@pytest.mark.parametrize("label", ["a,b", "a;b", " "])
async def test_find_cannot_look_for_what_no_tag_can_be(azure: SimulatedAzureDevOps, label: str) -> None:
    with pytest.raises(ConfigError, match="tag"):
        _ = [t async for t in azure.tracker().find(label)]


@pytest.mark.parametrize("prefix", ["a;b", "a,b", "@smith", "sm🧵th"])
async def test_a_prefix_that_azure_does_not_take_is_a_configuration_error(
    azure: SimulatedAzureDevOps, prefix: str
) -> None:
    with pytest.raises(ConfigError, match="label_prefix"):
        azure.tracker(labels=LabelSet(prefix))


async def test_tags_keep_the_spelling_in_which_the_project_first_saw_them(azure: SimulatedAzureDevOps) -> None:
    azure.item("AGENT-SMITH:IN-PROGRESS")
    azure.item(TRIGGER, "agent-smith:enqueued")
    tracker = azure.tracker()
    moved = applied(await tracker.move(await tracker.get("2"), edge(*START))).ticket
    assert moved.labels == {TRIGGER, "AGENT-SMITH:IN-PROGRESS"}
    applied(await tracker.move(moved, edge(*FINISH)))
    assert azure.tags("2") == {TRIGGER, "agent-smith:done"}


async def test_who_set_a_tag_long_ago_is_still_known(azure: SimulatedAzureDevOps) -> None:
    number = azure.item("bug", actor="first@example.com")
    azure.simulator.add_tag(int(number), TRIGGER, "bob@example.com")
    for n in range(9):
        azure.simulator.edit_item(int(number), title=f"title {n}")
    tracker = azure.tracker(page_size=3)
    ticket = await tracker.get(number)
    by = await tracker.labelled_by(ticket, TRIGGER.upper())
    assert by is not None
    assert (by.actor.name, by.access) == ("bob@example.com", Access.READ)
    first = await tracker.labelled_by(ticket, "bug")
    assert first is not None
    assert first.actor.name == "first@example.com"
    assert await tracker.labelled_by(ticket, "fix-bug") is None


async def test_membership_of_a_team_is_the_right_to_write(azure: SimulatedAzureDevOps) -> None:
    azure.simulator.add_member(PROJECT, "lead@example.com", admin=True)
    azure.simulator.add_member(PROJECT, "sales@example.com", team="Sales")
    ids = {name: azure.simulator.hub.world.user(f"{name}@example.com").id for name in ("mona", "lead", "sales", "eve")}
    everyone, some = azure.tracker(page_size=1), azure.tracker(teams=frozenset({"web team"}))
    access = {name: [await t.access_of(Actor(id_, name)) for t in (everyone, some)] for name, id_ in ids.items()}
    assert access == {
        "mona": [Access.WRITE, Access.WRITE],
        "lead": [Access.ADMIN, Access.ADMIN],
        "sales": [Access.WRITE, Access.READ],
        "eve": [Access.READ, Access.READ],
    }
    assert await everyone.access_of(Actor("", "nobody")) is Access.NONE


async def test_P7_who_has_left_the_teams_may_nothing_more_at_once(azure: SimulatedAzureDevOps) -> None:
    tracker, admins = azure.tracker(), frozenset({"team administrator"})
    azure.simulator.add_member(PROJECT, "lead@example.com", team="ops", admin=True)
    lead = Actor(azure.simulator.hub.world.user("lead@example.com").id, "lead")
    assert await tracker.access_of(lead) is Access.ADMIN
    assert await tracker.belongs_to(lead, teams=frozenset({"ops"}), roles=admins) == "team 'ops'"
    azure.simulator.remove_member(PROJECT, "lead@example.com")
    assert await tracker.access_of(lead) is Access.READ
    assert await tracker.belongs_to(lead, teams=frozenset({"ops"}), roles=admins) == ""


async def test_those_who_ask_at_the_same_time_who_is_in_a_team_share_the_answer(azure: SimulatedAzureDevOps) -> None:
    tracker = azure.tracker()
    mona = Actor(azure.simulator.hub.world.user("mona@example.com").id, "mona")
    asked = asyncio.gather(*(tracker.access_of(mona) for _ in range(20)))
    assert set(await asked) == {Access.WRITE}
    assert azure.sent().count("GET /projects/Web/teams 200") == 2, "the second began after all had asked"
    azure.fail("status", path="/members$", status=403, body={"message": "no"})
    answers = await asyncio.gather(*(tracker.access_of(mona) for _ in range(3)), return_exceptions=True)
    assert [isinstance(answer, Refused) for answer in answers] == [True, False, False]
    azure.simulator.remove_member(PROJECT, "mona@example.com")
    azure.fail("status", path="/members$", status=403, body={"message": "no"})
    answers = await asyncio.gather(*(tracker.access_of(mona) for _ in range(3)), return_exceptions=True)
    assert answers[1:] == [Access.READ, Access.READ], "what was known before does not stand in for an answer"


async def test_blockers_are_the_predecessors_in_any_project(azure: SimulatedAzureDevOps) -> None:
    azure.simulator.add_project("Other Place")
    waiting = azure.item(TRIGGER)
    closed, open_ = azure.item(), azure.simulator.open_item("Other Place")
    hidden = azure.item()
    azure.simulator.close_item(int(closed))
    azure.simulator.set_predecessors(int(waiting), [int(closed), open_, int(hidden)])
    azure.simulator.delete_item(int(hidden))
    tracker = azure.tracker()
    found = await tracker.blockers(await tracker.get(waiting))
    host = azure.running.url.removeprefix("http://")
    assert [(b.id, b.open) for b in found] == [
        (f"{host}/acme/web#{closed}", False),
        (f"{host}/acme/other%20place#{open_}", True),
        (f"{host}/acme/web#{hidden}", True),
    ]
    assert found[1].url == f"{azure.running.url}/acme/Other%20Place/_workitems/edit/{open_}"
    assert await tracker.blockers(await tracker.get(closed)) == ()


async def test_the_memo_survives_every_character(azure: SimulatedAzureDevOps) -> None:
    tracker = azure.tracker()
    azure.item(TRIGGER)
    ticket = await tracker.get("1")
    memo = Memo(run="a<b>&`--\"'\\", fence=2**60, text="ü")
    await tracker.write_sticky(ticket, "x", memo, known=None, deadline=boottime() + 30)
    read = await azure.tracker().read_sticky(ticket)
    assert read is not None
    assert read.memo == memo
