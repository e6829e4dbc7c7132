"""What goes over the wire to make and change pull requests, field by field, and what the platforms' quirks do to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import structlog
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from agentsmith.boottime import boottime
from agentsmith.domain.errors import RateLimited, Refused
from agentsmith.domain.forge import GitCredential, RepositoryNotFound, WantedPullRequest
from agentsmith.simulators import Fault, Recorded
from agentsmith.trackers.github.forge import GitHubForge
from agentsmith.trackers.github.login import AppLogin, log_in
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.http import LocalLedger, Shared
from agentsmith.trackers.shared.proposals import PURPOSE
from tests.conformance.forges import OnAzure, OnGitHub, OnGitLab
from tests.conformance.simulated import FAST
from tests.support.azuredevops_judge import AzureDevOpsJudge
from tests.support.contracts import ContractJudge
from tests.support.loopback import to_loopback

BRANCH = "agent-smith/12"
WANTED = WantedPullRequest(BRANCH, "main", "Fix the login", "It works again.")


def soon() -> float:
    return boottime() + 30


@pytest.fixture
async def github() -> AsyncIterator[OnGitHub]:
    async with OnGitHub.start() as host:
        assert isinstance(host, OnGitHub)
        host.push(BRANCH)
        yield host


@pytest.fixture
async def gitlab() -> AsyncIterator[OnGitLab]:
    async with OnGitLab.start() as host:
        assert isinstance(host, OnGitLab)
        host.push(BRANCH)
        yield host


@pytest.fixture
async def azure() -> AsyncIterator[OnAzure]:
    async with OnAzure.start() as host:
        assert isinstance(host, OnAzure)
        host.push(BRANCH)
        yield host


def told(requests: list[Recorded]) -> list[tuple[str, str, Any]]:
    """Method, path as sent with its query, and body; then forget them."""
    lines = [(r.method, r.raw_path + (f"?{r.query}" if r.query else ""), r.body) for r in requests]
    requests.clear()
    return lines


# --- GitHub -----------------------------------------------------------------------------------------------------------

PULLS = "/repos/acme/web/pulls"
LIST = f"{PULLS}?state=open&head=acme%3Aagent-smith%2F12&sort=created&direction=asc&per_page=100"


async def test_github_looks_makes_updates_and_converts(github: OnGitHub) -> None:
    sent = github.simulator.requests
    made = await github.forge.ensure(WANTED, deadline=soon())
    body = {"title": WANTED.title, "head": BRANCH, "base": "main", "body": WANTED.body, "draft": False}
    assert told(sent) == [("GET", LIST, None), ("POST", PULLS, body)]
    await github.forge.ensure(replace(WANTED, title="Newer"), deadline=soon())
    assert told(sent) == [("GET", LIST, None), ("PATCH", f"{PULLS}/{made.number}", {"title": "Newer"})]
    await github.forge.ensure(replace(WANTED, title="Newer", draft=True), deadline=soon())
    query = "mutation($id: ID!) { convertPullRequestToDraft(input: {pullRequestId: $id}) { pullRequest { isDraft } } }"
    (look, convert) = told(sent)
    assert look == ("GET", LIST, None)
    assert convert[:2] == ("POST", "/graphql")
    assert convert[2]["query"] == query
    await github.forge.ensure(replace(WANTED, title="Newer", body="Other"), deadline=soon())
    (_, edit, ready) = told(sent)
    assert edit == ("PATCH", f"{PULLS}/{made.number}", {"body": "Other"})
    assert "markPullRequestReadyForReview" in ready[2]["query"]
    await github.forge.default_branch()
    assert told(sent) == [("GET", "/repos/acme/web", None), ("GET", "/repos/acme/web/branches/main", None)]


async def test_github_judges_every_request_as_one_that_it_published(github: OnGitHub) -> None:
    judge = ContractJudge("github")
    made = await github.forge.ensure(replace(WANTED, draft=True), deadline=soon())
    await github.forge.ensure(replace(WANTED, title="Newer"), deadline=soon())
    github.close_pull(made.number)
    assert await github.forge.find(BRANCH) is None
    for entry in github.simulator.requests:
        judge.check_recorded(entry)
    assert judge.judged == 5
    assert set(judge.undescribed) == {"POST /graphql"}


async def test_github_every_request_has_its_headers_and_no_write_is_conditional(github: OnGitHub) -> None:
    await github.forge.ensure(WANTED, deadline=soon())
    await github.forge.ensure(replace(WANTED, title="Newer"), deadline=soon())
    for request in github.simulator.requests:
        assert request.headers["authorization"] == "Bearer ***"
        assert request.headers["x-github-api-version"] == "2022-11-28"
        if request.method != "GET":
            assert not [name for name in request.headers if name.startswith("if-")]


async def test_github_where_there_are_no_drafts_the_title_says_so(github: OnGitHub) -> None:
    github.hub.repository("acme/web").drafts = False
    wanted = replace(WANTED, draft=True)
    with structlog.testing.capture_logs() as logs:
        made = await github.forge.ensure(wanted, deadline=soon())
    assert (made.title, made.draft) == ("Draft: Fix the login", False)
    assert [line["event"] for line in logs] == ["drafts are shown by their title only"]
    before = len(github.writes())
    assert await github.forge.ensure(wanted, deadline=soon()) == made
    assert len(github.writes()) == before
    # Another process does not know yet, is refused once, and leaves everything as it is.
    assert await github.another().ensure(wanted, deadline=soon()) == made
    assert (await github.forge.ensure(WANTED, deadline=soon())).title == WANTED.title
    assert len(github.pulls()) == 1


async def test_github_a_conversion_that_is_refused_says_why(github: OnGitHub) -> None:
    await github.forge.ensure(replace(WANTED, draft=True), deadline=soon())
    refusal = {"errors": [{"type": "FORBIDDEN", "message": "agentsmith does not have the correct permissions"}]}
    github.simulator.inject(Fault("status", status=200, body=refusal, path="/graphql$"))
    with pytest.raises(Refused, match=r"could not be made ready for review: agentsmith does not have the correct"):
        await github.forge.ensure(WANTED, deadline=soon())
    limited = {"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}]}
    github.simulator.inject(Fault("status", status=200, body=limited, path="/graphql$"))
    with pytest.raises(RateLimited):
        await github.forge.ensure(WANTED, deadline=soon())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"message": "Validation Failed", "errors": [{"code": "custom", "message": "Title is rude"}]}, "Title is rude"),
        ({"message": "Validation Failed", "errors": "odd"}, "Validation Failed"),
        ([], "was not made"),
    ],
)
async def test_github_another_refusal_is_told(github: OnGitHub, body: Any, words: str) -> None:
    github.simulator.inject(Fault("status", status=422, body=body, method="POST"))
    with pytest.raises(Refused, match=words):
        await github.forge.ensure(WANTED, deadline=soon())


async def test_github_an_apps_token_is_fresh_for_every_git_command(github: OnGitHub) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    app = github.hub.add_app("smith", public.decode())
    installation = github.hub.install_app(int(app["id"]))
    clock = [0.0]
    site = Site("acme/web", github.simulator.api_url)
    connection = to_loopback(pace=replace(FAST, now=lambda: boottime() + clock[0]))
    app_login = AppLogin(str(app["client_id"]), str(installation), private.decode())
    forge = GitHubForge("web", site, log_in(site, app_login, connection), connection)
    first = await forge.credential()
    assert first.username == "x-access-token"
    assert first.password.startswith("ghs_")
    assert await forge.credential() == first
    clock[0] += 3400  # within five minutes of its end a token is replaced
    second = await forge.credential()
    assert second != first
    made = await forge.ensure(WANTED, deadline=soon() + clock[0])
    assert github.hub.pull_requests("acme/web")[0]["user"] == "smith[bot]"
    assert made.title == WANTED.title
    await forge.aclose()


async def test_requests_are_booked_as_pull_requests(github: OnGitHub) -> None:
    ledger = LocalLedger()
    site, connection = Site("acme/web", github.simulator.api_url), to_loopback(Shared(ledger=ledger))
    forge = GitHubForge("web", site, log_in(site, github.token, connection), connection)
    await forge.ensure(WANTED, deadline=soon())
    await forge.find(BRANCH)
    await forge.default_branch()
    (spent,) = ledger.spent()
    assert (spent.purpose, spent.counted + spent.free) == (PURPOSE, 5)
    await forge.aclose()


# --- GitLab -----------------------------------------------------------------------------------------------------------

MERGES = "/api/v4/projects/acme%2Fapps%2Fweb/merge_requests"
MERGE_LIST = f"{MERGES}?state=opened&source_branch=agent-smith%2F12&order_by=created_at&sort=asc&per_page=100"


async def test_gitlab_looks_makes_and_updates(gitlab: OnGitLab) -> None:
    sent = gitlab.simulator.requests
    made = await gitlab.forge.ensure(replace(WANTED, draft=True), deadline=soon())
    body = {
        "source_branch": BRANCH,
        "target_branch": "main",
        "title": "Draft: Fix the login",
        "description": WANTED.body,
    }
    assert told(sent) == [("GET", MERGE_LIST, None), ("POST", MERGES, body)]
    await gitlab.forge.ensure(replace(WANTED, body="/close"), deadline=soon())
    change = {"title": "Fix the login", "description": "\u200b/close"}
    assert told(sent) == [("GET", MERGE_LIST, None), ("PUT", f"{MERGES}/{made.number}", change)]
    assert await gitlab.forge.default_branch() == "main"
    assert told(sent) == [("GET", "/api/v4/projects/acme%2Fapps%2Fweb", None)]
    assert gitlab.forge.clone_url == f"{gitlab.url}/acme/apps/web.git"
    assert await gitlab.forge.credential() == GitCredential("oauth2", gitlab.token)


async def test_gitlab_an_older_server_calls_a_draft_a_work_in_progress(gitlab: OnGitLab) -> None:
    project = gitlab.lab.project("acme/apps/web")
    shown = gitlab.lab._renderer().merge_request(
        project,
        gitlab.lab.hub.changes.open_merge_request(
            project, gitlab.lab.hub.credentials.tokens[gitlab.token].by, source=BRANCH, target="main", title="WIP: x"
        ),
    )
    del shown["draft"]
    old = {**shown, "work_in_progress": True}
    gitlab.simulator.inject(Fault("status", status=200, body=[old], method="GET", path="/merge_requests$"))
    found = await gitlab.forge.find(BRANCH)
    assert found is not None
    assert (found.draft, found.title) == (True, "x")


async def test_gitlab_another_refusal_is_told(gitlab: OnGitLab) -> None:
    body = {"message": {"title": ["is rude"]}}
    gitlab.simulator.inject(Fault("status", status=400, body=body, method="POST"))
    with pytest.raises(Refused, match="title: is rude"):
        await gitlab.forge.ensure(WANTED, deadline=soon())
    gitlab.simulator.inject(Fault("status", status=409, body={"message": "some other conflict"}, method="POST"))
    with pytest.raises(Refused, match="some other conflict"):
        await gitlab.forge.ensure(WANTED, deadline=soon())


# --- Azure DevOps -----------------------------------------------------------------------------------------------------

REPOSITORY = "/acme/Fabrikam%20Fiber/_apis/git/repositories/Fabrikam%20Fiber"
AZURE_LIST = (
    f"{REPOSITORY}/pullrequests?searchCriteria.status=active"
    "&searchCriteria.sourceRefName=refs%2Fheads%2Fagent-smith%2F12&%24top=100&api-version=7.1"
)


async def test_azure_looks_makes_updates_and_links(azure: OnAzure) -> None:
    sent, ticket = azure.simulator.requests, azure.ticket()
    wanted = replace(WANTED, draft=True, ticket=ticket)
    made = await azure.forge.ensure(wanted, deadline=soon())
    body = {
        "sourceRefName": f"refs/heads/{BRANCH}",
        "targetRefName": "refs/heads/main",
        "title": WANTED.title,
        "description": WANTED.body,
        "isDraft": True,
        "workItemRefs": [{"id": ticket.key}],
    }
    assert told(sent) == [("GET", AZURE_LIST, None), ("POST", f"{REPOSITORY}/pullrequests?api-version=7.1", body)]
    one = f"{REPOSITORY}/pullrequests/{made.number}"
    await azure.forge.ensure(replace(wanted, title="Newer", draft=False), deadline=soon())
    assert told(sent) == [
        ("GET", AZURE_LIST, None),
        ("GET", f"{one}?includeWorkItemRefs=true&api-version=7.1", None),
        ("PATCH", f"{one}?api-version=7.1", {"title": "Newer", "isDraft": False}),
    ]
    other = azure.ticket()
    await azure.forge.ensure(replace(wanted, title="Newer", draft=False, ticket=other), deadline=soon())
    *_, (method, path, patch) = told(sent)
    assert (method, path) == ("PATCH", f"/acme/fabrikam%20fiber/_apis/wit/workitems/{other.key}?api-version=7.1")
    assert [(op["op"], op["path"], op["value"]["rel"]) for op in patch] == [("add", "/relations/-", "ArtifactLink")]
    assert azure.pulls()[0].items == (ticket.key, other.key)


async def test_azure_every_request_is_one_that_was_published(azure: OnAzure) -> None:
    judge = AzureDevOpsJudge()
    ticket = azure.ticket()
    azure.open_pull(BRANCH)
    made = await azure.forge.ensure(replace(WANTED, ticket=ticket), deadline=soon())
    azure.close_pull(made.number)
    await azure.forge.ensure(replace(WANTED, ticket=azure.ticket()), deadline=soon())
    await azure.forge.find(BRANCH)
    for entry in azure.simulator.requests:
        judge.check_recorded(entry)
    assert judge.judged >= 7
    assert judge.undescribed == []


async def test_azure_a_link_that_is_refused_fails_nothing(azure: OnAzure) -> None:
    azure.open_pull(BRANCH)
    azure.simulator.inject(Fault("status", status=403, body={"message": "TF401289"}, path="/workitems/"))
    with structlog.testing.capture_logs() as logs:
        made = await azure.forge.ensure(replace(WANTED, ticket=azure.ticket()), deadline=soon())
    assert made.title == WANTED.title
    assert [line["event"] for line in logs] == ["a pull request was not linked to its work item"]


async def test_azure_a_disabled_repository_and_another_refusal_are_told(azure: OnAzure) -> None:
    azure.azure.add_repository("Fabrikam Fiber", "old", disabled=True)
    with pytest.raises(RepositoryNotFound, match="disabled"):
        await azure.another(name="old").default_branch()
    body = {"message": "TF402455: Pushes to this branch are not permitted", "typeKey": "GitRefUpdateRejected"}
    azure.simulator.inject(Fault("status", status=400, body=body, method="POST"))
    with pytest.raises(Refused, match="TF402455"):
        await azure.forge.ensure(WANTED, deadline=soon())


async def test_azure_shows_people_their_own_address(azure: OnAzure) -> None:
    made = await azure.forge.ensure(WANTED, deadline=soon())
    assert made.url == f"{azure.url}/acme/Fabrikam%20Fiber/_git/Fabrikam%20Fiber/pullrequest/{made.number}"
