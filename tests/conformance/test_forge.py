"""The forge contract, F1 to F9, on every code host that has pull requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.errors import (
    BadAnswer,
    RateLimited,
    Refused,
    TrackerError,
    TrackerUnavailable,
    Unauthorized,
)
from agentsmith.domain.forge import (
    EmptyRepository,
    NothingToPropose,
    PullRequest,
    RepositoryNotFound,
    WantedPullRequest,
)
from agentsmith.domain.ticket import TicketId
from agentsmith.simulators import Fault as SimulatorFault
from agentsmith.trackers.http import OutcomeUnknown
from tests.conformance.forges import HOSTS, Host
from tests.conformance.harness import Fault
from tests.conformance.simulated import WRITES
from tests.support.git_client import as_user, git

BRANCH = "agent-smith/12"
WANTED = WantedPullRequest(BRANCH, "main", "Fix the login", "It works again.\n\n- tested")


@pytest.fixture(params=sorted(HOSTS))
async def host(request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    async with HOSTS[request.param].start() as started:
        yield started


@pytest.fixture
def pushed(host: Host) -> Host:
    """With a branch that holds a commit of its own."""
    host.push(BRANCH)
    return host


def soon() -> float:
    return boottime() + 30


async def ensure(host: Host, wanted: WantedPullRequest = WANTED) -> PullRequest:
    return await host.forge.ensure(wanted, deadline=soon())


# --- F1, F2: the repository -------------------------------------------------------------------------------------------


async def test_F1_git_can_clone_and_push_with_what_it_is_given(host: Host, tmp_path: Path) -> None:
    url, login = host.forge.clone_url, await host.forge.credential()
    assert login is not None
    assert "@" not in url
    assert login.password not in url
    assert login.password not in repr(login)
    await git("clone", "--quiet", as_user(url, login.username, login.password), "web", cwd=tmp_path)
    await git("commit", "--quiet", "--allow-empty", "-m", "x", cwd=tmp_path / "web")
    await git("push", "--quiet", "origin", f"HEAD:refs/heads/{BRANCH}", cwd=tmp_path / "web")
    assert host.branches() == {"main", BRANCH}


async def test_F2_the_default_branch_is_the_platforms(host: Host) -> None:
    assert await host.forge.default_branch() == "main"
    assert await host.another(name="trunk").default_branch() == "release/trunk"


async def test_F2_an_empty_repository_is_told_apart(host: Host) -> None:
    with pytest.raises(EmptyRepository, match="no commit"):
        await host.another(name="empty").default_branch()


async def test_F6_a_repository_that_is_gone_is_told_apart(host: Host) -> None:
    gone = host.another(name="gone")
    with pytest.raises(RepositoryNotFound):
        await gone.default_branch()
    with pytest.raises(RepositoryNotFound):
        await gone.find(BRANCH)
    with pytest.raises(RepositoryNotFound):
        await gone.ensure(WANTED, deadline=soon())


# --- F3: finding ------------------------------------------------------------------------------------------------------


async def test_F3_none_is_none(pushed: Host) -> None:
    pushed.push("other")
    pushed.open_pull("other")
    assert await pushed.forge.find(BRANCH) is None
    assert pushed.writes() == []


async def test_F3_the_open_one_is_found_whole(pushed: Host) -> None:
    pushed.close_pull(pushed.open_pull(BRANCH))
    number = pushed.open_pull(BRANCH, title="by a person")
    pushed.edit_pull(number, body="long " * 300)
    found = await pushed.forge.find(BRANCH)
    assert found is not None
    assert (found.number, found.branch, found.base, found.title, found.draft) == (
        number,
        BRANCH,
        "main",
        "by a person",
        False,
    )
    assert found.body.strip() == ("long " * 300).strip()
    assert found.url.startswith(f"{pushed.url}/")
    assert found.url.endswith(f"/{number}")


async def test_F3_one_from_a_fork_is_not_ours(pushed: Host) -> None:
    pushed.open_pull(BRANCH, fork=True)
    assert await pushed.forge.find(BRANCH) is None
    made = await ensure(pushed)
    assert [pull.number for pull in pushed.pulls() if pull.title == WANTED.title] == [made.number]


async def test_F3_F4_ours_is_found_among_more_from_forks_than_fit_on_a_page(pushed: Host) -> None:
    """Before ours and after it, because platforms begin their lists at either end."""
    for _ in range(101):
        pushed.open_pull(BRANCH, fork=True)
    number = pushed.open_pull(BRANCH, title="ours")
    for _ in range(101):
        pushed.open_pull(BRANCH, fork=True)
    found = await pushed.forge.find(BRANCH)
    assert found is not None
    assert (found.number, found.title) == (number, "ours")
    assert (await ensure(pushed)).number == number
    assert [pull.number for pull in pushed.pulls() if pull.title == WANTED.title] == [number]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault.UNAVAILABLE, TrackerUnavailable),
        (Fault.UNREACHABLE, TrackerUnavailable),
        (Fault.RATE_LIMITED, RateLimited),
        (Fault.UNAUTHORIZED, Unauthorized),
        (Fault.MALFORMED, BadAnswer),
    ],
)
async def test_F3_F6_P9_an_outage_is_not_none(pushed: Host, fault: Fault, error: type[TrackerError]) -> None:
    pushed.inject(fault)
    for call in (pushed.forge.find(BRANCH), pushed.forge.default_branch(), ensure(pushed)):
        with pytest.raises(error) as caught:
            await call
        assert not any(part in str(caught.value) for part in (pushed.token, "secretsecret"))
    assert pushed.pulls() == []
    pushed.heal()
    assert (await ensure(pushed)).title == WANTED.title


# --- F4: one pull request, up to date ---------------------------------------------------------------------------------


async def test_F4_it_is_made_as_wanted(pushed: Host) -> None:
    made = await ensure(pushed)
    (shown,) = pushed.pulls()
    assert (shown.number, shown.open, shown.head, shown.base) == (made.number, True, BRANCH, "main")
    assert (shown.title, shown.body, shown.draft) == (WANTED.title, WANTED.body, False)
    assert (made.branch, made.base, made.title, made.body, made.draft) == (
        BRANCH,
        "main",
        WANTED.title,
        WANTED.body,
        False,
    )
    assert await pushed.forge.find(BRANCH) == made


@pytest.mark.parametrize("draft", [False, True])
async def test_F4_what_is_unchanged_is_not_written_again(pushed: Host, draft: bool) -> None:
    wanted = replace(WANTED, draft=draft, body=WANTED.body + "\n\n")
    first = await ensure(pushed, wanted)
    before = len(pushed.writes())
    assert await ensure(pushed, wanted) == first
    assert await pushed.another().ensure(wanted, deadline=soon()) == first
    assert len(pushed.writes()) == before


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Fix the login for good"},
        {"body": "Another text"},
        {"body": ""},
        {"draft": True},
        {"title": "All", "body": "of it", "draft": True},
    ],
)
async def test_F4_it_is_brought_up_to_date(pushed: Host, change: dict[str, str | bool]) -> None:
    first = await ensure(pushed)
    wanted = replace(WANTED, **change)  # type: ignore[arg-type]
    second = await ensure(pushed, wanted)
    assert (second.number, second.title, second.body, second.draft) == (
        first.number,
        wanted.title,
        wanted.body,
        wanted.draft,
    )
    (shown,) = pushed.pulls()
    assert (shown.open, shown.body, shown.draft) == (True, wanted.body, wanted.draft)
    assert shown.title.endswith(wanted.title)
    assert await ensure(pushed) == first


async def test_F4_a_draft_becomes_ready_and_a_draft_again(pushed: Host) -> None:
    made = await ensure(pushed, replace(WANTED, draft=True))
    assert made.draft
    for draft in (False, True, False):
        after = await ensure(pushed, replace(WANTED, draft=draft))
        assert (after.number, after.draft, after.title) == (made.number, draft, WANTED.title)
        assert [pull.draft for pull in pushed.pulls()] == [draft]


async def test_F4_what_a_person_wrote_over_ours_is_written_over(pushed: Host) -> None:
    made = await ensure(pushed)
    pushed.edit_pull(made.number, title="mine", body="mine\r\ntoo")
    assert (await ensure(pushed)).title == WANTED.title
    assert [(pull.title, pull.body) for pull in pushed.pulls()] == [(WANTED.title, WANTED.body)]


async def test_F4_line_ends_of_a_browser_are_no_change(pushed: Host) -> None:
    made = await ensure(pushed)
    pushed.edit_pull(made.number, body=WANTED.body.replace("\n", "\r\n"))
    before = len(pushed.writes())
    assert (await ensure(pushed)).body == WANTED.body
    assert len(pushed.writes()) == before


async def test_F4_one_that_a_person_pointed_elsewhere_stays_there(pushed: Host) -> None:
    pushed.push("develop")
    made = await ensure(pushed)
    pushed.edit_pull(made.number, base="develop")
    after = await ensure(pushed, replace(WANTED, title="Newer"))
    assert (after.number, after.base, after.title) == (made.number, "develop", "Newer")
    assert len(pushed.pulls()) == 1


async def test_F4_of_several_the_one_to_the_wanted_base_is_meant(pushed: Host) -> None:
    pushed.push("develop")
    pushed.open_pull(BRANCH, base="develop")
    number = pushed.open_pull(BRANCH, base="main")
    assert (await ensure(pushed)).number == number
    assert [pull.title for pull in pushed.pulls()] == ["by a person", WANTED.title]


async def test_F4_a_closed_one_stays_closed_and_another_is_made(pushed: Host) -> None:
    first = await ensure(pushed)
    pushed.close_pull(first.number)
    second = await ensure(pushed)
    assert second.number != first.number
    assert [pull.open for pull in pushed.pulls()] == [False, True]


async def test_F4_one_that_is_closed_meanwhile_is_not_reopened(pushed: Host) -> None:
    first = await ensure(pushed)
    pushed.between_read_and_write(lambda: pushed.close_pull(first.number))
    with contextlib.suppress(TrackerError):
        await ensure(pushed, replace(WANTED, title="Newer"))
    assert [pull.open for pull in pushed.pulls()] == [False]


@pytest.mark.parametrize("makers", [2, 5])
async def test_F4_several_makers_at_once_end_with_one(pushed: Host, makers: int) -> None:
    forges = [pushed.forge, *(pushed.another() for _ in range(makers - 1))]
    made = await asyncio.gather(*(forge.ensure(WANTED, deadline=soon()) for forge in forges))
    assert {(pull.number, pull.title) for pull in made} == {(made[0].number, WANTED.title)}
    assert len(pushed.pulls()) == 1


async def test_F4_somebody_who_was_quicker_is_found_and_brought_up_to_date(pushed: Host) -> None:
    pushed.between_read_and_write(lambda: pushed.open_pull(BRANCH))
    made = await ensure(pushed)
    (shown,) = pushed.pulls()
    assert (shown.number, shown.title, shown.body) == (made.number, WANTED.title, WANTED.body)


def hide(host: Host, times: int | None) -> SimulatorFault:
    """Lists show none for so many times, as if they were read from a machine that lags behind."""
    fault = SimulatorFault("status", status=200, body=host.nothing, method="GET", path=host.lists, times=times)
    return host.simulator.inject(fault)


async def test_F4_a_list_that_lags_behind_is_read_again(pushed: Host) -> None:
    number, lag = pushed.open_pull(BRANCH), hide(pushed, 2)
    assert (await ensure(pushed)).number == number
    assert lag.struck == 2
    assert [pull.title for pull in pushed.pulls()] == [WANTED.title]


async def test_F4_one_that_stays_hidden_is_an_outage(pushed: Host) -> None:
    pushed.open_pull(BRANCH)
    hide(pushed, None)
    with pytest.raises(TrackerUnavailable, match="not shown"):
        await ensure(pushed)
    assert len(pushed.pulls()) == 1


async def test_F4_a_lost_answer_leaves_one_and_finds_it(pushed: Host) -> None:
    pushed.inject(Fault.LOST_ANSWER)
    made = await ensure(pushed)
    assert [pull.number for pull in pushed.pulls()] == [made.number]
    pushed.inject(Fault.LOST_ANSWER)
    after = await ensure(pushed, replace(WANTED, title="Newer", draft=True))
    assert (after.number, after.title, after.draft) == (made.number, "Newer", True)
    assert len(pushed.pulls()) == 1


@pytest.mark.parametrize("kind", ["applied_then_lost", "reset_mid_body", "malformed_json"])
async def test_F4_answers_that_stay_lost_raise_and_the_next_call_finds_it(pushed: Host, kind: str) -> None:
    pushed.simulator.inject(SimulatorFault(kind, method="POST", times=None))
    with pytest.raises(TrackerError) as caught:
        await ensure(pushed)
    assert isinstance(caught.value, OutcomeUnknown | BadAnswer | TrackerUnavailable)
    pushed.simulator.clear_faults()
    (shown,) = pushed.pulls()
    assert (await ensure(pushed)).number == shown.number
    assert len(pushed.pulls()) == 1


async def test_F4_a_server_error_is_tried_again(pushed: Host) -> None:
    pushed.simulator.inject(SimulatorFault("status", status=502, method="POST", times=2))
    assert (await ensure(pushed)).title == WANTED.title
    assert len(pushed.pulls()) == 1


async def test_F4_a_renamed_repository_is_followed(host: Host) -> None:
    host.push(BRANCH)
    host.rename()
    made = await host.forge.ensure(WANTED, deadline=soon())
    after = await host.forge.ensure(replace(WANTED, title="Newer"), deadline=soon())
    assert (after.number, after.title) == (made.number, "Newer")
    assert await host.forge.default_branch() == "main"


@pytest.mark.parametrize("how", ["make", "update"])
async def test_F6_who_may_not_write_is_told_so(pushed: Host, how: str) -> None:
    if how == "update":
        pushed.open_pull(BRANCH)
    pushed.inject(Fault.FORBIDDEN)
    with pytest.raises(Refused) as caught:
        await ensure(pushed)
    assert pushed.token not in str(caught.value)


# --- F5: the ticket ---------------------------------------------------------------------------------------------------


async def test_F5_the_ticket_beside_the_code_is_linked(pushed: Host) -> None:
    ticket = pushed.ticket()
    words = pushed.forge.mention(ticket)
    assert f"#{ticket.key}" in words
    assert "http" not in words
    await ensure(pushed, replace(WANTED, ticket=ticket))
    (shown,) = pushed.pulls()
    assert shown.items in ((), (ticket.key,))
    if shown.items:  # where the platform has links of its own, one that it lacks is added
        other = pushed.ticket()
        await ensure(pushed, replace(WANTED, ticket=other))
        await ensure(pushed, replace(WANTED, ticket=other))
        assert pushed.pulls()[0].items == (ticket.key, other.key)


async def test_F5_a_ticket_from_elsewhere_is_a_plain_link_and_hinders_nothing(pushed: Host) -> None:
    ours = pushed.ticket()
    jira = replace(
        ours, id=TicketId("acme.atlassian.net/WEB-12"), key="WEB-12", url="https://acme.atlassian.net/browse/WEB-12"
    )
    assert pushed.forge.mention(jira) == "Ticket: [WEB-12](https://acme.atlassian.net/browse/WEB-12)"
    local = replace(ours, id=TicketId("local/tickets#3"), key="3", url="local://tickets/3")
    assert pushed.forge.mention(local) == "Ticket: `local/tickets#3`"
    other = replace(
        ours, id=TicketId("git.example/acme/web#12"), key="12", url="https://git.example/acme/web/issues/12"
    )
    assert pushed.forge.mention(other) == "Ticket: [#12](https://git.example/acme/web/issues/12)"
    for ticket in (jira, local, other):
        await ensure(pushed, replace(WANTED, ticket=ticket))
    assert [pull.items for pull in pushed.pulls()] == [()]


async def test_F5_a_ticket_in_the_next_project_is_named_in_full(pushed: Host) -> None:
    ours = pushed.ticket()
    project, _, number = ours.id.rpartition("#")
    next_door = replace(ours, id=TicketId(f"{project.rpartition('/')[0]}/other#{number}"))
    words = pushed.forge.mention(next_door)
    assert words.endswith((f"acme/other#{number}", f"acme/apps/other#{number}", f"items: #{number}"))


# --- F7: any text -----------------------------------------------------------------------------------------------------

TITLES = {
    "empty": "",
    "blanks": " \n\t ",
    "lines": "one\ntwo\r\nthree",
    "controls": "nul \0 bell \x07 escape \x1b[31m",
    "half a pair": "half \ud800",
    "draft": "Draft: not really",
    "drafts": "[Draft] (draft) DRAFT: draft - WIP: x",
    "only draft": "Draft:",
    "hidden draft": "\x00\tDraft: x",
    "long": "x" * 5000,
    "long emoji": "🧵" * 500,
    "markup": "$(rm -rf /) `id` <script> ../.. '\"; --",
    "unicode": "ünï 漢字 👩‍💻 \u202eevil",
    "invisible": "\u200b\u200d\ufeff",
}


@pytest.mark.parametrize("draft", [False, True])
@pytest.mark.parametrize("title", TITLES.values(), ids=TITLES)
async def test_F7_any_title(pushed: Host, title: str, draft: bool) -> None:
    wanted = replace(WANTED, title=title, draft=draft)
    made = await ensure(pushed, wanted)
    (shown,) = pushed.pulls()
    assert (shown.open, shown.draft, made.draft) == (True, draft, draft)
    assert shown.title.strip() == shown.title != ""
    assert shown.title.isprintable() or "\u200d" in shown.title
    assert len(shown.title.encode("utf-16-le")) // 2 <= pushed.title_limit
    before = len(pushed.writes())
    assert await ensure(pushed, wanted) == made
    assert len(pushed.writes()) == before


BODIES = {
    "empty": "",
    "commands": "/close\n  /merge\n\t/title Owned\n/draft\ntext",
    "commands behind a carriage return": "a\r/close\r\n/merge",
    "controls": "nul \0, half \ud800, \x1b[31m",
    "html": "<!-- hidden --> <script>alert(1)</script> <b",
    "a megabyte": "line of text\n" * 80_000,
    "emoji": "🧵" * 70_000,
    "just too long for Azure": "x" * 4001,
    "blank ends": "\n\ntext\n\n\n",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_F7_any_body(pushed: Host, body: str) -> None:
    wanted = replace(WANTED, body=body)
    made = await ensure(pushed, wanted)
    (shown,) = pushed.pulls()
    assert (shown.open, shown.draft, shown.title) == (True, False, WANTED.title)
    assert len(shown.body.encode("utf-16-le")) // 2 <= pushed.body_limit
    before = len(pushed.writes())
    assert await ensure(pushed, wanted) == made
    assert len(pushed.writes()) == before
    await ensure(pushed, replace(wanted, body=f"{body}\n/close\nmore"))
    assert pushed.pulls()[0].open


# --- F8, F9 -----------------------------------------------------------------------------------------------------------


async def test_F8_nothing_begins_after_the_deadline(pushed: Host) -> None:
    sent = len(pushed.simulator.requests)
    for call in (
        pushed.forge.ensure(WANTED, deadline=boottime()),
        pushed.forge.find(BRANCH, deadline=boottime()),
        pushed.forge.default_branch(deadline=boottime()),
    ):
        with pytest.raises(TrackerUnavailable):
            await call
    assert len(pushed.simulator.requests) == sent


async def test_F8_no_request_outlives_the_deadline(pushed: Host) -> None:
    slow = pushed.simulator.inject(SimulatorFault("slow", method=WRITES))  # it answers never
    with pytest.raises(TrackerUnavailable):
        await pushed.forge.ensure(WANTED, deadline=boottime() + 0.3)
    slow.release()


async def test_F9_a_branch_that_is_not_there(host: Host) -> None:
    with pytest.raises(NothingToPropose, match=BRANCH):
        await ensure(host)
    host.push(BRANCH)
    with pytest.raises(NothingToPropose, match="nowhere"):
        await ensure(host, replace(WANTED, base="nowhere"))
    assert host.pulls() == []


async def test_F9_a_branch_that_shows_up_late_is_waited_for(host: Host) -> None:
    """What was pushed a moment ago may not be known to every machine of the platform yet."""
    host.between_read_and_write(lambda: asyncio.get_running_loop().call_soon(host.push, BRANCH))
    assert (await ensure(host)).branch == BRANCH


async def test_F9_a_branch_without_a_commit_of_its_own(host: Host) -> None:
    host.push("develop")
    wanted = replace(WANTED, branch="main", base="develop")
    if host.looks_for_commits:
        with pytest.raises(NothingToPropose, match="No commits between develop and main"):
            await ensure(host, wanted)
    else:  # the others let it through, which is why callers compare the commits first
        assert (await ensure(host, wanted)).branch == "main"


@pytest.mark.parametrize("branch", ["agent-smith/WEB-12.a_b", "ünï/漢字", "a&b=c", "x#1", "50%25", "a+b", "é" * 60])
async def test_F3_F4_any_branch_that_git_accepts(host: Host, branch: str) -> None:
    host.push(branch)
    wanted = replace(WANTED, branch=branch)
    made = await ensure(host, wanted)
    assert made.branch == branch
    assert await host.forge.find(branch) == made
    assert (await ensure(host, wanted)).number == made.number
    assert len(host.pulls()) == 1
