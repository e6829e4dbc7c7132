"""A real project on Jira Cloud."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import httpx

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.tracker import Tracker
from agentsmith.simulators.frame import Simulator
from agentsmith.simulators.tickets import Said
from agentsmith.trackers.http import Shared
from agentsmith.trackers.http.connection import Connection
from agentsmith.trackers.jira import adf
from agentsmith.trackers.jira.comment_format import COMMENT_LIMIT
from agentsmith.trackers.jira.settings import JiraSettings
from tests.conformance import jira as simulated
from tests.conformance.harness import Capabilities
from tests.live.live import FAULTS, Account, LivePlatform
from tests.support.wait import wait_until

PERSON = "ATATT3xPERSONpersonperson"


class LiveJira(LivePlatform):
    """Issues of one project, which our account administers, and in which the person may edit, move and link."""

    capabilities = Capabilities(
        compare_and_set=False,
        comment_limit=COMMENT_LIMIT,
        faults=FAULTS,
        named_people=False,
        verbatim=False,
        deletes=False,
        cheap=False,
    )
    service = "JIRA"
    needed = ("BASE_URL", "PROJECT", "EMAIL", "TOKEN", "PERSON_EMAIL", "PERSON_TOKEN")
    optional: ClassVar = {"TYPE": "Task"}
    questions = ("/search/jql", "/issue/bulkfetch")

    @classmethod
    def login(cls, account: Account) -> httpx.AsyncClient:
        """See LivePlatform."""
        login = (account["PERSON_EMAIL"], account["PERSON_TOKEN"])
        return httpx.AsyncClient(base_url=f"{account['BASE_URL']}/rest/api/3", auth=login)

    @classmethod
    def rehearsal(cls) -> tuple[Simulator, Callable[[str], Account]]:
        """See LivePlatform."""
        simulator = simulated.JiraPlatform.furnished()
        account = {
            "PROJECT": simulated.PROJECT,
            "EMAIL": simulated.JiraPlatform.email,
            "TOKEN": simulated.TOKEN,
            "PERSON_EMAIL": simulator.add_token(PERSON, user="alice"),
            "PERSON_TOKEN": PERSON,
            "TYPE": "Task",
        }
        return simulator, lambda url: {**account, "BASE_URL": url}

    def open(self, labels: LabelSet, shared: Shared, http: httpx.AsyncClient) -> Tracker:
        """See LivePlatform."""
        settings = JiraSettings.model_validate(
            {
                "platform": "jira",
                "project": self.account["PROJECT"],
                "base_url": self.account["BASE_URL"],
                "email": self.account["EMAIL"],
                "token": self.account["TOKEN"],
                "trust_reads": 0,
            }
        )
        return settings.open("web", labels, Connection(shared, self.pace, http, 3))

    async def create(self, title: str, body: str, labels: tuple[str, ...]) -> str:
        """See LivePlatform."""
        fields: dict[str, Any] = {
            "project": {"key": self.account["PROJECT"]},
            "issuetype": {"name": self.account["TYPE"]},
            "summary": title,
            "labels": list(labels),
        }
        if body:
            fields["description"] = adf.to_adf(body)
        key = str((await self.ask("POST", "/issue", {"fields": fields}))["key"])
        await self._indexed(key)
        return key

    async def person_adds(self, key: str, label: str, actor: str = "alice") -> None:  # noqa: ARG002
        """See Platform."""
        await self.ask("PUT", f"/issue/{key}", {"update": {"labels": [{"add": label}]}})
        await self._indexed(key)

    async def person_removes(self, key: str, label: str, actor: str = "alice") -> None:  # noqa: ARG002
        """See Platform."""
        await self.ask("PUT", f"/issue/{key}", {"update": {"labels": [{"remove": label}]}})
        await self._indexed(key)

    async def person_comments(self, key: str, body: str, actor: str = "alice") -> str:  # noqa: ARG002
        """See Platform."""
        return str((await self.ask("POST", f"/issue/{key}/comment", {"body": adf.to_adf(body)}))["id"])

    async def person_withdraws(self, key: str, ref: str) -> None:
        """See Platform."""
        await self.ask("DELETE", f"/issue/{key}/comment/{ref}")

    async def edit(
        self,
        key: str,
        *,
        title: str | None = None,
        body: str | None = None,
        actor: str = "alice",  # noqa: ARG002 - there is one person only
    ) -> None:
        """See Platform."""
        fields: dict[str, Any] = {} if title is None else {"summary": title}
        if body is not None:
            fields["description"] = adf.to_adf(body)
        await self.ask("PUT", f"/issue/{key}", {"fields": fields})

    async def close(self, key: str) -> None:
        """See Platform."""
        await self._into(key, "done")

    async def reopen(self, key: str) -> None:
        """See Platform."""
        await self._into(key, "new")

    async def block(self, key: str, by: str) -> None:
        """See Platform."""
        link = {"type": {"name": "Blocks"}, "inwardIssue": {"key": by}, "outwardIssue": {"key": key}}
        await self.ask("POST", "/issueLink", link)

    async def labels(self, key: str) -> set[str]:
        """See Platform."""
        return set((await self.ask("GET", f"/issue/{key}", fields="labels"))["fields"]["labels"])

    async def comments(self, key: str) -> list[Said]:
        """See Platform."""
        found = await self.ask("GET", f"/issue/{key}/comment", maxResults="100")
        return [Said(c["author"]["accountId"], adf.to_text(c["body"])) for c in found["comments"]]

    async def label_history(self, key: str) -> list[frozenset[str]]:
        """From the changelog, which tells all labels before and after."""
        found = await self.ask("GET", f"/issue/{key}/changelog", maxResults="100")
        changes = [item for value in found["values"] for item in value["items"] if item["field"] == "labels"]
        before = [changes[0]["fromString"]] if changes else []
        return [frozenset((text or "").split()) for text in (*before, *(change["toString"] for change in changes))]

    async def _into(self, key: str, category: str) -> None:
        offered = await self.ask("GET", f"/issue/{key}/transitions")
        ways = [way["id"] for way in offered["transitions"] if way["to"]["statusCategory"]["key"] == category]
        now = (await self.ask("GET", f"/issue/{key}", fields="status"))["fields"]["status"]
        if now["statusCategory"]["key"] != category:
            await self.ask("POST", f"/issue/{key}/transitions", {"transition": {"id": ways[0]}})
            await self._indexed(key)

    async def _indexed(self, key: str) -> None:
        """Wait until search knows what was just done: it lags, and that is not what is tested here."""
        shown = (await self.ask("GET", f"/issue/{key}", fields="labels,status"))["fields"]

        async def known() -> bool:
            found = await self.ask("GET", "/search/jql", jql=f"key = {key}", fields="labels,status")
            return [(set(issue["fields"]["labels"]), issue["fields"]["status"]["id"]) for issue in found["issues"]] == [
                (set(shown["labels"]), shown["status"]["id"])
            ]

        await wait_until(known, what=f"search to hear of {key}", within=120)
