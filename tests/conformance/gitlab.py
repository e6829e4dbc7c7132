"""GitLab under the conformance suite: the real client over HTTP on loopback, against the simulator.

People act on the simulator's state directly; the tracker's own pool is watched only to know when its next write leaves.
Reads are not trusted here (`trust_reads=0`), so that what people do between a read and a move is noticed before the
write; what the default, which saves that look, does then is tested in tests/roles.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.tracker import Tracker
from agentsmith.simulators import Fault as SimulatorFault
from agentsmith.simulators import Recorded, Running, serve
from agentsmith.simulators.gitlab import GitLabSimulator
from agentsmith.trackers.gitlab.opening import open_tracker
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.gitlab.sticky import COMMENT_LIMIT
from agentsmith.trackers.gitlab.tracker import GitLabTracker
from agentsmith.trackers.http import LocalGovernor, Pace, Shared
from tests.conformance.github import Jumping, Watched
from tests.conformance.harness import Capabilities, Fault, Platform, RawComment

PROJECT: Final = "acme/apps/web"
TOKEN: Final = "glpat-CONFORMANCEsecretsecret"
WRITES: Final = "POST|PUT|DELETE"


class GitLabPlatform(Platform):
    """A simulator with one project in nested groups per test."""

    capabilities = Capabilities(compare_and_set=False, comment_limit=COMMENT_LIMIT, faults=frozenset(Fault))
    secrets = (TOKEN, "secretsecret")

    def __init__(self, running: Running, simulator: GitLabSimulator, labels: LabelSet) -> None:
        self.simulator = simulator
        self._running, self._labels = running, labels
        self._clock = Jumping()
        self._shared = Shared(governor=LocalGovernor(self._clock))
        self._trackers: list[GitLabTracker] = []
        self._watched = Watched(verify=False)
        self.tracker = self._another(self._watched)

    @classmethod
    @asynccontextmanager
    async def start(cls, folder: Path, labels: LabelSet) -> AsyncIterator[Platform]:  # noqa: ARG003
        """An empty project, in which everybody is a developer."""
        simulator = GitLabSimulator()
        simulator.add_project(PROJECT)
        simulator.add_token(TOKEN, username="agentsmith")
        for username in ("agentsmith", "alice", "bob", "carol", "mallory"):
            simulator.set_access(PROJECT, username, "developer")
        async with serve(simulator) as running:
            platform = cls(running, simulator, labels)
            try:
                yield platform
            finally:
                for tracker in platform._trackers:
                    await tracker.aclose()
        simulator.assert_understood()

    def _another(self, transport: httpx.AsyncBaseTransport) -> GitLabTracker:
        tracker = open_tracker(
            name="web",
            site=Site(PROJECT, self._running.api_url),
            labels=self._labels,
            token=TOKEN,
            shared=self._shared,
            trust_reads=0.0,
            pace=Pace(first_delay=0.001, longest_delay=0.002),
            http=httpx.AsyncClient(transport=transport),
            page_size=3,
        )
        self._trackers.append(tracker)
        return tracker

    async def open_ticket(
        self, title: str = "a ticket", body: str = "", labels: tuple[str, ...] = (), author: str = "alice"
    ) -> str:
        """In the simulator's state."""
        return str(self.simulator.open_issue(PROJECT, title=title, body=body, labels=labels, actor=author))

    async def person_adds(self, key: str, label: str, actor: str = "alice") -> None:
        """In the simulator's state."""
        self.simulator.add_label(PROJECT, int(key), label, actor)

    async def person_removes(self, key: str, label: str, actor: str = "alice") -> None:
        """In the simulator's state."""
        self.simulator.remove_label(PROJECT, int(key), label, actor)

    async def person_comments(self, key: str, body: str, actor: str = "alice") -> None:
        """In the simulator's state."""
        self.simulator.comment(PROJECT, int(key), body, actor)

    async def edit(self, key: str, *, title: str | None = None, body: str | None = None) -> None:
        """In the simulator's state."""
        self.simulator.edit_issue(PROJECT, int(key), title=title, body=body, actor="alice")

    async def close(self, key: str) -> None:
        """In the simulator's state."""
        self.simulator.close_issue(PROJECT, int(key), "alice")

    async def reopen(self, key: str) -> None:
        """In the simulator's state."""
        self.simulator.reopen_issue(PROJECT, int(key), "alice")

    async def delete(self, key: str) -> None:
        """In the simulator's state: 404 from now on."""
        self.simulator.delete_issue(PROJECT, int(key))

    async def labels(self, key: str) -> set[str]:
        """From the simulator's state."""
        return set(self.simulator.labels(PROJECT, int(key)))

    async def comments(self, key: str) -> list[RawComment]:
        """From the simulator's state."""
        return [RawComment(c["user"], c["body"]) for c in self.simulator.comments(PROJECT, int(key))]

    async def label_history(self, key: str) -> list[frozenset[str]]:
        """Every version of the issue that the simulator kept."""
        project = self.simulator.project(PROJECT)
        versions = project.versions[int(key)]
        return [frozenset(label.name for label in project.labels_of(issue)) for issue in versions]

    async def writes(self) -> int:
        """From the request log: what was carried out, whether or not its answer arrived."""
        return sum(1 for request in self.simulator.requests if _wrote(request))

    def between_read_and_write(self, callback: Callable[[], Awaitable[None]]) -> None:
        """At the gate of the tracker's pool."""
        self._watched.before_write = callback

    async def second_tracker(self) -> Tracker:
        """With connections and memories of its own; the governor is shared, as between replicas."""
        return self._another(httpx.AsyncHTTPTransport(verify=False))

    async def inject(self, fault: Fault, key: str | None = None) -> None:
        """By the simulator's own faults; a malformed record is one whose title is no text."""
        if fault is Fault.MALFORMED:
            project = self.simulator.project(PROJECT)
            broken: Any = replace(self.simulator.issue(PROJECT, int(key or 0)), title=None)  # type: ignore[arg-type]
            project.save(broken)
            return
        denial = {"message": "403 Forbidden"}
        faults = {
            Fault.UNAVAILABLE: SimulatorFault("status", status=503, times=None),
            Fault.UNREACHABLE: SimulatorFault("refuse", times=None),
            Fault.RATE_LIMITED: SimulatorFault("rate_limited", retry_after=120, times=None),
            Fault.UNAUTHORIZED: SimulatorFault("bad_credentials", times=None),
            Fault.FORBIDDEN: SimulatorFault("status", status=403, body=denial, method=WRITES, times=None),
            Fault.LOST_ANSWER: SimulatorFault("applied_then_lost", method=WRITES),
        }
        self.simulator.inject(faults[fault])

    async def heal(self) -> None:
        """Disarm everything, and let the time pass that a limit asked for."""
        self.simulator.clear_faults()
        self._clock.ahead += 1000


def _wrote(request: Recorded) -> bool:
    if request.method == "GET":
        return False
    return request.status in range(200, 300) or "applied_then_lost" in request.faults
