"""A Jira simulator on loopback with trackers on it, and the contract's calls in short."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.simulators import Running, serve
from agentsmith.simulators.jira import JiraSimulator
from agentsmith.trackers.http import Pace, Shared
from agentsmith.trackers.jira.settings import JiraSettings
from agentsmith.trackers.jira.tracker import TRUST_READS, JiraTracker
from tests.support.edges import LABELS
from tests.support.loopback import FAST, to_loopback
from tests.support.simulated import Simulated

PROJECT: Final = "WEB"
TOKEN: Final = "ATATT3xBENCHBENCHBENCHBENCH00"


def jira_settings(*, email: str | None, statuses: Mapping[Status, str] | None, **fields: Any) -> JiraSettings:
    """What the configuration would say: a Data Center where there is no email."""
    return JiraSettings.model_validate(
        {
            "platform": "jira",
            "deployment": "cloud" if email else "data-center",
            "email": email,
            "mode": "status" if statuses else "label",
            "statuses": dict(statuses or {}),
            **fields,
        }
    )


class SimulatedJira(Simulated[JiraSimulator]):
    """One project `WEB`, which the tracker's account administers and in which mona may edit."""

    def __init__(self, running: Running, simulator: JiraSimulator, email: str, stack: AsyncExitStack) -> None:
        super().__init__(running, simulator, stack)
        self.email = email

    @property
    def api(self) -> str:
        """The API root of this Jira."""
        return f"/rest/api/{3 if self.simulator.cloud else 2}"

    def tracker(
        self,
        *,
        token: str = TOKEN,
        shared: Shared | None = None,
        statuses: Mapping[Status, str] | None = None,
        quiet: bool = True,
        trust_reads: float = TRUST_READS,
        pace: Pace = FAST,
        page_size: int = 100,
        labels: LabelSet = LABELS,
    ) -> JiraTracker:
        """A tracker with connections and memories of its own."""
        cloud = self.simulator.cloud
        tracker = jira_settings(
            project=PROJECT,
            base_url=self.running.api_url,
            email=self.email if cloud else None,
            token=token,
            statuses=statuses,
            quiet=quiet,
            trust_reads=trust_reads,
        ).open("web", labels, to_loopback(shared, pace, page_size))
        return self.closing(tracker)

    def issue(self, *labels: str, **more: Any) -> str:
        """A new issue; answers its key."""
        return self.simulator.open_issue(PROJECT, labels=labels, **more)

    def labels(self, key: str) -> set[str]:
        """What stands on the issue."""
        return set(self.simulator.labels(key))

    def shortened(self, path: str) -> str:
        """Under the API root."""
        return path.removeprefix(self.api)


@asynccontextmanager
async def simulated_jira(**options: Any) -> AsyncIterator[SimulatedJira]:
    """A running simulator; every request must have been one that it knows."""
    simulator = JiraSimulator(**options)
    simulator.add_project(PROJECT)
    email = simulator.add_token(TOKEN, user="smith-bot")
    simulator.set_role(PROJECT, "smith-bot", "admin")
    simulator.set_role(PROJECT, "mona", "write")
    async with serve(simulator) as running, AsyncExitStack() as trackers:
        yield SimulatedJira(running, simulator, email, trackers)
    simulator.assert_understood()
