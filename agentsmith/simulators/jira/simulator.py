"""The Jira simulator: admission, what every answer carries, and all endpoints put together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from typing import ClassVar

from starlette.responses import Response

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.frame import Call, Endpoint, Simulator, table
from agentsmith.simulators.jira.access import FAILED
from agentsmith.simulators.jira.account_routes import AccountRoutes
from agentsmith.simulators.jira.comment_routes import CommentRoutes
from agentsmith.simulators.jira.hook_routes import HookRoutes
from agentsmith.simulators.jira.hub import Hub
from agentsmith.simulators.jira.issue_routes import IssueRoutes
from agentsmith.simulators.jira.limits import BURST, PER_ISSUE, QUOTA
from agentsmith.simulators.jira.payloads import Renderer
from agentsmith.simulators.jira.people import People
from agentsmith.simulators.jira.search_routes import SearchRoutes
from agentsmith.simulators.jira.transition_routes import TransitionRoutes
from agentsmith.simulators.jira.webhooks import Hooks, RetryingOutbox

WRITES = "POST|PUT|DELETE"
_ISSUE = re.compile(r"/rest/api/[^/]+/issue/([A-Za-z][A-Za-z0-9_]*-[0-9]+|[0-9]+)(?:/|$)")


class JiraSimulator(People, Simulator):
    """Jira in memory: Cloud with `/rest/api/3` (and 2), or Data Center (`cloud=False`) with 2 only.

    `issue_limits` enforces 20 writes in 2 s and 100 in 30 s per issue. `returns_issue=False` answers edits with 204
    whatever was asked; `returns_properties` shows edited properties in such an answer; `lists_comment_properties=False`
    ignores `expand=properties` on comments: Atlassian documents neither. Its own kinds of faults:
      burst_limit             429 with the reason jira-burst-based and `retry_after` if given
      quota_limit             429 with the reason jira-quota-tenant-based
      issue_limit             429 with the reason jira-per-issue-on-write
      bad_credentials         401, as for an expired token
      anonymous               the token is ignored: strangers see empty lists and no issues
      silent_permission_loss  an edit is accepted and changes nothing
      label_conflict          an edit is answered with 409
      label_revived           labels that an edit removes come back
      transition_conflict     a transition is answered with 409: another one is under way
      short_history           an issue's history is cut after its oldest entry, and tells how long it is
    """

    name: ClassVar[str] = "jira"
    quirk_kinds: ClassVar[Mapping[str, tuple[str, str]]] = {
        "burst_limit": ("", ""),
        "quota_limit": ("", ""),
        "issue_limit": (WRITES, r"/issue/"),
        "bad_credentials": ("", ""),
        "anonymous": ("", ""),
        "silent_permission_loss": ("PUT", r"/issue/[^/]+$"),
        "label_conflict": ("PUT", r"/issue/[^/]+$"),
        "label_revived": ("PUT", r"/issue/[^/]+$"),
        "transition_conflict": ("POST", r"/transitions$"),
        "short_history": ("GET", r"/issue/[^/]+$"),
    }

    def __init__(
        self,
        *,
        cloud: bool = True,
        issue_limits: bool = False,
        returns_issue: bool = True,
        returns_properties: bool = False,
        lists_comment_properties: bool = True,
        clock: Clock | None = None,
        delivery_timeout: float = 10.0,
    ) -> None:
        clock = clock or Clock()
        super().__init__(clock=clock, delivery_timeout=delivery_timeout)
        self.cloud = cloud
        self.outbox = RetryingOutbox(clock, self.faults, timeout=delivery_timeout)
        self.hub = Hub(clock, lambda notice: self.hooks.notify(notice), cloud=cloud, issue_limits=issue_limits)
        self.hub.returns_issue, self.hub.returns_properties = returns_issue, returns_properties
        self.hub.lists_comment_properties = lists_comment_properties
        self.hooks = Hooks(clock, self.outbox, self._renderer, self.hub.world.next_id, cloud=cloud)

    def endpoints(self) -> Sequence[Endpoint]:
        """Every endpoint."""
        groups = (IssueRoutes, CommentRoutes, TransitionRoutes, SearchRoutes, AccountRoutes)
        return table(*(group(self.hub).table() for group in groups), HookRoutes(self.hub, self.hooks).table())

    def clear_state(self) -> None:
        """No accounts, no projects, no tokens, no hooks."""
        self.hub.clear()
        self.hooks.hooks.clear()

    def admit(self, call: Call) -> Response | None:
        """API version, credential, limits."""
        known = ("2", "3", "latest") if self.cloud else ("2", "latest")
        if call.params.get("version", "latest") not in known:
            return Response("<html>404</html>", 404, media_type="text/html")
        if refusal := self.hub.door.admit(call):
            return refusal
        for kind, reason in (("burst_limit", BURST), ("quota_limit", QUOTA), ("issue_limit", PER_ISSUE)):
            if fault := call.quirks.get(kind):
                return self.hub.limits.refusal(reason, fault.retry_after)
        named = _ISSUE.match(call.path)
        issue = self.hub.world.issue(named[1]) if named and call.method != "GET" else None
        return self.hub.limits.check(issue.id) if issue is not None else None

    def finish(self, call: Call, response: Response) -> Response:
        """The headers that every answer has; every request of somebody known counts."""
        call.counted = call.caller is not None
        headers = {"Date": formatdate(self.clock.now(), usegmt=True), "X-AREQUESTID": "simulated"}
        known = self.hub.door.name(call)
        if known is None and "x-seraph-loginreason" not in response.headers:
            headers |= FAILED if call.headers.get("authorization") else {}
        if not self.cloud:
            headers["X-AUSERNAME"] = known or "anonymous"
        if known is not None and self.cloud:
            headers["X-AACCOUNTID"] = self.hub.world.user(known).account_id
        if response.headers.get("content-type") == "application/json":
            headers["Content-Type"] = "application/json;charset=UTF-8"
        response.headers.update(headers)
        return response

    def _renderer(self) -> Renderer:
        return Renderer(self.hub.world, self.url, "2", self.cloud)
