"""A real project on GitLab."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import ClassVar
from urllib.parse import quote

import httpx

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.tracker import Tracker
from agentsmith.simulators.frame import Simulator
from agentsmith.simulators.tickets import Said
from agentsmith.trackers.gitlab.settings import GitLabSettings
from agentsmith.trackers.gitlab.site import GITLAB
from agentsmith.trackers.gitlab.sticky import COMMENT_LIMIT
from agentsmith.trackers.http import Shared
from agentsmith.trackers.http.connection import Connection
from tests.conformance import gitlab as simulated
from tests.conformance.harness import Capabilities
from tests.live.live import FAULTS, Account, LivePlatform

PERSON = "glpat-PERSONpersonperson"


class LiveGitLab(LivePlatform):
    """Issues of one project, in which both accounts are developers. Links that block are for paid tiers only."""

    capabilities = Capabilities(
        compare_and_set=False,
        comment_limit=COMMENT_LIMIT,
        faults=FAULTS,
        named_people=False,
        deletes=False,
        links=False,
        cheap=False,
    )
    service = "GITLAB"
    needed = ("PROJECT", "TOKEN", "PERSON_TOKEN")
    optional: ClassVar = {"BASE_URL": GITLAB}

    @classmethod
    def login(cls, account: Account) -> httpx.AsyncClient:
        """See LivePlatform."""
        project = quote(account["PROJECT"], safe="")
        headers = {"PRIVATE-TOKEN": account["PERSON_TOKEN"]}
        return httpx.AsyncClient(base_url=f"{account['BASE_URL']}/projects/{project}", headers=headers)

    @classmethod
    def rehearsal(cls) -> tuple[Simulator, Callable[[str], Account]]:
        """See LivePlatform."""
        simulator = simulated.GitLabPlatform.furnished()
        simulator.add_token(PERSON, username="alice")
        account = {"PROJECT": simulated.PROJECT, "TOKEN": simulated.TOKEN, "PERSON_TOKEN": PERSON}
        return simulator, lambda url: {**account, "BASE_URL": url}

    def open(self, labels: LabelSet, shared: Shared, http: httpx.AsyncClient) -> Tracker:
        """See LivePlatform."""
        settings = GitLabSettings.model_validate(
            {
                "platform": "gitlab",
                "project": self.account["PROJECT"],
                "base_url": self.account["BASE_URL"],
                "token": self.account["TOKEN"],
                "trust_reads": 0,
            }
        )
        return settings.open("web", labels, Connection(shared, self.pace, http, 3))

    async def create(self, title: str, body: str, labels: tuple[str, ...]) -> str:
        """See LivePlatform."""
        made = await self.ask("POST", "/issues", {"title": title, "description": body, "labels": ",".join(labels)})
        return str(made["iid"])

    async def person_adds(self, key: str, label: str, actor: str = "alice") -> None:  # noqa: ARG002
        """See Platform."""
        await self.ask("PUT", f"/issues/{key}", {"add_labels": label})

    async def person_removes(self, key: str, label: str, actor: str = "alice") -> None:  # noqa: ARG002
        """See Platform."""
        await self.ask("PUT", f"/issues/{key}", {"remove_labels": label})

    async def person_comments(self, key: str, body: str, actor: str = "alice") -> str:  # noqa: ARG002
        """See Platform."""
        return str((await self.ask("POST", f"/issues/{key}/notes", {"body": body}))["id"])

    async def person_withdraws(self, key: str, ref: str) -> None:
        """See Platform."""
        await self.ask("DELETE", f"/issues/{key}/notes/{ref}")

    async def edit(
        self,
        key: str,
        *,
        title: str | None = None,
        body: str | None = None,
        actor: str = "alice",  # noqa: ARG002 - there is one person only
    ) -> None:
        """See Platform."""
        wanted = {"title": title, "description": body}
        await self.ask("PUT", f"/issues/{key}", {name: text for name, text in wanted.items() if text is not None})

    async def close(self, key: str) -> None:
        """See Platform."""
        await self.ask("PUT", f"/issues/{key}", {"state_event": "close"})

    async def reopen(self, key: str) -> None:
        """See Platform."""
        await self.ask("PUT", f"/issues/{key}", {"state_event": "reopen"})

    async def block(self, key: str, by: str) -> None:
        """See Platform."""
        raise NotImplementedError

    async def labels(self, key: str) -> set[str]:
        """See Platform."""
        return set((await self.ask("GET", f"/issues/{key}"))["labels"])

    async def comments(self, key: str) -> list[Said]:
        """See Platform."""
        found = await self.ask("GET", f"/issues/{key}/notes", sort="asc", order_by="created_at", per_page="100")
        return [Said(note["author"]["username"], note["body"]) for note in found if not note["system"]]

    async def label_history(self, key: str) -> list[frozenset[str]]:
        """Played back from the events; those of one moment and one person were one request."""
        events = await self.ask("GET", f"/issues/{key}/resource_label_events", per_page="100")
        history: list[frozenset[str]] = []
        for _, together in groupby(events, key=lambda event: (event["created_at"], event["user"]["id"])):
            now = set(history[-1]) if history else set()
            for event in together:
                (now.add if event["action"] == "add" else now.discard)(event["label"]["name"])
            history.append(frozenset(now))
        return history
