"""A GitHub simulator on loopback with trackers on it, and the contract's calls in short."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.simulators import Recorded, serve
from agentsmith.simulators.github import GitHubSimulator
from agentsmith.trackers.github.login import AppLogin, log_in
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.github.tracker import GitHubTracker
from agentsmith.trackers.http import Pace, Shared
from tests.support.edges import LABELS
from tests.support.loopback import FAST, to_loopback
from tests.support.simulated import Simulated

REPOSITORY: Final = "acme/web"
TOKEN: Final = "github_pat_11BENCH0000_benchbenchbenchbench"


class SimulatedGitHub(Simulated[GitHubSimulator]):
    """One repository `acme/web`, in which mona and the tracker's account may write."""

    def tracker(
        self,
        *,
        login: str | AppLogin = TOKEN,
        shared: Shared | None = None,
        strict: bool = False,
        pace: Pace = FAST,
        page_size: int = 100,
        labels: LabelSet = LABELS,
        write_spacing: float | None = None,
    ) -> GitHubTracker:
        """A tracker with connections and memories of its own."""
        site, connection = Site(REPOSITORY, self.running.api_url), to_loopback(shared, pace, page_size)
        clients = log_in(site, login, connection, write_spacing=write_spacing)
        tracker = GitHubTracker("web", labels, site, clients, connection, strict=strict)
        return self.closing(tracker)

    def issue(self, *labels: str, **more: Any) -> str:
        """A new issue; answers its number."""
        return str(self.simulator.open_issue(REPOSITORY, labels=labels, **more))

    def labels(self, number: str) -> set[str]:
        """What stands on the issue."""
        return set(self.simulator.labels(REPOSITORY, int(number)))


@asynccontextmanager
async def simulated_github(**options: Any) -> AsyncIterator[SimulatedGitHub]:
    """A running simulator; every request must have been one that it knows."""
    simulator = GitHubSimulator(**{"rate_limit": 1_000_000, **options})
    simulator.add_repository(REPOSITORY)
    simulator.add_token(TOKEN, login="smith-bot", permission="write")
    simulator.set_permission(REPOSITORY, "mona", "write")
    async with serve(simulator) as running, AsyncExitStack() as trackers:
        yield SimulatedGitHub(running, simulator, trackers)
    simulator.assert_understood()


def mutations(requests: Iterable[Recorded]) -> list[dict[str, Any]]:
    """The variables of all GraphQL requests."""
    return [json.loads(r.raw_body)["variables"] for r in requests if r.path.endswith("/graphql")]
