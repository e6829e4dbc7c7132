"""The GitHub simulator: admission, what every answer carries, and all endpoints put together."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from typing import ClassVar

from starlette.responses import Response

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.frame import Call, Endpoint, Simulator, table
from agentsmith.simulators.git.smart_http import GitAsked, GitVisit
from agentsmith.simulators.github.access import Credential, bad_credentials, token_in
from agentsmith.simulators.github.account_routes import AccountRoutes
from agentsmith.simulators.github.answers import problem
from agentsmith.simulators.github.apps import App, AppRoutes, Apps, wants_jwt
from agentsmith.simulators.github.code import GitDoor
from agentsmith.simulators.github.comment_routes import CommentRoutes
from agentsmith.simulators.github.graphql import GraphqlEndpoint
from agentsmith.simulators.github.hook_routes import HookRoutes
from agentsmith.simulators.github.hub import Hub
from agentsmith.simulators.github.issue_routes import IssueRoutes
from agentsmith.simulators.github.label_routes import LabelRoutes
from agentsmith.simulators.github.limits import ANONYMOUS, Limits
from agentsmith.simulators.github.payloads import Renderer
from agentsmith.simulators.github.people import People
from agentsmith.simulators.github.pull_routes import PullRoutes
from agentsmith.simulators.github.ref_routes import RefRoutes
from agentsmith.simulators.github.webhooks import Hooks

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
CONDITIONAL = ("if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range")
NO_AGENT = (
    "Request forbidden by administrative rules. Please make sure your request has a User-Agent header. "
    "Check https://developer.github.com for other possible causes.\n"
)
CONTENT = re.compile(r"/(issues|comments|pulls|reactions)$")


class GitHubSimulator(People, Simulator):
    """GitHub in memory. `enterprise=True` serves under `/api/v3` and `/api/graphql`, without limits by default.

    Its own kinds of faults, besides those of the frame:
      primary_limit           the hourly quota is gone until the reset (403, or `status`)
      secondary_limit         403 (or `status`) with the secondary message and `retry_after` if given
      bad_credentials         401, as for an expired token
      silent_permission_loss  label writes are answered with 200 and dropped
      lenient_delete          removing a label that is not there is answered with 200
      wrong_filter            a listing ignores its label filter
      uncounted               a list in pages does not say which page is its last
    """

    name: ClassVar[str] = "github"
    quirk_kinds: ClassVar[Mapping[str, tuple[str, str]]] = {
        "primary_limit": ("", ""),
        "secondary_limit": ("", ""),
        "bad_credentials": ("", ""),
        "silent_permission_loss": ("POST|PUT|PATCH|DELETE", r"/labels|/issues(/\d+)?$|/graphql$"),
        "lenient_delete": ("DELETE", r"/issues/\d+/labels/"),
        "wrong_filter": ("GET", "/issues$"),
        "uncounted": ("GET", ""),
    }

    def __init__(
        self,
        *,
        enterprise: bool = False,
        rate_limit: int | None = None,
        secondary_limits: bool = False,
        clock: Clock | None = None,
        delivery_timeout: float | None = None,
        api_versions: Sequence[str] = ("2022-11-28", "2026-03-10"),
        retired_versions: Sequence[str] = (),
    ) -> None:
        clock = clock or Clock()
        super().__init__(
            clock=clock,
            api_root="/api/v3" if enterprise else "",
            delivery_timeout=delivery_timeout or (30.0 if enterprise else 10.0),
        )
        self.enterprise = enterprise
        self._answers = itertools.count(1)
        self.api_versions, self.retired_versions = tuple(api_versions), tuple(retired_versions)
        limit = rate_limit if rate_limit is not None or enterprise else 5000
        limits = Limits(clock, limit, secondary=secondary_limits)
        self.hub = Hub(clock, limits, lambda notice: self.hooks.notify(notice), self.git)
        self._git_door = GitDoor(self.hub.door, self.hub.credentials, self.hub.code)
        self.hooks = Hooks(clock, self.outbox, self._renderer, self.hub.world.next_id)
        self.apps = Apps(self.hub)

    def endpoints(self) -> Sequence[Endpoint]:
        """Every endpoint; comments come before issues because their paths look alike."""
        groups = (
            CommentRoutes(self.hub),
            IssueRoutes(self.hub),
            LabelRoutes(self.hub),
            PullRoutes(self.hub),
            RefRoutes(self.hub),
            HookRoutes(self.hub, self.hooks),
            AccountRoutes(self.hub),
            AppRoutes(self.hub, self.apps),
        )
        path = "/api/graphql" if self.enterprise else "/graphql"
        graphql = Endpoint("POST", path, GraphqlEndpoint(self.hub).run, outside=self.enterprise)
        return [*table(*(group.table() for group in groups)), graphql]

    def canonical_path(self, path: str) -> str:
        """`/repositories/{id}/…` is the same as `/repos/{owner}/{repo}/…`."""
        found = re.match(r"/repositories/(\d+)(/.*)?$", path)
        repository = self.hub.world.repositories.get(int(found[1])) if found else None
        if found is None or repository is None:
            return path
        return f"/repos/{repository.full_name}{found[2] or ''}"

    def clear_state(self) -> None:
        """No users, no repositories, no tokens, no hooks."""
        self.hub.clear()
        self.hooks.hooks.clear()
        self.apps.clear()

    def git_door(self, call: Call, asked: GitAsked) -> GitVisit | Response:
        """`/acme/web.git` at the web root, with a token of the API as the password."""
        return self._git_door.enter(call, asked)

    def admit(self, call: Call) -> Response | None:
        """Header rules, credential, limits: in the order in which GitHub seems to look."""
        if not call.headers.get("user-agent"):
            return Response(NO_AGENT, 403, media_type="text/html")
        if refusal := self._authenticate(call):
            return refusal
        version = call.headers.get("x-github-api-version")
        if version in self.retired_versions:
            return problem(410, f"The API version {version} is no longer supported.")
        if version is not None and version not in self.api_versions:
            return problem(400, f"{version!r} is not a supported API version.")
        if call.method not in SAFE and any(name in call.headers for name in CONDITIONAL):
            message = "Conditional request headers are not allowed in unsafe requests unless supported by the endpoint"
            return problem(400, message)
        return self._limit(call)

    def finish(self, call: Call, response: Response) -> Response:
        """ETag and 304 per token, quota, and the headers that every answer has."""
        who, resource = self._purse(call)
        response = _conditional(call, response)
        if not call.free and response.status_code != 304 and call.caller is not None:
            call.counted = self.hub.limits.spend(who, resource)
        headers = {
            **self.hub.limits.headers(who, resource),
            "Date": formatdate(self.clock.now(), usegmt=True),
            "X-GitHub-Request-Id": f"{next(self._answers):04X}:SIM0:{call.method}",
            "X-GitHub-Media-Type": "github.v3; format=json",
        }
        if response.headers.get("content-type") == "application/json":
            headers["Content-Type"] = "application/json; charset=utf-8"
        version = call.headers.get("x-github-api-version", self.api_versions[0])
        response.headers.update({**headers, "X-GitHub-Api-Version-Selected": version})
        return response

    def _authenticate(self, call: Call) -> Response | None:
        token = token_in(call)
        if token is None:
            return problem(401, "Requires authentication")
        if "bad_credentials" in call.quirks:
            return bad_credentials()
        if wants_jwt(call.path):
            call.caller = self.apps.of_jwt(token)
            call.caller_name = call.caller.slug
            return None
        credential = self.hub.credentials.get(token)
        if credential is None:
            return bad_credentials()
        call.caller, call.caller_name = credential, credential.login
        return None

    def _limit(self, call: Call) -> Response | None:
        who, resource = self._purse(call)
        if burst := call.quirks.get("secondary_limit"):
            call.free = True
            return self.hub.limits.secondary_refusal(burst.status, burst.retry_after)
        if call.path == "/rate_limit":
            call.free = True
            return None
        if spent := call.quirks.get("primary_limit"):
            self.hub.limits.exhaust(who, resource, spent.seconds)
            refusal: Response | None = self.hub.limits.primary_refusal(who, resource, spent.status)
        else:
            content = call.method == "POST" and bool(CONTENT.search(call.path))
            refusal = self.hub.limits.check(who, resource, call.method, content=content)
        call.free = refusal is not None
        return refusal

    def _purse(self, call: Call) -> tuple[str, str]:
        """Whose quota a call touches, and which."""
        resource = "graphql" if call.path.endswith("/graphql") else "core"
        if isinstance(call.caller, Credential):
            return call.caller.quota_key, resource
        return (f"app {call.caller.id}" if isinstance(call.caller, App) else ANONYMOUS), resource

    def _renderer(self) -> Renderer:
        return Renderer(self.hub.world, self.api_url, self.url, self.hub.apps)


def _conditional(call: Call, response: Response) -> Response:
    """Give a read its ETag, which another token's would not match, and answer 304 to whoever has it."""
    if call.method != "GET" or response.status_code != 200:
        return response
    token = call.caller.token if isinstance(call.caller, Credential) else ""
    digest = hashlib.sha256(token.encode() + b"\0" + bytes(response.body)).hexdigest()
    etag = f'W/"{digest}"'
    known = [given.strip().removeprefix("W/") for given in call.headers.get("if-none-match", "").split(",")]
    response.headers["ETag"] = etag
    response.headers["Cache-Control"] = "private, max-age=60, s-maxage=60"
    response.headers["Vary"] = "Accept, Authorization, Cookie, X-GitHub-OTP"
    if etag.removeprefix("W/") not in known:
        return response
    # Neither does the ETag cover the Link header, nor does a 304 carry one.
    kept = ("etag", "cache-control", "vary")
    return Response(status_code=304, headers={k: v for k, v in response.headers.items() if k in kept})
