"""The repository's webhooks: installed, looked after, and what they failed to deliver (H1 to H5).

Only admins of a repository see its webhooks, so the token needs more rights for this than for everything else; whoever
does not want to give them makes the webhook by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agentsmith.domain.errors import Refused, TicketNotFound
from agentsmith.domain.hooks import Hook, is_ours
from agentsmith.trackers.github import payloads
from agentsmith.trackers.github.payloads import Delivered, RepositoryHook
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.shared.api import OnProject

EVENTS: Final = ("issues", "issue_comment")
_MOST_PAGES: Final = 10
"""So many pages of the log are read; what failed before that is found by polling."""
_MOST_TRIES: Final = 3
"""A delivery that failed so often is not asked for again."""


class Hooks(OnProject[Site]):
    """Looks after the webhooks of one repository."""

    async def listed(self) -> tuple[Hook, ...]:
        """Every webhook of the repository."""
        params = {"per_page": str(self._page_size)}
        found: list[Hook] = []
        async for page in self._client.pages(self._path(), params=params, missing=Refused):
            records: list[RepositoryHook] = payloads.read(list[RepositoryHook], page.data, "a list of webhooks")
            found += [_hook(record) for record in records]
        return tuple(found)

    async def install(self, url: str, secret: str) -> Hook:
        """A new one, with the secret."""
        body = {"name": "web", "active": True, "events": list(EVENTS), "config": _config(url, secret)}
        answer = await self._client.write("POST", self._path(), body, missing=Refused)
        return _hook(payloads.read(RepositoryHook, answer.data, "a webhook"))

    async def repair(self, hook: Hook, secret: str) -> Hook:
        """The same one, listening to what matters and nothing else."""
        body = {"active": True, "events": list(EVENTS), "config": _config(hook.url, secret)}
        answer = await self._client.write("PATCH", self._path(hook.ref), body, repeatable=True, missing=Refused)
        return _hook(payloads.read(RepositoryHook, answer.data, "a webhook"))

    async def remove(self, hook: Hook) -> None:
        """Take it away."""
        await self._client.write("DELETE", self._path(hook.ref), repeatable=True, allow=frozenset({404}))

    async def redeliver_failed(self, tracker: str, public_url: str | None) -> int:
        """Have every delivery sent again that never arrived."""
        asked = 0
        for hook in await self.listed():
            if is_ours(hook.url, tracker, public_url):
                for delivery in await self._failed(hook):
                    path = self._path(hook.ref, f"/deliveries/{delivery}/attempts")
                    try:
                        await self._client.write("POST", path, {})
                    except TicketNotFound:
                        continue  # its time is up
                    asked += 1
        return asked

    async def _failed(self, hook: Hook) -> list[int]:
        """The latest attempt of each delivery of which none succeeded, oldest first."""
        attempts: dict[str, list[Delivered]] = {}
        pages = 0
        params = {"per_page": str(self._page_size)}
        async for page in self._client.pages(self._path(hook.ref, "/deliveries"), params=params, missing=Refused):
            records: list[Delivered] = payloads.read(list[Delivered], page.data, "a list of deliveries")
            for record in records:
                attempts.setdefault(record.guid, []).append(record)
            pages += 1
            if pages >= _MOST_PAGES:
                break
        failed = [
            tries[0].id  # the newest stands first
            for tries in attempts.values()
            if tries[0].event in EVENTS and len(tries) < _MOST_TRIES and not any(one.arrived for one in tries)
        ]
        return sorted(failed)

    def _path(self, ref: str = "", rest: str = "") -> str:
        return self._site.path(rest=f"/hooks{f'/{ref}' if ref else ''}{rest}")


def _config(url: str, secret: str) -> Mapping[str, Any]:
    return {"url": url, "content_type": "json", "secret": secret, "insecure_ssl": "0"}


def _hook(record: RepositoryHook) -> Hook:
    problems = []
    if not record.active:
        problems.append("it is switched off")
    if "*" not in record.events and (missing := [event for event in EVENTS if event not in record.events]):
        problems.append(f"it does not tell of {' and '.join(missing)}")
    if record.config.content_type != "json":
        problems.append("it does not send JSON")
    if not record.config.secret:
        problems.append("it has no secret")
    if record.last_response.code is not None and record.last_response.code >= 300:
        problems.append(f"its last delivery was answered with {record.last_response.code}")
    return Hook(str(record.id), record.config.url, tuple(problems))
