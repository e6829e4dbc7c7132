"""A GitLab simulator on loopback with trackers on it, and the contract's calls in short."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.simulators import serve
from agentsmith.simulators.gitlab import GitLabSimulator
from agentsmith.trackers.gitlab.auth import TokenHeader
from agentsmith.trackers.gitlab.settings import GitLabSettings
from agentsmith.trackers.gitlab.spelling import LabelStyle
from agentsmith.trackers.gitlab.tracker import TRUST_READS, GitLabTracker
from agentsmith.trackers.http import Pace, Shared
from tests.support.edges import LABELS
from tests.support.loopback import FAST, to_loopback
from tests.support.simulated import Simulated

PROJECT: Final = "acme/apps/web"
TOKEN: Final = "glpat-BENCHBENCHBENCHBENCH00"


class SimulatedGitLab(Simulated[GitLabSimulator]):
    """One project `acme/apps/web`, of which mona and the tracker's account are members."""

    def tracker(
        self,
        *,
        project: str = PROJECT,
        token: str = TOKEN,
        header: TokenHeader = TokenHeader.PRIVATE,
        style: LabelStyle = LabelStyle.PLAIN,
        shared: Shared | None = None,
        trust_reads: float = TRUST_READS,
        pace: Pace = FAST,
        page_size: int = 100,
        labels: LabelSet = LABELS,
    ) -> GitLabTracker:
        """A tracker with connections and memories of its own."""
        tracker = GitLabSettings.model_validate(
            {
                "platform": "gitlab",
                "project": project,
                "base_url": self.running.api_url,
                "token": token,
                "token_header": header,
                "label_style": style,
                "trust_reads": trust_reads,
            }
        ).open("web", labels, to_loopback(shared, pace, page_size))
        return self.closing(tracker)

    def issue(self, *labels: str, **more: Any) -> str:
        """A new issue; answers its number."""
        return str(self.simulator.open_issue(PROJECT, labels=labels, **more))

    def labels(self, iid: str) -> set[str]:
        """What stands on the issue."""
        return set(self.simulator.labels(PROJECT, int(iid)))

    def notes(self, iid: str = "1") -> list[str]:
        """The texts of the comments, without their first line."""
        return [note["body"].partition("\n")[2] for note in self.simulator.comments(PROJECT, int(iid))]

    def shortened(self, path: str) -> str:
        """Within the project."""
        return path.removeprefix(f"/projects/{PROJECT}") or "/"


@asynccontextmanager
async def simulated_gitlab(**options: Any) -> AsyncIterator[SimulatedGitLab]:
    """A running simulator; every request must have been one that it knows."""
    simulator = GitLabSimulator(**options)
    simulator.add_project(PROJECT)
    simulator.add_token(TOKEN, username="smith-bot")
    simulator.set_access(PROJECT, "smith-bot", "developer")
    simulator.set_access(PROJECT, "mona", "developer")
    async with serve(simulator) as running, AsyncExitStack() as trackers:
        yield SimulatedGitLab(running, simulator, trackers)
    simulator.assert_understood()
