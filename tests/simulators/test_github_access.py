"""Headers, credentials, limits and conditional requests."""

from __future__ import annotations

import httpx
import pytest

from agentsmith.simulators import Clock, Fault, Running, serve
from agentsmith.simulators.github import GitHubSimulator

REPO = "acme/web"


def root(api: httpx.AsyncClient) -> str:
    return str(api.base_url).partition("/repos/")[0]


class TestHeaders:
    """What GitHub insists on before it looks at anything."""

    async def test_no_user_agent(self, api: httpx.AsyncClient) -> None:
        answer = await api.get("/issues", headers={"User-Agent": ""})
        assert answer.status_code == 403
        assert "User-Agent" in answer.text
        assert answer.headers["content-type"].startswith("text/html")

    async def test_api_versions(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        hub.retired_versions = ("2021-01-01",)
        for version, status in (("2022-11-28", 200), ("2026-03-10", 200), ("1999-01-01", 400), ("2021-01-01", 410)):
            answer = await api.get("/issues", headers={"X-GitHub-Api-Version": version})
            assert answer.status_code == status, version

    async def test_every_answer_carries_identity_and_limits(self, api: httpx.AsyncClient) -> None:
        answer = await api.get("/issues/404")
        assert answer.status_code == 404
        for name in ("x-github-request-id", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"):
            assert name in answer.headers
        assert answer.headers["x-ratelimit-resource"] == "core"
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
        assert answer.headers["date"] == "Fri, 15 Jan 2027 08:00:00 GMT"


class TestCredentials:
    """Who is let in."""

    @pytest.mark.parametrize(
        ("header", "status", "message"),
        [
            (None, 401, "Requires authentication"),
            ("Basic abc", 401, "Requires authentication"),
            ("Bearer wrong", 401, "Bad credentials"),
            ("token wrong", 401, "Bad credentials"),
            ("token token-of-smith", 200, None),
            ("Bearer token-of-smith", 200, None),
        ],
    )
    async def test_schemes(self, api: httpx.AsyncClient, header: str | None, status: int, message: str | None) -> None:
        del api.headers["authorization"]
        answer = await api.get(f"{root(api)}/user", headers={"Authorization": header} if header else {})
        assert answer.status_code == status
        assert answer.json().get("message") == message
        assert answer.headers["x-ratelimit-limit"] == ("5000" if status == 200 else "60")

    async def test_tokens_expire_and_are_revoked(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        hub.add_token("brief", login="smith-bot", expires_in=60)
        headers = {"Authorization": "Bearer brief"}
        assert (await api.get("/issues", headers=headers)).status_code == 200
        hub.clock.advance(60)
        assert (await api.get("/issues", headers=headers)).status_code == 401
        hub.revoke_token("token-of-smith")
        assert (await api.get("/issues")).status_code == 401

    async def test_bad_credentials_on_demand(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        hub.inject(Fault("bad_credentials"))
        assert (await api.get("/issues")).json()["message"] == "Bad credentials"
        assert (await api.get("/issues")).status_code == 200

    async def test_fine_grained_permissions(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        number = hub.open_issue(REPO)
        hub.add_token("narrow", login="smith-bot", permissions={"issues": "write", "metadata": "read"})
        headers = {"Authorization": "Bearer narrow"}
        labelled = await api.post(f"/issues/{number}/labels", json={"labels": ["x"]}, headers=headers)
        assert labelled.status_code == 200
        ref = await api.post("/git/refs", json={"ref": "refs/x/y", "sha": "0" * 40}, headers=headers)
        assert ref.status_code == 403
        assert ref.json()["message"] == "Resource not accessible by personal access token"

    async def test_who_am_i_and_what_may_they(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        me = (await api.get(f"{root(api)}/user")).json()
        assert (me["login"], me["type"]) == ("smith-bot", "User")
        assert (await api.get(f"{root(api)}/users/SMITH-bot")).json()["id"] == me["id"]
        assert (await api.get(f"{root(api)}/users/nobody")).status_code == 404
        for role, word in (("admin", "admin"), ("maintain", "write"), ("triage", "read"), ("read", "read")):
            hub.set_permission(REPO, "mona", role)
            answer = (await api.get("/collaborators/Mona/permission")).json()
            assert (answer["permission"], answer["role_name"]) == (word, role)
            assert answer["user"]["permissions"]["push"] is (role in ("admin", "maintain"))
        assert (await api.get("/collaborators/nobody/permission")).status_code == 404
        hub.hub.world.user("dependabot[bot]")
        bot = await api.get("/collaborators/dependabot[bot]/permission")
        assert (bot.status_code, bot.json()["message"]) == (404, "dependabot[bot] is not a user")
        hub.set_permission(REPO, "smith-bot", "read")
        assert (await api.get("/collaborators/mona/permission")).status_code == 403
        with pytest.raises(ValueError, match="permission is one of"):
            hub.set_permission(REPO, "mona", "emperor")

    async def test_the_repository_itself(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        hub.open_issue(REPO)
        body = (await api.get(f"{root(api)}/repos/{REPO}")).json()
        assert (body["full_name"], body["default_branch"], body["open_issues_count"]) == (REPO, "main", 1)
        assert body["permissions"] == {
            "admin": False,
            "maintain": False,
            "push": True,
            "triage": True,
            "pull": True,
        }


class TestConditionalRequests:
    """ETags are per token; 304 is free; conditional writes do not exist."""

    async def test_304_costs_nothing(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        number = hub.open_issue(REPO)
        for path in (f"/issues/{number}", "/issues", f"/issues/{number}/comments"):
            first = await api.get(path)
            etag = first.headers["etag"]
            again = await api.get(path, headers={"If-None-Match": etag})
            assert again.status_code == 304
            assert again.content == b""
            assert again.headers["etag"] == etag
            assert again.headers["x-ratelimit-remaining"] == first.headers["x-ratelimit-remaining"]
        assert [r.counted for r in hub.requests] == [True, False] * 3
        assert len(hub.counted_requests()) == 3

    async def test_any_form_of_the_etag_will_do(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        path = f"/issues/{hub.open_issue(REPO)}"
        etag = (await api.get(path)).headers["etag"]
        for form in (etag.removeprefix("W/"), f'"other", {etag}'):
            assert (await api.get(path, headers={"If-None-Match": form})).status_code == 304

    async def test_a_change_and_another_token_both_count(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        number = hub.open_issue(REPO)
        hub.add_token("second", login="smith-bot")
        etag = (await api.get(f"/issues/{number}")).headers["etag"]
        known = {"If-None-Match": etag}
        other = await api.get(f"/issues/{number}", headers={**known, "Authorization": "token second"})
        assert other.status_code == 200
        assert other.headers["etag"] != etag
        hub.add_label(REPO, number, "x", webhook=False)
        assert (await api.get(f"/issues/{number}", headers=known)).status_code == 200

    @pytest.mark.parametrize("header", ["If-Match", "If-None-Match", "If-Unmodified-Since", "If-Modified-Since"])
    @pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
    async def test_conditional_writes_are_400_and_change_nothing(
        self, hub: GitHubSimulator, api: httpx.AsyncClient, method: str, header: str
    ) -> None:
        number = hub.open_issue(REPO, labels=["a"])
        path = {"PATCH": "", "DELETE": "/labels/a"}.get(method, "/labels")
        body = None if method == "DELETE" else {"labels": ["b"]}
        answer = await api.request(method, f"/issues/{number}{path}", json=body, headers={header: '"x"'})
        assert answer.status_code == 400
        assert answer.json()["message"].startswith("Conditional request headers are not allowed in unsafe")
        assert hub.labels(REPO, number) == ["a"]


class TestLimits:
    """Quota by the hour, bursts on demand; the clock is simulated."""

    async def test_the_quota_runs_out_and_comes_back(self) -> None:
        hub = GitHubSimulator(clock=Clock(1000.0), rate_limit=3)
        hub.add_repository(REPO)
        hub.add_token("t")
        hub.add_token("u")
        async with serve(hub) as running, client(running, "t") as api:
            left = [(await api.get("/user")).headers["x-ratelimit-remaining"] for _ in range(3)]
            assert left == ["2", "1", "0"]
            over = await api.get("/user", headers={"Authorization": "token u"})  # the same user's quota
            assert over.status_code == 403
            assert "API rate limit exceeded" in over.json()["message"]
            assert over.headers["x-ratelimit-remaining"] == "0"
            assert over.headers["x-ratelimit-reset"] == "4600"
            assert (await api.get("/rate_limit")).json()["resources"]["core"]["remaining"] == 0
            hub.clock.advance(3600)
            assert (await api.get("/user")).headers["x-ratelimit-remaining"] == "2"
        assert [r.counted for r in hub.requests] == [True, True, True, False, False, True]

    async def test_asking_for_the_limit_is_free(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        body = (await api.get(f"{root(api)}/rate_limit")).json()
        assert body["rate"] == body["resources"]["core"]
        assert body["rate"]["used"] == 0
        assert body["resources"]["search"]["limit"] == 30
        assert not hub.counted_requests()

    async def test_primary_limit_on_demand(self, hub: GitHubSimulator, api: httpx.AsyncClient) -> None:
        hub.inject(Fault("primary_limit", seconds=120, status=429))
        assert (await api.get("/issues")).status_code == 429
        assert (await api.get("/issues")).status_code == 403  # the quota stays used up
        hub.clock.advance(121)
        assert (await api.get("/issues")).status_code == 200
        hub.exhaust_quota("smith-bot", reset_in=10)
        answer = await api.get("/issues")
        assert int(answer.headers["x-ratelimit-reset"]) == int(hub.clock.now()) + 10

    @pytest.mark.parametrize(("status", "retry_after"), [(403, 30), (429, None), (0, None)])
    async def test_secondary_limit_on_demand(
        self, hub: GitHubSimulator, api: httpx.AsyncClient, status: int, retry_after: int | None
    ) -> None:
        hub.inject(Fault("secondary_limit", status=status, retry_after=retry_after))
        answer = await api.get("/issues")
        assert answer.status_code == (status or 403)
        assert "secondary rate limit" in answer.json()["message"]
        assert answer.headers.get("retry-after") == (None if retry_after is None else str(retry_after))
        assert int(answer.headers["x-ratelimit-remaining"]) > 0

    async def test_secondary_limits_if_switched_on(self) -> None:
        hub = GitHubSimulator(clock=Clock(1000.0), secondary_limits=True)
        hub.add_repository(REPO)
        hub.add_token("t")
        number = hub.open_issue(REPO)
        path = f"/repos/{REPO}/issues/{number}/comments"
        async with serve(hub) as running, client(running, "t") as api:
            statuses = [(await api.post(path, json={"body": "x"})).status_code for _ in range(81)]
            assert statuses == [201] * 80 + [403]
            hub.clock.advance(61)
            assert (await api.post(path, json={"body": "x"})).status_code == 201

    async def test_an_enterprise_server_has_its_own_addresses_and_no_limits(self) -> None:
        hub = GitHubSimulator(enterprise=True)
        hub.add_repository(REPO)
        hub.add_token("t")
        number = hub.open_issue(REPO)
        async with serve(hub) as running, client(running, "t") as api:
            assert running.api_url == f"{running.url}/api/v3"
            answer = await api.get(f"/repos/{REPO}/issues/{number}")
            assert answer.json()["url"] == f"{running.url}/api/v3/repos/{REPO}/issues/{number}"
            assert answer.json()["html_url"] == f"{running.url}/{REPO}/issues/{number}"
            assert "x-ratelimit-limit" not in answer.headers
            limit = await api.get("/rate_limit")
            assert (limit.status_code, limit.json()["message"]) == (404, "Rate limiting is not enabled.")
            query = {"query": "{viewer{login}}"}
            assert (await api.post(f"{running.url}/api/graphql", json=query)).json()["data"]
            assert (await api.get(f"{running.url}/repos/{REPO}/issues/{number}")).status_code == 500
        assert len(hub.unknown_requests) == 1


def client(running: Running, token: str) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.AsyncClient(base_url=running.api_url, headers=headers, trust_env=False)
