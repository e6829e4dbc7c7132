"""An Azure DevOps simulator on loopback with trackers on it, and the contract's calls in short."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from agentsmith.boottime import boottime
from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Sticky
from agentsmith.simulators import serve
from agentsmith.simulators.azuredevops import AzureDevOpsSimulator
from agentsmith.trackers.azuredevops.settings import AzureDevOpsSettings
from agentsmith.trackers.azuredevops.tracker import AzureDevOpsTracker
from agentsmith.trackers.http import Pace, Shared
from tests.support.edges import LABELS, MEMO
from tests.support.loopback import FAST, to_loopback
from tests.support.simulated import Simulated

PROJECT: Final = "Web"
BOT: Final = "smith-bot@example.com"
MONA: Final = "mona@example.com"
TOKEN: Final = "benchbenchbenchbenchbenchbenchbenchbenchbenchbench52"


class SimulatedAzureDevOps(Simulated[AzureDevOpsSimulator]):
    """One project `Web` of the organization `acme`, in which mona and the tracker's account may write."""

    def tracker(
        self,
        *,
        token: str = TOKEN,
        shared: Shared | None = None,
        pace: Pace = FAST,
        labels: LabelSet = LABELS,
        project: str = PROJECT,
        page_size: int | None = None,
        **more: Any,
    ) -> AzureDevOpsTracker:
        """A tracker with connections and memories of its own."""
        tracker = AzureDevOpsSettings.model_validate(
            {
                "platform": "azure-devops",
                "organization": self.simulator.organization,
                "project": project,
                "base_url": self.running.api_url,
                "token": token,
                **more,
            }
        ).open("web", labels, to_loopback(shared, pace, page_size))
        return self.closing(tracker)

    def item(self, *tags: str, **more: Any) -> str:
        """A new work item; answers its id."""
        return str(self.simulator.open_item(PROJECT, tags=tags, **more))

    def tags(self, number: str) -> set[str]:
        """What stands on the work item."""
        return set(self.simulator.tags(int(number)))

    def shortened(self, path: str) -> str:
        """Below `_apis`."""
        return path.partition("/_apis")[2]


@asynccontextmanager
async def simulated_azuredevops(**options: Any) -> AsyncIterator[SimulatedAzureDevOps]:
    """A running simulator; every request must have been one that it knows."""
    simulator = AzureDevOpsSimulator(**options)
    simulator.add_project(PROJECT)
    simulator.add_token(TOKEN, user=BOT)
    simulator.add_member(PROJECT, MONA)
    async with serve(simulator) as running, AsyncExitStack() as trackers:
        yield SimulatedAzureDevOps(running, simulator, trackers)
    simulator.assert_understood()


async def warm(tracker: AzureDevOpsTracker) -> None:
    """Let the tracker learn what the states of the project mean, which it asks once."""
    assert [t async for t in tracker.find("no-such-tag")] == []


async def say(tracker: AzureDevOpsTracker, ticket: Ticket, text: str, known: Sticky | None) -> Sticky:
    """Write our comment, in time."""
    return await tracker.write_sticky(ticket, text, MEMO, known=known, deadline=boottime() + 30)
