"""The GitLab simulator: admission, what every answer carries, and all endpoints put together."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from typing import ClassVar

from starlette.responses import Response

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.frame import Call, Endpoint, Simulator, table
from agentsmith.simulators.git.smart_http import GitAsked, GitVisit
from agentsmith.simulators.gitlab.access import Credential, unauthorized
from agentsmith.simulators.gitlab.account_routes import AccountRoutes
from agentsmith.simulators.gitlab.code import GitDoor
from agentsmith.simulators.gitlab.graphql import GraphqlRoutes
from agentsmith.simulators.gitlab.hook_routes import HookRoutes
from agentsmith.simulators.gitlab.hub import API, Hub
from agentsmith.simulators.gitlab.issue_routes import IssueRoutes
from agentsmith.simulators.gitlab.label_routes import LabelRoutes
from agentsmith.simulators.gitlab.limits import Limits
from agentsmith.simulators.gitlab.merge_routes import MergeRoutes
from agentsmith.simulators.gitlab.note_routes import NoteRoutes
from agentsmith.simulators.gitlab.payloads import Renderer
from agentsmith.simulators.gitlab.people import People
from agentsmith.simulators.gitlab.webhooks import Hooks

WRITES = "POST|PUT|DELETE"


class GitLabSimulator(People, Simulator):
    """GitLab in memory, under `/api/v4`. `premium=True` makes scoped labels exclude each other and lets links block.

    `keyset` is `yes`, `ignored` (as servers before 18.3: pages by number instead) or `refused` (405).
    `external_url` is the address that GitLab believes to have, where a client calls it by another one.

    Its own kinds of faults, besides those of the frame:
      rate_limited            429 in plain text, with `retry_after` if given
      notes_limit             429 in JSON, for comments only, without a time
      bad_credentials         401, as for a token that was revoked
      silent_permission_loss  label changes are answered with 200 and dropped
      label_survives          remove_labels has no effect
      lost_update             label changes are computed from the version before: a label set meanwhile is lost
      wrong_filter            a listing ignores its label filter
      no_links                404 (or `status` 403) for links, as where the tier has none
      no_label_dates          GraphQL knows no dates of labels, as before 13.9
    """

    name: ClassVar[str] = "gitlab"
    quirk_kinds: ClassVar[Mapping[str, tuple[str, str]]] = {
        "rate_limited": ("", ""),
        "notes_limit": ("POST", "/notes$"),
        "bad_credentials": ("", ""),
        "silent_permission_loss": ("PUT", r"/issues/\d+$"),
        "label_survives": ("PUT", r"/issues/\d+$"),
        "lost_update": ("PUT", r"/issues/\d+$"),
        "wrong_filter": ("GET", "/issues$"),
        "no_links": ("GET", "/links$"),
        "no_label_dates": ("POST", "/graphql$"),
    }

    def __init__(
        self,
        *,
        premium: bool = False,
        rate_limit: int | None = None,
        keyset: str = "yes",
        external_url: str | None = None,
        clock: Clock | None = None,
        delivery_timeout: float = 10.0,
    ) -> None:
        clock = clock or Clock()
        super().__init__(clock=clock, api_root=API, delivery_timeout=delivery_timeout)
        self._answers = itertools.count(1)
        self.hub = Hub(
            clock,
            Limits(clock, rate_limit),
            lambda notice: self.hooks.notify(notice),
            premium=premium,
            keyset=keyset,
            external_url=external_url,
            home=self.git,
        )
        self._git_door = GitDoor(self.hub.world, self.hub.credentials, self.hub.code)
        self.hooks = Hooks(clock, self.outbox, self._renderer, self.hub.world.next_id)

    def endpoints(self) -> Sequence[Endpoint]:
        """Every endpoint; the project itself comes last, because its path may look like anything."""
        groups = (
            NoteRoutes(self.hub),
            MergeRoutes(self.hub),
            LabelRoutes(self.hub),
            IssueRoutes(self.hub),
            HookRoutes(self.hub, self.hooks),
            AccountRoutes(self.hub),
        )
        return [GraphqlRoutes(self.hub).endpoint, *table(*(group.table() for group in groups))]

    def clear_state(self) -> None:
        """No users, no projects, no tokens, no hooks."""
        self.hub.clear()
        self.hooks.hooks.clear()
        self.hooks.withheld = 0

    def git_door(self, call: Call, asked: GitAsked) -> GitVisit | Response:
        """`/acme/apps/web.git` at the web root, with a token of the API as the password."""
        return self._git_door.enter(call, asked)

    def admit(self, call: Call) -> Response | None:
        """Credential and limits. GitLab has no conditional requests: such headers mean nothing to it."""
        if "bad_credentials" in call.quirks:
            return unauthorized()
        found = self.hub.credentials.check(call)
        if isinstance(found, Response):
            return found
        call.caller, call.caller_name = found, found.username
        if limited := call.quirks.get("rate_limited"):
            return self.hub.limits.refusal(limited.retry_after)
        return self.hub.limits.spend(found.username)

    def finish(self, call: Call, response: Response) -> Response:
        """An ETag that is of no use, the limit's headers, and what else every answer has. Every request counts."""
        call.counted = isinstance(call.caller, Credential)
        headers = {
            "Date": formatdate(self.clock.now(), usegmt=True),
            "X-Request-Id": f"01SIM{next(self._answers):021d}",
            "Vary": "Origin",
        }
        if isinstance(call.caller, Credential):
            headers |= self.hub.limits.headers(call.caller.username)
        if call.method == "GET" and response.status_code == 200:
            digest = hashlib.sha256(bytes(response.body)).hexdigest()[:32]
            headers |= {"ETag": f'W/"{digest}"', "Cache-Control": "max-age=0, private, must-revalidate"}
        response.headers.update(headers)
        return response

    def _renderer(self) -> Renderer:
        web = self.hub.external_url or self.url
        return Renderer(self.hub.world, web + API, web, self.hub.code.empty)
