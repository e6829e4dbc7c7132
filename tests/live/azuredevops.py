"""A real project on Azure DevOps."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, ClassVar
from urllib.parse import quote

import httpx

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.tracker import Tracker
from agentsmith.simulators.frame import Simulator
from agentsmith.simulators.tickets import Said
from agentsmith.trackers.azuredevops.comment_format import COMMENT_LIMIT
from agentsmith.trackers.azuredevops.settings import AzureDevOpsSettings
from agentsmith.trackers.azuredevops.site import AZURE
from agentsmith.trackers.azuredevops.sticky import COMMENTS_VERSION
from agentsmith.trackers.http import Shared
from agentsmith.trackers.http.connection import Connection
from tests.conformance import azuredevops as simulated
from tests.conformance.harness import Capabilities
from tests.live.live import FAULTS, Account, LivePlatform

PERSON = "pat7personpersonpersonpersonpersonpersonperson7z"
TAGS = "System.Tags"


class LiveAzureDevOps(LivePlatform):
    """Work items of one project, in which both accounts are contributors."""

    capabilities = Capabilities(
        compare_and_set=True,
        comment_limit=COMMENT_LIMIT,
        faults=FAULTS,
        named_people=False,
        verbatim=False,
        deletes=False,
        cheap=False,
    )
    service = "AZURE_DEVOPS"
    needed = ("ORGANIZATION", "PROJECT", "TOKEN", "PERSON_TOKEN")
    optional: ClassVar = {"BASE_URL": AZURE, "TYPE": "Task"}
    questions = ("/wiql", "/workitemsbatch")

    @classmethod
    def login(cls, account: Account) -> httpx.AsyncClient:
        """See LivePlatform."""
        packed = base64.b64encode(f":{account['PERSON_TOKEN']}".encode()).decode()
        root = f"{account['BASE_URL']}/{quote(account['ORGANIZATION'])}/{quote(account['PROJECT'])}/_apis/wit"
        return httpx.AsyncClient(
            base_url=root, headers={"Authorization": f"Basic {packed}", "Accept": "application/json"}
        )

    @classmethod
    def rehearsal(cls) -> tuple[Simulator, Callable[[str], Account]]:
        """See LivePlatform."""
        simulator = simulated.AzureDevOpsPlatform.furnished()
        simulator.add_token(PERSON, user="alice")
        account = {
            "ORGANIZATION": simulator.organization,
            "PROJECT": simulated.PROJECT,
            "TOKEN": simulated.TOKEN,
            "PERSON_TOKEN": PERSON,
            "TYPE": "Task",
        }
        return simulator, lambda url: {**account, "BASE_URL": url}

    def open(self, labels: LabelSet, shared: Shared, http: httpx.AsyncClient) -> Tracker:
        """See LivePlatform."""
        settings = AzureDevOpsSettings.model_validate(
            {
                "platform": "azure-devops",
                "organization": self.account["ORGANIZATION"],
                "project": self.account["PROJECT"],
                "base_url": self.account["BASE_URL"],
                "token": self.account["TOKEN"],
            }
        )
        return settings.open("web", labels, Connection(shared, self.pace, http, 3))

    async def create(self, title: str, body: str, labels: tuple[str, ...]) -> str:
        """See LivePlatform."""
        fields = {"System.Title": title, "System.Description": body, TAGS: "; ".join(labels)}
        patch = [{"op": "add", "path": f"/fields/{name}", "value": text} for name, text in fields.items() if text]
        return str((await self._patch("POST", f"/workitems/${quote(self.account['TYPE'])}", patch))["id"])

    async def person_adds(self, key: str, label: str, actor: str = "alice") -> None:  # noqa: ARG002
        """See Platform."""
        await self._patch("PATCH", f"/workitems/{key}", [{"op": "add", "path": f"/fields/{TAGS}", "value": label}])

    async def person_removes(self, key: str, label: str, actor: str = "alice") -> None:  # noqa: ARG002
        """See Platform."""
        item = await self._item(key)
        left = [tag for tag in _split(item["fields"].get(TAGS)) if tag.casefold() != label.casefold()]
        change = {"op": "replace", "path": f"/fields/{TAGS}", "value": "; ".join(left)}
        test = {"op": "test", "path": "/rev", "value": item["rev"]}
        await self._patch(
            "PATCH", f"/workitems/{key}", [test, change if left else {"op": "remove", "path": f"/fields/{TAGS}"}]
        )

    async def person_comments(self, key: str, body: str, actor: str = "alice") -> str:  # noqa: ARG002
        """See Platform."""
        path = f"/workItems/{key}/comments"
        made = await self.ask("POST", path, {"text": body}, **{"api-version": COMMENTS_VERSION, "format": "markdown"})
        return str(made["id"])

    async def person_withdraws(self, key: str, ref: str) -> None:
        """See Platform."""
        await self.ask("DELETE", f"/workItems/{key}/comments/{ref}", **{"api-version": COMMENTS_VERSION})

    async def edit(
        self,
        key: str,
        *,
        title: str | None = None,
        body: str | None = None,
        actor: str = "alice",  # noqa: ARG002 - there is one person only
    ) -> None:
        """See Platform."""
        wanted = {"System.Title": title, "System.Description": body}
        patch = [{"op": "add", "path": f"/fields/{n}", "value": text} for n, text in wanted.items() if text is not None]
        await self._patch("PATCH", f"/workitems/{key}", patch)

    async def close(self, key: str) -> None:
        """See Platform."""
        await self._into(key, "Completed")

    async def reopen(self, key: str) -> None:
        """See Platform."""
        await self._into(key, "Proposed")

    async def block(self, key: str, by: str) -> None:
        """See Platform."""
        url = f"{self.account['BASE_URL']}/{self.account['ORGANIZATION']}/_apis/wit/workItems/{by}"
        link = {"rel": "System.LinkTypes.Dependency-Reverse", "url": url}
        await self._patch("PATCH", f"/workitems/{key}", [{"op": "add", "path": "/relations/-", "value": link}])

    async def labels(self, key: str) -> set[str]:
        """See Platform."""
        return set(_split((await self._item(key))["fields"].get(TAGS)))

    async def comments(self, key: str) -> list[Said]:
        """See Platform."""
        params = {"api-version": COMMENTS_VERSION, "$top": "200", "order": "asc"}
        found = await self.ask("GET", f"/workItems/{key}/comments", **params)
        return [Said(comment["createdBy"]["uniqueName"], comment["text"]) for comment in found["comments"]]

    async def label_history(self, key: str) -> list[frozenset[str]]:
        """The tags after each update."""
        found = await self.ask("GET", f"/workItems/{key}/updates", **{"api-version": "7.1"})
        changes = [update["fields"][TAGS] for update in found["value"] if TAGS in update.get("fields", {})]
        return [frozenset(_split(change.get("newValue"))) for change in changes]

    async def _item(self, key: str) -> Any:
        return await self.ask("GET", f"/workitems/{key}", **{"api-version": "7.1"})

    async def _patch(self, method: str, path: str, patch: list[dict[str, Any]]) -> Any:
        headers = {"Content-Type": "application/json-patch+json"}
        answer = await self.person.request(method, path, json=patch, params={"api-version": "7.1"}, headers=headers)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:300]}"
        return answer.json()

    async def _into(self, key: str, category: str) -> None:
        states = await self.ask("GET", "/workitemtypes", **{"api-version": "7.1"})
        ours = next(t for t in states["value"] if t["name"].casefold() == self.account["TYPE"].casefold())
        state = next(s["name"] for s in ours["states"] if s["category"] == category)
        await self._patch("PATCH", f"/workitems/{key}", [{"op": "add", "path": "/fields/System.State", "value": state}])


def _split(tags: str | None) -> list[str]:
    return [tag.strip() for tag in (tags or "").split(";") if tag.strip()]
