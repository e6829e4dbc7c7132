"""The project's webhooks: installed and looked after (H1 to H5). GitLab lets maintainers of the project do that.

A secret that begins with `whsec_` becomes the hook's signing token, any other its secret token.
"""

from __future__ import annotations

from typing import Any, Final

from agentsmith.domain.errors import Refused
from agentsmith.domain.hooks import Hook
from agentsmith.trackers.gitlab import payloads
from agentsmith.trackers.gitlab.paging import onward
from agentsmith.trackers.gitlab.payloads import ProjectHook
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.gitlab.webhook import SIGNING
from agentsmith.trackers.shared.api import OnProject

EVENTS: Final = ("issues_events", "confidential_issues_events", "note_events", "confidential_note_events")


class Hooks(OnProject[Site]):
    """Looks after the webhooks of one project."""

    async def listed(self) -> tuple[Hook, ...]:
        """Every webhook of the project."""
        params = {"per_page": str(self._page_size)}
        found: list[Hook] = []
        async for page in self._client.pages(self._path(), params=params, next_page=onward(params), missing=Refused):
            records: list[ProjectHook] = payloads.read(list[ProjectHook], page.data, "a list of webhooks")
            found += [_hook(record) for record in records]
        return tuple(found)

    async def install(self, url: str, secret: str) -> Hook:
        """A new one, with the secret."""
        answer = await self._client.write("POST", self._path(), _body(url, secret), missing=Refused)
        return _hook(payloads.read(ProjectHook, answer.data, "a webhook"))

    async def repair(self, hook: Hook, secret: str) -> Hook:
        """The same one, switched on and listening to what matters; GitLab forgets that it failed."""
        path, body = self._path(hook.ref), _body(hook.url, secret)
        answer = await self._client.write("PUT", path, body, repeatable=True, missing=Refused)
        return _hook(payloads.read(ProjectHook, answer.data, "a webhook"))

    async def remove(self, hook: Hook) -> None:
        """Take it away."""
        await self._client.write("DELETE", self._path(hook.ref), repeatable=True, allow=frozenset({404}))

    def _path(self, ref: str = "") -> str:
        return self._site.path(rest=f"/hooks{f'/{ref}' if ref else ''}")


def _body(url: str, secret: str) -> dict[str, Any]:
    token = {"signing_token": secret} if secret.startswith(SIGNING) else {"token": secret}
    return {
        "url": url,
        **dict.fromkeys(EVENTS, True),
        "push_events": False,
        "enable_ssl_verification": url.startswith("https:"),
        **token,
    }


def _hook(record: ProjectHook) -> Hook:
    problems = []
    if missing := [event for event in EVENTS if not getattr(record, event)]:
        problems.append(f"it does not tell of {' and '.join(missing)}")
    if record.alert_status != "executable":
        problems.append(f"GitLab has switched it off because it failed too often ({record.alert_status})")
    return Hook(str(record.id), record.url, tuple(problems))
