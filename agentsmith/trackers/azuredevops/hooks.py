"""The project's service hooks: installed and looked after (H1 to H5).

A subscription tells of one kind of event, so what is one webhook elsewhere is several subscriptions with one address
here. The secret travels as the password of basic authentication; Azure DevOps never shows it again.
"""

from __future__ import annotations

from typing import Any, Final

from agentsmith.domain.errors import Refused
from agentsmith.domain.hooks import Hook
from agentsmith.trackers.azuredevops import payloads
from agentsmith.trackers.azuredevops.dialect import API_VERSION
from agentsmith.trackers.azuredevops.payloads import Page, Project, Subscription
from agentsmith.trackers.azuredevops.site import Site
from agentsmith.trackers.shared.api import OnProject

EVENTS: Final = ("workitem.created", "workitem.updated", "workitem.commented", "workitem.deleted")
USER: Final = "agentsmith"
_ENABLED: Final = "enabled"


class Hooks(OnProject[Site]):
    """Looks after the service hooks of one project."""

    async def listed(self) -> tuple[Hook, ...]:
        """Every address that the project's events are sent to."""
        by_url: dict[str, list[Subscription]] = {}
        for subscription in await self._subscriptions(await self._project()):
            by_url.setdefault(subscription.consumer.url, []).append(subscription)
        return tuple(_hook(url, found) for url, found in by_url.items())

    async def install(self, url: str, secret: str) -> Hook:
        """A subscription for each kind of event."""
        project = await self._project()
        made = [await self._subscribe(project, event, url, secret) for event in EVENTS]
        return _hook(url, made)

    async def repair(self, hook: Hook, secret: str) -> Hook:
        """Subscriptions made anew: what is wrong with an old one cannot all be seen, its password least of all."""
        made = await self.install(hook.url, secret)
        await self.remove(hook)
        return made

    async def remove(self, hook: Hook) -> None:
        """Take all of its subscriptions away."""
        for ref in hook.ref.split(","):
            await self._client.write("DELETE", self._path(f"/{ref}"), repeatable=True, allow=frozenset({404}))

    async def _project(self) -> str:
        name = self._site.path("").split("/")[2]
        params = {"api-version": API_VERSION}
        answer = await self._client.get(self._site.above(f"/projects/{name}"), params=params, missing=Refused)
        project: Project = payloads.read(Project, answer.data, "a project")
        return project.id

    async def _subscriptions(self, project: str) -> list[Subscription]:
        params = {"api-version": API_VERSION, "publisherId": "tfs", "consumerId": "webHooks"}
        path = self._site.above("/hooks/subscriptions")
        answer = await self._client.get(path, params=params, missing=Refused)
        page: Page = payloads.read(Page, answer.data, "a list of subscriptions")
        found: list[Subscription] = [payloads.read(Subscription, record, "a subscription") for record in page.value]
        return [one for one in found if one.publisher.project.lower() == project.lower()]

    async def _subscribe(self, project: str, event: str, url: str, secret: str) -> Subscription:
        body: dict[str, Any] = {
            "publisherId": "tfs",
            "eventType": event,
            "resourceVersion": "1.0",
            "consumerId": "webHooks",
            "consumerActionId": "httpRequest",
            "publisherInputs": {"projectId": project},
            "consumerInputs": {"url": url, "basicAuthUsername": USER, "basicAuthPassword": secret},
        }
        answer = await self._client.write("POST", self._path(), body, missing=Refused)
        subscription: Subscription = payloads.read(Subscription, answer.data, "a subscription")
        return subscription

    def _path(self, rest: str = "") -> str:
        return self._site.above(f"/hooks/subscriptions{rest}") + f"?api-version={API_VERSION}"


def _hook(url: str, subscriptions: list[Subscription]) -> Hook:
    problems = []
    events = {subscription.event for subscription in subscriptions}
    if missing := [event for event in EVENTS if event not in events]:
        problems.append(f"it does not tell of {' and '.join(missing)}")
    problems += [
        f"its subscription to {subscription.event} is {subscription.status}"
        for subscription in subscriptions
        if subscription.status != _ENABLED
    ]
    if any(subscription.narrowed for subscription in subscriptions):
        problems.append("a filter keeps some work items from it")
    if any(not (one.consumer.password or one.consumer.headers) for one in subscriptions):
        problems.append("it has no secret")
    return Hook(",".join(subscription.id for subscription in subscriptions), url, tuple(problems))
