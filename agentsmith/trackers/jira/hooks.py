"""The webhooks that administrators of Jira make: installed and looked after (H1 to H5).

Making one takes the right to administer Jira itself, which our account should rather not have. Where it does not, these
calls are refused, and an administrator makes the webhook by hand. Where a Data Center cannot sign, the secret stands
at the end of the address; it is cut off before anybody sees the address.
"""

from __future__ import annotations

from typing import Any, Final

from agentsmith.domain.errors import Refused
from agentsmith.domain.hooks import PATH, Hook
from agentsmith.trackers.jira import payloads
from agentsmith.trackers.jira.payloads import AdminHook
from agentsmith.trackers.jira.site import Site
from agentsmith.trackers.shared.api import OnProject, ProjectApi

EVENTS: Final = ("jira:issue_created", "jira:issue_updated", "jira:issue_deleted", "comment_created")
HOOKS: Final = "/rest/webhooks/1.0/webhook"
_SECTION: Final = "issue-related-events-section"


class Hooks(OnProject[Site]):
    """Looks after the webhooks about one project."""

    def __init__(self, api: ProjectApi[Site], *, secret_in_path: bool = False) -> None:
        super().__init__(api)
        self._in_path = secret_in_path

    async def listed(self) -> tuple[Hook, ...]:
        """Every webhook of this Jira, whatever project it is about."""
        answer = await self._client.get(HOOKS, missing=Refused)
        records: list[AdminHook] = payloads.read(list[AdminHook], answer.data, "a list of webhooks")
        return tuple(self._hook(record) for record in records)

    async def install(self, url: str, secret: str) -> Hook:
        """A new one, for this project only."""
        answer = await self._client.write("POST", HOOKS, self._body(url, secret), missing=Refused)
        return self._hook(payloads.read(AdminHook, answer.data, "a webhook"))

    async def repair(self, hook: Hook, secret: str) -> Hook:
        """The same one, switched on and listening to what matters."""
        path, body = f"{HOOKS}/{hook.ref}", self._body(hook.url, secret)
        answer = await self._client.write("PUT", path, body, repeatable=True, missing=Refused)
        return self._hook(payloads.read(AdminHook, answer.data, "a webhook"))

    async def remove(self, hook: Hook) -> None:
        """Take it away."""
        await self._client.write("DELETE", f"{HOOKS}/{hook.ref}", repeatable=True, allow=frozenset({404}))

    def _body(self, url: str, secret: str) -> dict[str, Any]:
        signed = {"url": f"{url}/{secret}"} if self._in_path else {"url": url, "secret": secret}
        return {
            "name": f"agentsmith {self._site.project}",
            "events": list(EVENTS),
            "filters": {_SECTION: f'project = "{self._site.named}"'},
            "excludeBody": False,
            "enabled": True,
            **signed,
        }

    def _hook(self, record: AdminHook) -> Hook:
        problems = []
        if not record.enabled:
            problems.append("it is switched off")
        if missing := [event for event in EVENTS if event not in record.events]:
            problems.append(f"it does not tell of {' and '.join(missing)}")
        if record.excludeBody:
            problems.append("it sends no body")
        if record.isSigned is False and not self._in_path:
            problems.append("it has no secret")
        return Hook(record.self_.rpartition("/")[2], _without_secret(record.url), tuple(problems))


def _without_secret(url: str) -> str:
    """The address up to the name of the tracker."""
    head, found, tail = url.rpartition(f"/{PATH}/")
    return f"{head}{found}{tail.partition('/')[0]}" if found else url
