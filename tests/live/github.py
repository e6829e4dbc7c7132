"""A real repository on GitHub."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar
from urllib.parse import quote

import httpx

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.tracker import Tracker
from agentsmith.simulators.frame import Simulator
from agentsmith.simulators.tickets import Said
from agentsmith.trackers.github.settings import GitHubSettings
from agentsmith.trackers.github.site import GITHUB
from agentsmith.trackers.github.sticky import COMMENT_LIMIT
from agentsmith.trackers.http import Shared
from agentsmith.trackers.http.connection import Connection
from tests.conformance import github as simulated
from tests.conformance.harness import Capabilities
from tests.live.live import FAULTS, Account, LivePlatform

PERSON = "github_pat_11PERSON_personpersonperson"


class LiveGitHub(LivePlatform):
    """Issues of one repository, in which both accounts may write."""

    capabilities = Capabilities(
        compare_and_set=False,
        comment_limit=COMMENT_LIMIT,
        faults=FAULTS,
        named_people=False,
        deletes=False,
        cheap=False,
    )
    service = "GITHUB"
    needed = ("REPOSITORY", "TOKEN", "PERSON_TOKEN")
    optional: ClassVar = {"BASE_URL": GITHUB}

    @classmethod
    def login(cls, account: Account) -> httpx.AsyncClient:
        """See LivePlatform."""
        headers = {"Authorization": f"Bearer {account['PERSON_TOKEN']}", "X-GitHub-Api-Version": "2022-11-28"}
        return httpx.AsyncClient(base_url=f"{account['BASE_URL']}/repos/{account['REPOSITORY']}", headers=headers)

    @classmethod
    def rehearsal(cls) -> tuple[Simulator, Callable[[str], Account]]:
        """See LivePlatform."""
        simulator = simulated.GitHubPlatform.furnished()
        simulator.add_token(PERSON, login="alice", permission="write")
        account = {"REPOSITORY": simulated.REPOSITORY, "TOKEN": simulated.TOKEN, "PERSON_TOKEN": PERSON}
        return simulator, lambda url: {**account, "BASE_URL": url}

    def open(self, labels: LabelSet, shared: Shared, http: httpx.AsyncClient) -> Tracker:
        """See LivePlatform."""
        settings = GitHubSettings.model_validate(
            {
                "platform": "github",
                "repository": self.account["REPOSITORY"],
                "base_url": self.account["BASE_URL"],
                "token": self.account["TOKEN"],
            }
        )
        return settings.open("web", labels, Connection(shared, self.pace, http, 3))

    async def create(self, title: str, body: str, labels: tuple[str, ...]) -> str:
        """See LivePlatform."""
        made = await self.ask("POST", "/issues", {"title": title, "body": body, "labels": list(labels)})
        return str(made["number"])

    async def person_adds(self, key: str, label: str, actor: str = "alice") -> None:  # noqa: ARG002
        """See Platform."""
        await self.ask("POST", f"/issues/{key}/labels", {"labels": [label]})

    async def person_removes(self, key: str, label: str, actor: str = "alice") -> None:  # noqa: ARG002
        """See Platform."""
        await self.ask("DELETE", f"/issues/{key}/labels/{quote(label, safe='')}")

    async def person_comments(self, key: str, body: str, actor: str = "alice") -> str:  # noqa: ARG002
        """See Platform."""
        return str((await self.ask("POST", f"/issues/{key}/comments", {"body": body}))["id"])

    async def person_withdraws(self, key: str, ref: str) -> None:  # noqa: ARG002
        """See Platform."""
        await self.ask("DELETE", f"/issues/comments/{ref}")

    async def edit(
        self,
        key: str,
        *,
        title: str | None = None,
        body: str | None = None,
        actor: str = "alice",  # noqa: ARG002 - there is one person only
    ) -> None:
        """See Platform."""
        wanted = {"title": title, "body": body}
        await self.ask("PATCH", f"/issues/{key}", {name: text for name, text in wanted.items() if text is not None})

    async def close(self, key: str) -> None:
        """See Platform."""
        await self.ask("PATCH", f"/issues/{key}", {"state": "closed"})

    async def reopen(self, key: str) -> None:
        """See Platform."""
        await self.ask("PATCH", f"/issues/{key}", {"state": "open"})

    async def block(self, key: str, by: str) -> None:
        """See Platform."""
        blocker = await self.ask("GET", f"/issues/{by}")
        await self.ask("POST", f"/issues/{key}/dependencies/blocked_by", {"issue_id": blocker["id"]})

    async def labels(self, key: str) -> set[str]:
        """See Platform."""
        return {label["name"] for label in (await self.ask("GET", f"/issues/{key}"))["labels"]}

    async def comments(self, key: str) -> list[Said]:
        """See Platform."""
        found = await self.ask("GET", f"/issues/{key}/comments", per_page="100")
        return [Said(comment["user"]["login"], comment["body"]) for comment in found]

    async def label_history(self, key: str) -> list[frozenset[str]]:
        """Played back from the events."""
        history: list[frozenset[str]] = [frozenset()]
        for event in await self.ask("GET", f"/issues/{key}/events", per_page="100"):
            if event["event"] == "labeled":
                history.append(history[-1] | {event["label"]["name"]})
            elif event["event"] == "unlabeled":
                history.append(history[-1] - {event["label"]["name"]})
        return _since_the_first(history)


def _since_the_first(history: list[frozenset[str]]) -> list[frozenset[str]]:
    """Without the moments in which the labels of a new issue were not yet all there."""
    statuses = [n for n, labels in enumerate(history) if any(":" in label for label in labels)]
    return history[statuses[0] :] if statuses else history
