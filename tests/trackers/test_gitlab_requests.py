"""What goes over the wire to GitLab, field by field."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from urllib.parse import parse_qs

import pytest

from agentsmith.boottime import boottime
from agentsmith.config import TrackerSettings
from agentsmith.domain.errors import ConfigError
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.domain.tracker import Access, AlreadySo, Sticky
from agentsmith.simulators import Recorded
from agentsmith.trackers.gitlab.auth import Token, TokenHeader
from agentsmith.trackers.gitlab.settings import GitLabSettings
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.gitlab.spelling import LabelStyle
from agentsmith.trackers.gitlab.sticky import GUARD, harmless
from agentsmith.trackers.gitlab.tracker import GitLabTracker
from agentsmith.trackers.http import Shared
from agentsmith.trackers.http.connection import connect
from tests.support.edges import CLAIM, FINISH, MEMO, START, TRIGGER, applied, edge
from tests.support.simulated_gitlab import PROJECT, SimulatedGitLab, simulated_gitlab

ROOT = "/api/v4/projects/acme%2Fapps%2Fweb"
ISSUE = f"{ROOT}/issues/1"
SCOPED = LabelStyle.SCOPED


@pytest.fixture
async def gitlab() -> AsyncIterator[SimulatedGitLab]:
    async with simulated_gitlab() as started:
        yield started


def told(request: Recorded) -> tuple[str, str, object]:
    """Method, path as sent, body."""
    return request.method, request.raw_path, request.body


async def say(tracker: GitLabTracker, ticket: Ticket, text: str, known: Sticky | None = None) -> Sticky:
    """Write our comment, in time."""
    return await tracker.write_sticky(ticket, text, MEMO, known=known, deadline=boottime() + 30)


async def test_every_request_has_gitlabs_headers_and_none_is_conditional(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    ticket = await tracker.get(gitlab.issue(TRIGGER))
    await tracker.get(ticket.key)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    await say(tracker, ticket, "queued")
    requests = gitlab.recorded()
    assert [r.method for r in requests] == ["GET", "GET", "GET", "PUT", "POST"]
    for request in requests:
        assert request.headers["accept"] == "application/json"
        assert request.headers["private-token"] == "***"
        assert "authorization" not in request.headers
        assert request.headers["user-agent"].startswith("agentsmith/")
        assert not [name for name in request.headers if name.startswith("if-")]
        if request.method != "GET":
            assert request.headers["content-type"] == "application/json"


async def test_an_oauth_token_is_a_bearer(gitlab: SimulatedGitLab) -> None:
    gitlab.simulator.add_token("oauth-token-0123456789", username="smith-bot", oauth=True)
    tracker = gitlab.tracker(token="oauth-token-0123456789", header=TokenHeader.BEARER)
    gitlab.issue(TRIGGER)
    await tracker.get("1")
    (request,) = gitlab.recorded()
    assert request.headers["authorization"] == "Bearer ***"
    assert "private-token" not in request.headers


@pytest.mark.parametrize("token", ["", "a b", "glpat-ü", "glpat-x\n"])
def test_a_token_that_is_none_is_heard_of_at_once(token: str) -> None:
    with pytest.raises(ConfigError, match="copied whole"):
        Token(token, host="gitlab.com")


async def test_get(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER)
    first, second = await tracker.get("1"), await tracker.get("1")
    one, two = gitlab.recorded()
    assert told(one) == told(two) == ("GET", ISSUE, None)
    assert (one.query, one.status, two.status) == ("", 200, 200)
    assert second == first


async def test_find(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    gitlab.issue("agent-smith:fix bug/ü&co")
    assert [t.key async for t in tracker.find("agent-smith:fix bug/ü&co")] == ["1"]
    (request,) = gitlab.recorded()
    assert (request.method, request.raw_path) == ("GET", f"{ROOT}/issues")
    assert parse_qs(request.query) == {
        "state": ["opened"],
        "labels": ["agent-smith:fix bug/ü&co"],
        "order_by": ["created_at"],
        "sort": ["asc"],
        "per_page": ["100"],
        "pagination": ["keyset"],
    }


async def test_find_pages_by_the_cursor_at_our_own_address() -> None:
    """GitLab names its pages by the address that it believes to have; we stay where we were sent."""
    async with simulated_gitlab(external_url="https://gitlab.people.example") as gitlab:
        tracker = gitlab.tracker(page_size=3)
        iids = [gitlab.issue(TRIGGER) for _ in range(7)]
        tickets = [t async for t in tracker.find(TRIGGER)]
        assert [t.key for t in tickets] == iids
        first, second, third = (parse_qs(r.query) for r in gitlab.recorded())
        assert "cursor" not in first
        for later in (second, third):
            assert later.pop("cursor")
            assert later == first
        assert tickets[0].url == "https://gitlab.people.example/acme/apps/web/-/issues/1"
        assert tracker.identify(tickets[0].url) == "1"


@pytest.mark.parametrize(("keyset", "requests"), [("ignored", 3), ("refused", 4)])
async def test_find_pages_by_number_where_gitlab_knows_no_keyset(keyset: str, requests: int) -> None:
    async with simulated_gitlab(keyset=keyset) as gitlab:
        tracker = gitlab.tracker(page_size=3)
        iids = [gitlab.issue(TRIGGER) for _ in range(7)]
        assert [t.key async for t in tracker.find(TRIGGER)] == iids
        sent = gitlab.recorded()
        assert len(sent) == requests
        assert [parse_qs(r.query).get("page") for r in sent[-2:]] == [["2"], ["3"]]
        _ = [t async for t in tracker.find("other")]
        assert len(gitlab.recorded()) == 1  # a refusal is remembered


async def test_a_long_list_is_asked_only_for_what_changed(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker(page_size=3)
    iids = [gitlab.issue(TRIGGER) for _ in range(7)]
    assert [t.key async for t in tracker.find(TRIGGER)] == iids
    gitlab.recorded()
    gitlab.simulator.clock.advance(1000)
    _ = [t async for t in tracker.find(TRIGGER)]
    gitlab.recorded()
    gitlab.simulator.clock.advance(1000)
    gitlab.simulator.close_issue(PROJECT, 1)
    gitlab.simulator.remove_label(PROJECT, 2, TRIGGER)
    gitlab.simulator.edit_issue(PROJECT, 3, title="edited")
    new = gitlab.issue(TRIGGER)
    found = {t.key: t async for t in tracker.find(TRIGGER)}
    assert sorted(found) == [*iids[2:], new]
    assert found["3"].title == "edited"
    query = parse_qs(gitlab.recorded()[0].query)
    assert "labels" not in query
    assert query.pop("updated_after")[0].endswith("Z")
    assert query == {
        "state": ["all"],
        "order_by": ["updated_at"],
        "sort": ["asc"],
        "per_page": ["3"],
        "pagination": ["keyset"],
    }


async def test_what_was_updated_just_before_the_last_look_is_seen_by_the_overlap(gitlab: SimulatedGitLab) -> None:
    """A database replica may show a change late: it is asked for again for two minutes."""
    tracker = gitlab.tracker(page_size=3)
    iids = [gitlab.issue(TRIGGER) for _ in range(4)]
    gitlab.simulator.clock.advance(300)
    assert [t.key async for t in tracker.find(TRIGGER)] == iids
    gitlab.simulator.clock.advance(60)
    gitlab.simulator.close_issue(PROJECT, 1)
    gitlab.simulator.clock.advance(30)
    gitlab.fail("stale_read", behind=1)
    assert [t.key async for t in tracker.find(TRIGGER)] == iids
    gitlab.simulator.clock.advance(60)
    assert [t.key async for t in tracker.find(TRIGGER)] == iids[1:]


async def test_a_list_that_changed_more_than_it_is_long_is_read_again(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker(page_size=3)
    iids = [gitlab.issue(TRIGGER) for _ in range(4)]
    for _ in range(20):
        gitlab.issue("other")
    assert [t.key async for t in tracker.find(TRIGGER)] == iids
    gitlab.simulator.delete_issue(PROJECT, 1)
    assert [t.key async for t in tracker.find(TRIGGER)] == iids[1:]


async def test_find_filters_again_what_gitlab_filtered_wrongly(gitlab: SimulatedGitLab) -> None:
    gitlab.issue("bug")
    gitlab.issue("bug", TRIGGER)
    gitlab.issue(TRIGGER.upper())
    gitlab.fail("wrong_filter", times=None)
    assert [t.key async for t in gitlab.tracker().find(TRIGGER)] == ["2"]


@pytest.mark.parametrize("label", ["a,b", "None", "any", "No Label"])
async def test_find_cannot_look_for_words_of_gitlabs_own(gitlab: SimulatedGitLab, label: str) -> None:
    with pytest.raises(ConfigError, match="meaning of its own"):
        _ = [t async for t in gitlab.tracker().find(label)]


async def test_a_move_is_one_request_that_adds_and_removes(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker(labels=LabelSet(former_prefixes=("old",)))
    gitlab.issue(TRIGGER, "bug", "agent-smith:in-progress", "old:in-progress", "agent-smith::in-progress")
    ticket = await tracker.get("1")
    gitlab.recorded()
    applied(await tracker.move(ticket, edge(*FINISH)))
    (write,) = gitlab.recorded()
    body = {
        "add_labels": "agent-smith:done",
        "remove_labels": "agent-smith::in-progress,agent-smith:in-progress,old:in-progress",
    }
    assert told(write) == ("PUT", ISSUE, body)
    assert gitlab.labels("1") == {TRIGGER, "bug", "agent-smith:done"}


async def test_claim_only_adds_and_withdrawal_only_removes(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    applied(await tracker.move(ticket, edge(Status.ENQUEUED, None)))
    _, claim, withdrawal = gitlab.recorded()
    assert claim.body == {"add_labels": "agent-smith:enqueued"}
    assert withdrawal.body == {"remove_labels": "agent-smith:enqueued"}


@pytest.mark.parametrize("premium", [False, True])
async def test_scoped_labels(premium: bool) -> None:
    """The core sees `agent-smith:done` and GitLab `agent-smith::done`; siblings are removed by name on every tier."""
    async with simulated_gitlab(premium=premium) as gitlab:
        tracker = gitlab.tracker(style=SCOPED)
        gitlab.issue(TRIGGER, "team::web")
        ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
        assert ticket.labels == {TRIGGER, "team::web", "agent-smith:enqueued"}
        ticket = applied(await tracker.move(await tracker.get("1"), edge(*START))).ticket
        assert gitlab.recorded()[-1].body == {
            "add_labels": "agent-smith::in-progress",
            "remove_labels": "agent-smith::enqueued",
        }
        assert gitlab.labels("1") == {TRIGGER, "team::web", "agent-smith::in-progress"}
        assert [t.key async for t in tracker.find("agent-smith:in-progress")] == ["1"]
        by = await tracker.labelled_by(ticket, "agent-smith:in-progress")
        assert by is not None
        assert by.actor.name == "smith-bot"
        tidied = await tracker.tidy(ticket, keep=Status.FAILED, deadline=boottime() + 30)
        assert tidied.labels == {TRIGGER, "team::web", "agent-smith:failed"}
        assert isinstance(await tracker.move(tidied, edge(Status.IN_PROGRESS, Status.FAILED)), AlreadySo)
        assert tracker.filter_hint(Status.DONE) == 'label:=~"agent-smith::done"'


@pytest.mark.parametrize(("style", "other", "own"), [("scoped", ":", "::"), ("plain", "::", ":")])
async def test_changing_the_style_reruns_nothing(gitlab: SimulatedGitLab, style: str, other: str, own: str) -> None:
    """The other spelling still is the status, and is replaced when the ticket moves on."""
    tracker = gitlab.tracker(style=LabelStyle(style))
    gitlab.issue(TRIGGER, f"agent-smith{other}done")
    ticket = await tracker.get("1")
    assert ticket.labels == {TRIGGER, "agent-smith:done"}
    assert isinstance(await tracker.move(ticket, edge(*FINISH)), AlreadySo)
    applied(await tracker.move(ticket, edge(Status.DONE, Status.PENDING)))
    assert gitlab.labels("1") == {TRIGGER, f"agent-smith{own}pending"}


async def test_comment_and_edit(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER)
    ticket = applied(await tracker.move(await tracker.get("1"), edge(*CLAIM))).ticket
    gitlab.recorded()
    made = await say(tracker, ticket, "queued --> now")
    (create,) = gitlab.recorded()
    head = (
        '<!-- agent-smith:status {"attempt":0,"due":null,"fence":7,"follow_up":false,"run":"run-1","text":"","v":1} -->'
    )
    assert told(create) == ("POST", f"{ISSUE}/notes", {"body": f"{head}\nqueued --> now"})
    edited = await say(tracker, ticket, "running", made)
    (edit,) = gitlab.recorded()
    note = made.ref.split(".")[0]
    assert told(edit) == ("PUT", f"{ISSUE}/notes/{note}", {"body": f"{head}\nrunning"})
    assert (edited.ref, edited.text, edited.memo) == (made.ref, "running", MEMO)


COMMANDS = "\n".join(["/close", "/label ~forged", '/unlabel ~"agent-smith:fix-bug"', "/TITLE hacked", "/relabel ~x"])


@pytest.mark.parametrize(
    "text",
    [
        COMMANDS,
        f"an error:\n{COMMANDS}\nend",
        f"```\n{COMMANDS}\n```",
        f"```\nfence that never ends\n{COMMANDS}",
        COMMANDS.replace("\n", "\r\n"),
        "\n".join(f"\r{line}" for line in COMMANDS.split("\n")),
        "\n".join(f"\r\r{line}\r" for line in COMMANDS.split("\n")),
        f">>>\n{COMMANDS}",
        f"\n\n{COMMANDS}",
        f"`\n{COMMANDS}",
        f"</div>\n{COMMANDS}",
        f"-->\n{COMMANDS}",
    ],
)
async def test_no_text_of_ours_is_a_command(gitlab: SimulatedGitLab, text: str) -> None:
    """Quick actions run with the bot's rights, in a new comment and in an edited one."""
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER, title="before")
    ticket = await tracker.get("1")
    made = await say(tracker, ticket, text)
    edited = await say(tracker, ticket, f"{text}\nagain", made)
    issue = gitlab.simulator.issue(PROJECT, 1)
    assert (issue.state, issue.title) == ("opened", "before")
    assert gitlab.labels("1") == {TRIGGER}
    assert len(gitlab.notes()) == 1
    for name in ("close", "label", "TITLE", "relabel"):
        assert f"{GUARD}/{name}" in edited.text
    # What GitLab stored is what we think it stored, so that an unchanged text is not written again.
    gitlab.recorded()
    assert await say(tracker, ticket, f"{text}\nagain", await tracker.read_sticky(ticket)) == edited
    assert [r.method for r in gitlab.recorded()] == ["GET"]


async def test_the_commands_of_that_test_do_harm_where_nothing_guards_them(gitlab: SimulatedGitLab) -> None:
    gitlab.issue(TRIGGER, title="before")
    gitlab.simulator.comment(PROJECT, 1, f"an error:\n{COMMANDS}\nend", "smith-bot")
    issue = gitlab.simulator.issue(PROJECT, 1)
    assert (issue.state, issue.title) == ("closed", "hacked")
    assert gitlab.labels("1") == {"x"}


def test_guarding_leaves_other_slashes_alone_and_guards_once() -> None:
    text = "a/b\nhttps://x/y\n  /usr/bin\n\t/x\n\u3000/y\n//z"
    guarded = harmless(text)
    assert guarded == f"a/b\nhttps://x/y\n  {GUARD}/usr/bin\n\t{GUARD}/x\n\u3000{GUARD}/y\n{GUARD}//z"
    assert harmless(guarded) == guarded


async def test_only_the_reference_is_enough_to_edit(gitlab: SimulatedGitLab) -> None:
    """What the store keeps of a comment is its reference; another replica edits with it, once it knows itself."""
    one, two = gitlab.tracker(), gitlab.tracker()
    gitlab.issue(TRIGGER)
    ticket = applied(await one.move(await one.get("1"), edge(*CLAIM))).ticket
    made = await say(one, ticket, "queued")
    seen = await two.get("1")
    gitlab.recorded()
    bare = Sticky(ref=made.ref, text="", memo=None)
    for text, expected in (("running", ["GET", "PUT"]), ("done", ["PUT"])):
        await say(two, seen, text, bare)
        assert [r.method for r in gitlab.recorded()] == expected
    assert gitlab.notes() == ["done"]


@pytest.mark.parametrize("forged", ["{id}", "{id}.999", "nonsense", "99999999", "1" * 40])
async def test_a_reference_to_somebody_elses_comment_is_not_followed(gitlab: SimulatedGitLab, forged: str) -> None:
    gitlab.simulator.set_access(PROJECT, "smith-bot", "maintainer")  # who might edit anybody's comment
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER)
    theirs = gitlab.simulator.comment(PROJECT, 1, "mine!\nindeed")
    await say(tracker, await tracker.get("1"), "x")
    known = Sticky(ref=forged.format(id=theirs), text="", memo=None)
    await say(tracker, await tracker.get("1"), "y", known)
    assert gitlab.notes() == ["indeed", "y"]


async def test_a_deleted_comment_is_made_again(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER)
    ticket = await tracker.get("1")
    made = await say(tracker, ticket, "one")
    gitlab.simulator.delete_comment(PROJECT, int(made.ref.split(".")[0]))
    again = await say(tracker, ticket, "two", made)
    assert again.ref != made.ref
    assert gitlab.notes() == ["two"]


async def test_comments_are_looked_for_on_all_pages_and_the_newest_run_counts(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker(page_size=2)
    gitlab.issue(TRIGGER)
    for fence, text in ((3, "old"), (9, "new"), (5, "middle")):
        line = MEMO.to_line().replace('"fence":7', f'"fence":{fence}')
        gitlab.simulator.comment(PROJECT, 1, f"<!-- agent-smith:status {line} -->\n{text}", "smith-bot")
    ticket = await tracker.get("1")
    gitlab.recorded()
    read = await tracker.read_sticky(ticket)
    assert read is not None
    assert read.text == "new"
    first = gitlab.recorded()[0]
    assert parse_qs(first.query) == {
        "sort": ["asc"],
        "order_by": ["created_at"],
        "activity_filter": ["only_comments"],
        "per_page": ["2"],
    }


async def test_who_labelled_is_read_from_the_end_of_the_history(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker(page_size=3)
    gitlab.issue("bug")
    gitlab.simulator.add_label(PROJECT, 1, "early", "mona")
    for n in range(8):
        gitlab.simulator.add_label(PROJECT, 1, f"label-{n}", "noise")
    gitlab.simulator.add_label(PROJECT, 1, TRIGGER, "mona")
    ticket = await tracker.get("1")
    mona = gitlab.simulator.hub.world.user("mona").id
    gitlab.recorded()
    by = await tracker.labelled_by(ticket, TRIGGER)
    assert by is not None
    assert (by.actor, by.access) == (Actor(str(mona), "mona"), Access.WRITE)
    assert [(r.raw_path, r.query) for r in gitlab.recorded()] == [
        (f"{ISSUE}/resource_label_events", "per_page=3"),
        (f"{ISSUE}/resource_label_events", "per_page=3&page=4"),
        *[("/api/graphql", "")] * 4,
        (f"/api/v4/users/{mona}", ""),
        (f"{ISSUE}/notes", "order_by=updated_at&sort=desc&per_page=3"),
        (f"{ROOT}/members/all/{mona}", ""),
    ]
    for label in ("early", "bug", "label-4"):
        assert await tracker.labelled_by(ticket, label) is not None
    assert await tracker.labelled_by(ticket, "never") is None
    gitlab.simulator.delete_label(PROJECT, TRIGGER)
    assert await tracker.labelled_by(ticket, TRIGGER) is None  # its events name no label any more


async def test_P7_the_oldest_page_of_a_history_that_gitlab_does_not_count_is_not_its_newest(
    gitlab: SimulatedGitLab,
) -> None:
    tracker = gitlab.tracker()
    gitlab.issue(TRIGGER)  # by mona
    ticket = await tracker.get("1")
    project = gitlab.simulator.hub.world.project(PROJECT)
    first = gitlab.simulator.issue(PROJECT, 1)
    (event,) = first.events
    noise = gitlab.simulator.hub.changes.create_label(project, "noise").id
    others = tuple(replace(event, id=event.id + n, label=noise, user="noise") for n in range(1, 10_350))
    later = replace(event, id=event.id + 20_000, user="robin")
    project.save(replace(first, events=(event, *others, replace(later, action="remove"), later)))
    gitlab.recorded()
    by = await tracker.labelled_by(ticket, TRIGGER)
    assert by is not None
    assert by.actor.name == "robin"
    assert len(gitlab.recorded()) < 25
    project.save(replace(first, events=(event, *others[:150], later, *others[150:])))
    assert await tracker.labelled_by(ticket, TRIGGER) is None, "nobody looks back so far, and mona was not the last"


@pytest.mark.parametrize("how", ["move_issue", "clone_issue"])
async def test_P7_who_labelled_an_issue_has_not_labelled_its_copies(gitlab: SimulatedGitLab, how: str) -> None:
    gitlab.simulator.add_project("acme/api")
    for member in ("mona", "robin"):
        gitlab.simulator.set_access("acme/api", member, "developer")
    gitlab.simulator.open_issue("acme/api", labels=(TRIGGER,), actor="mona")
    gitlab.issue(TRIGGER)
    iid = getattr(gitlab.simulator, how)("acme/api", 1, PROJECT, "noise")
    tracker = gitlab.tracker()
    ticket = await tracker.get(str(iid))
    assert TRIGGER in ticket.labels
    assert await tracker.labelled_by(ticket, TRIGGER) is None
    assert not await tracker.history(ticket, TRIGGER)
    gitlab.simulator.remove_label(PROJECT, iid, TRIGGER, "robin")
    gitlab.simulator.clock.advance(1)
    gitlab.simulator.add_label(PROJECT, iid, TRIGGER, "robin")
    by = await tracker.labelled_by(ticket, TRIGGER)
    assert by is not None
    assert by.actor.name == "robin"


async def test_who_set_the_label_last_counts_not_who_set_it_first(gitlab: SimulatedGitLab) -> None:
    gitlab.simulator.set_access(PROJECT, "robin", "guest")
    gitlab.issue(TRIGGER)
    gitlab.simulator.remove_label(PROJECT, 1, TRIGGER)
    gitlab.simulator.add_label(PROJECT, 1, TRIGGER, "robin")
    tracker = gitlab.tracker()
    by = await tracker.labelled_by(await tracker.get("1"), TRIGGER)
    assert by is not None
    assert (by.actor.name, by.access) == ("robin", Access.READ)


@pytest.mark.parametrize(
    ("level", "access"),
    [
        ("owner", Access.ADMIN),
        ("maintainer", Access.ADMIN),
        ("developer", Access.WRITE),
        (25, Access.TRIAGE),
        ("reporter", Access.TRIAGE),
        ("planner", Access.TRIAGE),
        ("guest", Access.READ),
        ("minimal", Access.NONE),
        ("none", Access.NONE),
    ],
)
async def test_access_levels(gitlab: SimulatedGitLab, level: str | int, access: Access) -> None:
    gitlab.simulator.set_access(PROJECT, "robin", level)
    gitlab.issue()
    gitlab.simulator.add_label(PROJECT, 1, TRIGGER, "robin")
    tracker = gitlab.tracker()
    by = await tracker.labelled_by(await tracker.get("1"), TRIGGER)
    assert by is not None
    assert (by.actor.name, by.access) == ("robin", access)


async def test_people_who_cannot_be_looked_up_may_nothing(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    for actor in (Actor("", "mona"), Actor("abc", "mona"), Actor("4711", "mona"), Actor("1/../2", "x")):
        assert await tracker.access_of(actor) is Access.NONE


@pytest.mark.parametrize("username", ["project_1_bot_0a1b2c", "group_42_bot", "renovate"])
async def test_programs_are_known_by_name_or_by_asking(gitlab: SimulatedGitLab, username: str) -> None:
    gitlab.simulator.hub.world.user(username, bot=True)
    gitlab.issue()
    gitlab.simulator.add_label(PROJECT, 1, TRIGGER, username)
    tracker = gitlab.tracker()
    by = await tracker.labelled_by(await tracker.get("1"), TRIGGER)
    assert by is not None
    assert by.actor.bot


async def test_me(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    assert await tracker.me() == await tracker.me()
    assert (await tracker.me()).name == "smith-bot"
    assert [r.raw_path for r in gitlab.recorded()] == ["/api/v4/user", "/api/v4/projects/acme%2Fapps%2Fweb"]


async def test_blockers() -> None:
    async with simulated_gitlab(premium=True) as gitlab:
        gitlab.simulator.add_project("acme/api")
        gitlab.simulator.open_issue("acme/api")
        for _ in range(5):
            gitlab.issue()
        tracker = gitlab.tracker()
        assert await tracker.blockers(await tracker.get("1")) == ()
        gitlab.simulator.set_blocked_by(PROJECT, 1, [(PROJECT, 2), (PROJECT, 3), ("acme/api", 1)])
        gitlab.simulator.set_blocked_by(PROJECT, 4, [(PROJECT, 1)])  # 1 blocks 4: not the same thing
        gitlab.simulator.close_issue(PROJECT, 3)
        blockers = await tracker.blockers(await tracker.get("1"))
        host = tracker.project.split("/")[0]
        assert [(b.id, b.open) for b in blockers] == [
            (f"{host}/acme/apps/web#2", True),
            (f"{host}/acme/apps/web#3", False),
            (f"{host}/acme/api#1", True),
        ]
        assert blockers[2].url.endswith("/acme/api/-/issues/1")


@pytest.mark.parametrize("status", [403, 404])
async def test_a_tier_without_links_blocks_nothing(gitlab: SimulatedGitLab, status: int) -> None:
    tracker = gitlab.tracker()
    gitlab.issue()
    gitlab.fail("no_links", status=status, times=None)
    assert await tracker.blockers(await tracker.get("1")) == ()


async def test_labels_are_made_once_with_their_looks(gitlab: SimulatedGitLab) -> None:
    tracker = gitlab.tracker()
    gitlab.issue("Agent-Smith:DONE")
    made = await tracker.ensure_labels()
    assert made == tuple(f"agent-smith:{s}" for s in Status if s is not Status.DONE)
    first = gitlab.recorded()[1]
    assert told(first) == (
        "POST",
        f"{ROOT}/labels",
        {"name": "agent-smith:pending", "color": "#fbca04", "description": "agentsmith: waits for its turn"},
    )
    assert await tracker.ensure_labels() == ()
    assert len(gitlab.recorded()) == 1


async def test_two_who_make_the_labels_at_once_do_not_mind(gitlab: SimulatedGitLab) -> None:
    gitlab.fail("status", status=409, body={"message": "Label already exists"}, method="POST", times=None)
    assert len(await gitlab.tracker().ensure_labels()) == 6


async def test_a_project_by_its_id(gitlab: SimulatedGitLab) -> None:
    number = str(gitlab.simulator.project(PROJECT).id)
    tracker = gitlab.tracker(project=number)
    gitlab.issue(TRIGGER)
    ticket = await tracker.get("1")
    host = gitlab.running.url.partition("://")[2]
    assert ticket.id == f"{host}/{number}#1"
    assert gitlab.recorded()[0].raw_path == f"/api/v4/projects/{number}/issues/1"
    assert tracker.identify(ticket.url) == "1"
    assert tracker.identify(ticket.url.replace("web", "other")) is None


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("12", "12"),
        ("#12", "12"),
        ("Acme/Apps/Web#12", "12"),
        ("git.example.org/gitlab/acme/apps/web#12", "12"),
        ("https://git.example.org/gitlab/acme/apps/web/-/issues/12", "12"),
        ("https://git.example.org/gitlab/acme/apps/web/issues/12", "12"),
        ("https://git.example.org/gitlab/acme/apps/web/-/work_items/12", "12"),
        ("https://git.example.org/acme/apps/web/-/issues/12", None),
        ("https://git.example.org/gitlab/acme/apps/web/-/merge_requests/12", None),
        ("https://git.example.org/gitlab/acme/apps/web/-/issues/12?x=1", None),
        ("https://other.example/gitlab/acme/apps/web/-/issues/12", None),
        ("acme/apps#12", None),
        ("git.example.org/acme/apps/web#12", None),
    ],
)
def test_names_of_tickets(text: str, key: str | None) -> None:
    site = Site("acme/apps/web", "https://git.example.org/gitlab/api/v4")
    assert site.canonical == "git.example.org/gitlab/acme/apps/web"
    assert site.identify(text) == key


@pytest.mark.parametrize("project", ["web", "acme/", "/acme/web", "acme//web", "acme/../web", "acme/we b", "0", "-1"])
def test_what_is_no_project(project: str) -> None:
    with pytest.raises(ValueError, match="project must be"):
        Site(project)


def settings(**more: object) -> GitLabSettings:
    """Settings as a file gives them."""
    return GitLabSettings.model_validate(
        {"platform": "gitlab", "project": "acme/apps/web", "token": "glpat-0123456789", **more}
    )


async def test_settings() -> None:
    made = settings(project=4711, label_style="scoped", trust_reads="0s", base_url="https://git.example.org/api/v4/")
    assert isinstance(made, TrackerSettings)
    assert made.project_identity() == "git.example.org/4711"
    tracker = made.open("web", LabelSet(), connect(Shared()))
    assert (tracker.name, tracker.project, tracker.platform) == ("web", made.project_identity(), "gitlab")
    await tracker.aclose()
    assert settings().project_identity() == "gitlab.com/acme/apps/web"
    assert "0123456789" not in repr(settings())


@pytest.mark.parametrize(
    "wrong",
    [
        {"project": "web"},
        {"project": True},
        {"token": " "},
        {"base_url": "git.example.org"},
        {"base_url": "ftp://git.example.org"},
        {"label_style": "fancy"},
        {"token_header": "cookie"},
        {"webhook_secret": "whsec_not base64"},
        {"webhook_secret": "whsec_"},
        {"webhook_secret": ["a secret that is long enough", "whsec_c2hvcnQ="]},
        {"repository": "acme/web"},
    ],
)
def test_wrong_settings(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        settings(**wrong)
