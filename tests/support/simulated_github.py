"""A GitHub simulator on loopback with trackers on it, and the contract's calls in short."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.simulators import Fault, Recorded, Running, serve
from agentsmith.simulators.github import GitHubSimulator
from agentsmith.trackers.github.login import AppLogin, log_in
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.github.tracker import GitHubTracker
from agentsmith.trackers.http import Pace, Shared
from tests.support.edges import LABELS
from tests.support.loopback import FAST, to_loopback

REPOSITORY: Final = "acme/web"
TOKEN: Final = "github_pat_11BENCH0000_benchbenchbenchbench"


class SimulatedGitHub:
    """One repository `acme/web`, in which mona and the tracker's account may write."""

    def __init__(self, running: Running, simulator: GitHubSimulator, stack: AsyncExitStack) -> None:
        self.running = running
        self.simulator = simulator
        self._stack = stack

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
        self._stack.push_async_callback(tracker.aclose)
        return tracker

    def issue(self, *labels: str, **more: Any) -> str:
        """A new issue; answers its number."""
        return str(self.simulator.open_issue(REPOSITORY, labels=labels, **more))

    def labels(self, number: str) -> set[str]:
        """What stands on the issue."""
        return set(self.simulator.labels(REPOSITORY, int(number)))

    def fail(self, kind: str, **more: Any) -> Fault:
        """Arm a fault."""
        return self.simulator.inject(Fault(kind, **more))

    def sent(self) -> list[str]:
        """The requests since the last look, as `METHOD /path status`, and forget them."""
        lines = [f"{r.method} {r.path} {r.status}" for r in self.simulator.requests]
        self.simulator.forget_requests()
        return lines

    def recorded(self) -> list[Recorded]:
        """The requests since the last look, whole."""
        found = list(self.simulator.requests)
        self.simulator.forget_requests()
        return found


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
