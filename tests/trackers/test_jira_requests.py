"""What goes over the wire to Jira beyond a ticket's usual life, which the golden files show: login, search, people."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from urllib.parse import parse_qs

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.errors import ConfigError
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.domain.tracker import Access, Sticky
from agentsmith.trackers.http import Pace
from agentsmith.trackers.jira.auth import Login
from agentsmith.trackers.jira.listing import jql
from agentsmith.trackers.jira.tracker import JiraTracker
from tests.support.edges import CLAIM, FINISH, MEMO, TRIGGER, applied, edge
from tests.support.simulated_jira import PROJECT, SimulatedJira, simulated_jira

ISSUE = "/rest/api/3/issue/WEB-1"


@pytest.fixture
async def jira() -> AsyncIterator[SimulatedJira]:
    async with simulated_jira() as started:
        yield started


@pytest.fixture(params=[True, False], ids=["cloud", "data-center"])
async def either(request: pytest.FixtureRequest) -> AsyncIterator[SimulatedJira]:
    async with simulated_jira(cloud=request.param) as started:
        yield started


async def say(tracker: JiraTracker, ticket: Ticket, text: str, known: Sticky | None = None) -> Sticky:
    """Write our comment, in time."""
    return await tracker.write_sticky(ticket, text, MEMO, known=known, deadline=boottime() + 30)


# --- login --------------------------------------------------------------------------------------------------------


async def test_cloud_takes_email_and_token_and_data_center_a_bearer(either: SimulatedJira) -> None:
    tracker = either.tracker()
    either.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("WEB-1"), edge(*CLAIM))).ticket
    await say(tracker, ticket, "queued")
    assert [t.key async for t in tracker.find(TRIGGER)] == ["WEB-1"]
    for request in either.recorded():
        assert request.headers["accept"] == "application/json"
        assert request.headers["authorization"] == ("Basic ***" if either.simulator.cloud else "Bearer ***")
        assert request.headers["user-agent"].startswith("agentsmith/")
        assert not [name for name in request.headers if name.startswith("if-")]
        if request.method != "GET":
            assert request.headers["content-type"] == "application/json"


async def test_the_basic_login_is_email_and_token() -> None:
    login = Login("ATATT-x", host="h", email="bot@example.com")
    packed = base64.b64encode(b"bot@example.com:ATATT-x").decode()
    assert await login.headers() == {"Authorization": f"Basic {packed}"}
    assert set(login.secrets()) == {"ATATT-x", packed}
    assert "ATATT" not in login.name
    assert await Login("pat", host="h").headers() == {"Authorization": "Bearer pat"}


@pytest.mark.parametrize("token", ["", "a b", "ATATT-ü", "x\n"])
def test_a_token_that_is_none_is_heard_of_at_once(token: str) -> None:
    with pytest.raises(ConfigError, match="copied whole"):
        Login(token, host="h")


@pytest.mark.parametrize("email", ["", " ", "a:b@example.com", "a\nb"])
def test_an_email_that_is_none_is_heard_of_at_once(email: str) -> None:
    with pytest.raises(ConfigError, match="email"):
        Login("t", host="h", email=email)


# --- search -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ['say"what', "back\\slash", "ünï/漢字", "a=b,c(d)"])
async def test_any_label_can_be_looked_for(either: SimulatedJira, label: str) -> None:
    either.issue(label)
    either.issue("other")
    assert [t.key async for t in either.tracker().find(label)] == ["WEB-1"]


@pytest.mark.parametrize("label", ["", "fix bug", "a\tb"])
def test_a_label_that_jira_cannot_have_is_a_configuration_error(label: str) -> None:
    with pytest.raises(ConfigError, match="spaces"):
        jql(PROJECT, TRIGGER, label)


@pytest.mark.parametrize("prefix", ["my smith", "tab\tbed", "x" * 250])
async def test_a_prefix_that_jira_does_not_take_is_a_configuration_error(jira: SimulatedJira, prefix: str) -> None:
    with pytest.raises(ConfigError, match="labels that begin with"):
        jira.tracker(labels=LabelSet(prefix))


async def test_cloud_pages_by_token_with_an_explicit_field_list(jira: SimulatedJira) -> None:
    keys = [jira.issue(TRIGGER) for _ in range(7)]
    tracker = jira.tracker(page_size=3)
    assert [t.key async for t in tracker.find(TRIGGER)] == keys
    searches = [r.body for r in jira.recorded() if r.path.endswith("/search/jql")]
    assert [sorted(body) for body in searches] == [
        ["fields", "jql", "maxResults"],
        ["fields", "jql", "maxResults", "nextPageToken"],
        ["fields", "jql", "maxResults", "nextPageToken"],
    ]
    assert {tuple(body["fields"]) for body in searches} == {("labels", "status", "updated")}


async def test_data_center_pages_by_number() -> None:
    async with simulated_jira(cloud=False) as jira:
        keys = [jira.issue(TRIGGER) for _ in range(7)]
        assert [t.key async for t in jira.tracker(page_size=3).find(TRIGGER)] == keys
        searches = [r.body["startAt"] for r in jira.recorded() if r.path.endswith("/search")]
        assert searches == [0, 3, 6]


async def test_a_page_of_malformed_hits_does_not_end_the_search(either: SimulatedJira) -> None:
    """P9: what cannot be read is skipped; what comes after it is not."""
    keys = [either.issue(TRIGGER) for _ in range(5)]
    tracker = either.tracker(page_size=2)
    broken = {"issues": [{"id": 1}, {"key": None}], "total": 5, "nextPageToken": _token(keys[1], either)}
    either.fail("status", status=200, body=broken, path="/search")
    assert [t.key async for t in tracker.find(TRIGGER)] == keys[2:]


def _token(key: str, jira: SimulatedJira) -> str:
    """What Cloud calls the page after an issue."""
    return base64.urlsafe_b64encode(f"after {jira.simulator.issue(key).id}".encode()).decode()


async def test_what_we_have_written_is_reconciled_and_nothing_older(jira: SimulatedJira) -> None:
    clock = [1000.0]
    tracker = jira.tracker(pace=Pace(now=lambda: clock[0]))
    jira.issue(TRIGGER)
    applied(await tracker.move(await tracker.get("WEB-1"), edge(*CLAIM, within=1e9)))
    for wait, expected in ((0, [jira.simulator.issue("WEB-1").id]), (601, None)):
        clock[0] += wait
        jira.recorded()
        _ = [t async for t in tracker.find(TRIGGER)]
        (search,) = [r.body for r in jira.recorded() if r.path.endswith("/search/jql")]
        assert search.get("reconcileIssues") == expected


async def test_no_more_than_fifty_are_reconciled(jira: SimulatedJira) -> None:
    tracker = jira.tracker()
    for _ in range(60):
        key = jira.issue(TRIGGER)
        applied(await tracker.move(await tracker.get(key), edge(*CLAIM)))
    jira.recorded()
    assert len([t async for t in tracker.find(TRIGGER)]) == 60
    (search,) = [r.body for r in jira.recorded() if r.path.endswith("/search/jql")]
    assert len(search["reconcileIssues"]) == 50


async def test_a_lagging_index_shows_old_hits_but_never_old_tickets(either: SimulatedJira) -> None:
    """Every hit is read by key: a label that is gone, or a closed issue, is not taken from the index."""
    first, second, third = (either.issue(TRIGGER) for _ in range(3))
    either.simulator.refresh_index()
    either.simulator.set_index_lag(60)
    either.simulator.clock.advance(1)
    either.simulator.remove_label(first, TRIGGER)
    either.simulator.transition(second, "Done")
    fourth = either.issue(TRIGGER)
    assert [t.key async for t in either.tracker().find(TRIGGER)] == [third]
    either.simulator.clock.advance(61)
    assert [t.key async for t in either.tracker().find(TRIGGER)] == [third, fourth]


# --- labels -------------------------------------------------------------------------------------------------------


async def test_a_move_is_one_edit_that_adds_and_removes_everything(jira: SimulatedJira) -> None:
    tracker = jira.tracker(labels=LabelSet(former_prefixes=("old",)))
    jira.issue(TRIGGER, "bug", "agent-smith:in-progress", "old:in-progress")
    ticket = await tracker.get("WEB-1")
    jira.recorded()
    applied(await tracker.move(ticket, edge(*FINISH)))
    (write,) = jira.recorded()
    assert (write.method, write.raw_path) == ("PUT", ISSUE)
    assert write.body["update"] == {
        "labels": [{"add": "agent-smith:done"}, {"remove": "agent-smith:in-progress"}, {"remove": "old:in-progress"}]
    }
    assert set(write.body) == {"update", "properties"}
    assert jira.labels("WEB-1") == {TRIGGER, "bug", "agent-smith:done"}


async def test_the_property_says_on_whose_behalf(jira: SimulatedJira) -> None:
    tracker = jira.tracker()
    jira.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("WEB-1"), edge(*CLAIM, run="run-9", fence=2**53))).ticket
    held = jira.simulator.issue("WEB-1").properties["agent-smith.lifecycle"]
    assert {k: held[k] for k in ("run", "fence", "status")} == {"run": "run-9", "fence": 2**53, "status": "enqueued"}
    applied(await tracker.move(ticket, edge(Status.ENQUEUED, None)))
    again = jira.simulator.issue("WEB-1").properties["agent-smith.lifecycle"]
    assert (again["status"], again["nonce"] == held["nonce"]) == (None, False)


async def test_silence_is_asked_for_and_where_it_is_refused_not_again() -> None:
    async with simulated_jira(cloud=False) as jira:
        jira.simulator.set_role(PROJECT, "smith-bot", "write")  # who administers nothing
        tracker = jira.tracker()
        jira.issue(TRIGGER)
        ticket = applied(await tracker.move(await tracker.get("WEB-1"), edge(*CLAIM))).ticket
        applied(await tracker.move(ticket, edge(Status.ENQUEUED, None)))
        edits = [(r.query, r.status) for r in jira.recorded() if r.method == "PUT"]
        assert edits == [("notifyUsers=false", 403), ("", 204), ("", 204)]


async def test_noise_is_made_where_it_is_wanted(jira: SimulatedJira) -> None:
    tracker = jira.tracker(quiet=False)
    jira.issue(TRIGGER)
    applied(await tracker.move(await tracker.get("WEB-1"), edge(*CLAIM)))
    assert "notifyUsers" not in jira.recorded()[-1].query


# --- comments -----------------------------------------------------------------------------------------------------


async def test_the_memo_is_in_a_property_that_people_do_not_see(either: SimulatedJira) -> None:
    tracker = either.tracker()
    either.issue(TRIGGER)
    made = await say(tracker, await tracker.get("WEB-1"), "queued")
    (comment,) = either.simulator.comments("WEB-1")
    assert comment["body"] == "queued"
    assert comment["properties"] == {"agent-smith.status": {"memo": MEMO.to_line()}}
    read = await either.tracker().read_sticky(await tracker.get("WEB-1"))
    assert read == made


@pytest.mark.parametrize("cloud", [True, False])
async def test_where_a_list_does_not_show_properties_ours_is_asked_for(cloud: bool) -> None:
    async with simulated_jira(cloud=cloud, lists_comment_properties=False) as jira:
        tracker = jira.tracker()
        jira.issue(TRIGGER)
        ticket = await tracker.get("WEB-1")
        jira.simulator.comment("WEB-1", "somebody's")
        made = await say(tracker, ticket, "queued")
        jira.sent()
        assert await jira.tracker().read_sticky(ticket) == made
        asked = [line for line in jira.sent() if "/properties/" in line]
        assert asked == [f"GET /comment/{made.ref.split('@')[0]}/properties/agent-smith.status 200"]


async def test_only_the_reference_is_enough_to_edit(either: SimulatedJira) -> None:
    one, two = either.tracker(), either.tracker()
    either.issue(TRIGGER)
    made = await say(one, await one.get("WEB-1"), "queued")
    seen = await two.get("WEB-1")
    either.sent()
    bare = Sticky(ref=made.ref, text="", memo=None)
    await say(two, seen, "running", bare)
    assert "GET /issue/WEB-1/comment 200" not in either.sent()
    assert [c["body"] for c in either.simulator.comments("WEB-1")] == ["running"]


@pytest.mark.parametrize("forged", ["{id}", "{id}@somebody", "nonsense", "99999999", "1" * 40, "{id}@"])
async def test_a_reference_to_somebody_elses_comment_is_not_followed(jira: SimulatedJira, forged: str) -> None:
    tracker = jira.tracker()
    jira.issue(TRIGGER)
    theirs = jira.simulator.comment("WEB-1", "mine!")
    ticket = await tracker.get("WEB-1")
    await say(tracker, ticket, "x")
    await say(tracker, ticket, "y", Sticky(ref=forged.format(id=theirs), text="", memo=None))
    assert [c["body"] for c in jira.simulator.comments("WEB-1")] == ["mine!", "y"]


async def test_a_deleted_comment_is_made_again(either: SimulatedJira) -> None:
    tracker = either.tracker()
    either.issue(TRIGGER)
    ticket = await tracker.get("WEB-1")
    made = await say(tracker, ticket, "one")
    either.simulator.delete_comment("WEB-1", made.ref.split("@")[0])
    again = await say(tracker, ticket, "two", made)
    assert again.ref != made.ref
    assert [c["body"] for c in either.simulator.comments("WEB-1")] == ["two"]


async def test_our_comment_is_looked_for_on_all_pages(jira: SimulatedJira) -> None:
    jira.issue(TRIGGER)
    for n in range(5):
        jira.simulator.comment("WEB-1", f"comment {n}")
    tracker = jira.tracker()
    made = await say(tracker, await tracker.get("WEB-1"), "ours")
    jira.simulator.comment("WEB-1", "thanks")
    other = jira.tracker(page_size=2)
    jira.recorded()
    assert await other.read_sticky(await other.get("WEB-1")) == made
    pages = [parse_qs(r.query)["startAt"] for r in jira.recorded() if r.path.endswith("/comment")]
    assert pages == [["0"], ["2"], ["4"], ["6"]]


# --- people -------------------------------------------------------------------------------------------------------


async def test_who_labelled_is_read_from_the_end_of_the_history(jira: SimulatedJira) -> None:
    tracker = jira.tracker(page_size=3)
    jira.issue("bug", actor="first")
    jira.simulator.add_label("WEB-1", "early", "robin")
    for n in range(8):
        jira.simulator.add_label("WEB-1", f"label-{n}", "noise")
    jira.simulator.add_label("WEB-1", TRIGGER, "mona")
    ticket = await tracker.get("WEB-1")
    mona = jira.simulator.hub.world.user("mona").account_id
    jira.recorded()
    by = await tracker.labelled_by(ticket, TRIGGER)
    assert by is not None
    assert (by.actor, by.access) == (Actor(mona, mona), Access.WRITE)
    asked = [parse_qs(r.query)["startAt"] for r in jira.recorded() if r.path.endswith("/changelog")]
    assert asked == [["0"], ["9"]]
    for label, who in (("early", "robin"), ("bug", "first"), ("label-4", "noise")):
        found = await tracker.labelled_by(ticket, label)
        assert found is not None
        assert found.actor.id == jira.simulator.hub.world.user(who).account_id
    assert await tracker.labelled_by(ticket, "never") is None


async def test_who_set_the_label_last_counts_not_who_set_it_first(either: SimulatedJira) -> None:
    either.simulator.set_role(PROJECT, "robin", "read")
    either.issue(TRIGGER)
    either.simulator.remove_label("WEB-1", TRIGGER)
    either.simulator.add_label("WEB-1", TRIGGER, "robin")
    tracker = either.tracker()
    by = await tracker.labelled_by(await tracker.get("WEB-1"), TRIGGER)
    assert by is not None
    assert by.access is Access.READ


async def test_P7_a_history_with_less_than_it_counts_names_nobody() -> None:
    async with simulated_jira(cloud=False) as jira:
        jira.issue()
        jira.simulator.add_label("WEB-1", TRIGGER, "mona")
        tracker = jira.tracker()
        ticket = await tracker.get("WEB-1")
        jira.fail("short_history", times=None)
        by = await tracker.labelled_by(ticket, TRIGGER)
        assert by is not None
        jira.simulator.remove_label("WEB-1", TRIGGER)
        jira.simulator.add_label("WEB-1", TRIGGER, "robin")
        assert await tracker.labelled_by(ticket, TRIGGER) is None


async def test_P7_what_is_new_in_a_history_while_it_is_read_is_seen(jira: SimulatedJira) -> None:
    jira.issue(TRIGGER)
    for n in range(5):
        jira.simulator.add_label("WEB-1", f"label-{n}", "noise")
    tracker = jira.tracker(page_size=2)
    ticket = await tracker.get("WEB-1")

    def meanwhile() -> None:
        jira.simulator.remove_label("WEB-1", TRIGGER, "robin")
        jira.simulator.add_label("WEB-1", TRIGGER, "robin")

    jira.fail("meanwhile", path="/changelog$", action=meanwhile, after=True)
    by = await tracker.labelled_by(ticket, TRIGGER)
    assert by is not None
    assert by.actor.id == jira.simulator.hub.world.user("robin").account_id


@pytest.mark.parametrize(
    ("role", "access"),
    [
        ("admin", Access.ADMIN),
        ("write", Access.WRITE),
        ("triage", Access.TRIAGE),
        ("read", Access.READ),
        ("none", Access.NONE),
    ],
)
async def test_roles(either: SimulatedJira, role: str, access: Access) -> None:
    either.simulator.set_role(PROJECT, "robin", role)
    either.issue()
    either.simulator.add_label("WEB-1", TRIGGER, "robin")
    tracker = either.tracker()
    by = await tracker.labelled_by(await tracker.get("WEB-1"), TRIGGER)
    assert by is not None
    assert by.access is access


async def test_a_name_that_only_begins_alike_is_somebody_else() -> None:
    async with simulated_jira(cloud=False) as jira:
        jira.simulator.set_role(PROJECT, "robinson", "admin")
        jira.issue()
        jira.simulator.add_label("WEB-1", TRIGGER, "robin")
        tracker = jira.tracker()
        by = await tracker.labelled_by(await tracker.get("WEB-1"), TRIGGER)
        assert by is not None
        assert (by.actor.name, by.access) == ("robin", Access.NONE)


async def test_an_account_that_may_not_ask_lets_nobody_in(
    either: SimulatedJira, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fails closed, and says what to do; `allow.users` still works, for it compares names."""
    either.simulator.set_role(PROJECT, "smith-bot", "write")
    either.issue(TRIGGER)
    tracker = either.tracker()
    by = await tracker.labelled_by(await tracker.get("WEB-1"), TRIGGER)
    assert by is not None
    assert by.access is Access.NONE
    assert "let our account administer the project" in capsys.readouterr().out


async def test_people_who_cannot_be_named_may_nothing(jira: SimulatedJira) -> None:
    assert await jira.tracker().access_of(Actor("", "mona")) is Access.NONE
    assert await jira.tracker().access_of(Actor("no-such-account", "x")) is Access.NONE


async def test_programs_are_known_by_their_account_type(jira: SimulatedJira) -> None:
    jira.simulator.add_user("automation", type="app")
    jira.issue()
    jira.simulator.add_label("WEB-1", TRIGGER, "automation")
    tracker = jira.tracker()
    by = await tracker.labelled_by(await tracker.get("WEB-1"), TRIGGER)
    assert by is not None
    assert by.actor.bot


async def test_me_is_asked_once(either: SimulatedJira) -> None:
    tracker = either.tracker()
    assert await tracker.me() == await tracker.me()
    assert either.sent() == ["GET /myself 200", "GET /project/WEB 200"]


# --- links --------------------------------------------------------------------------------------------------------


async def test_blockers_in_any_project_and_by_the_sites_own_word(jira: SimulatedJira) -> None:
    jira.simulator.add_project("OPS")
    other = jira.simulator.open_issue("OPS")
    waiting, blocked = jira.issue(), jira.issue()
    jira.simulator.block(other, waiting)
    jira.simulator.block(waiting, blocked)  # we block that one: not the same thing
    jira.simulator.hub.changes.link("Relates", jira.simulator.issue(blocked), jira.simulator.issue(waiting))
    tracker = jira.tracker()
    (blocker,) = await tracker.blockers(await tracker.get(waiting))
    host = tracker.project.split("/")[0]
    assert (blocker.id, blocker.open) == (f"{host}/OPS-1", True)
    assert blocker.url == f"{jira.running.url}/browse/OPS-1"
