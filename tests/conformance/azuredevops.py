"""Azure DevOps under the conformance suite: the real client over HTTP on loopback, against the simulator.

People act on the simulator's state directly; the tracker's own pool is watched only to know when its next write leaves.
Queries and batches are sent as POST, but they are questions and count as reads.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import httpx

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.tracker import Tracker
from agentsmith.simulators import Fault as SimulatorFault
from agentsmith.simulators import Recorded, Running, serve
from agentsmith.simulators.azuredevops import AzureDevOpsSimulator
from agentsmith.trackers.azuredevops.form import COMMENT_LIMIT
from agentsmith.trackers.azuredevops.opening import open_tracker
from agentsmith.trackers.azuredevops.site import Site
from agentsmith.trackers.azuredevops.tracker import AzureDevOpsTracker
from agentsmith.trackers.http import LocalGovernor, Pace, Shared
from tests.conformance.harness import Capabilities, Fault, Platform, RawComment

PROJECT: Final = "Web"
TOKEN: Final = "pat7conformanceconformanceconformanceconformance7z"
WRITES: Final = "PATCH|POST|PUT|DELETE"
WRITTEN: Final = r"/workitems/\d+$|/comments"
QUESTIONS: Final = ("/wiql", "/workitemsbatch")


class Watched(httpx.AsyncHTTPTransport):
    """Lets something happen right before the next write leaves: after every read that it is based on."""

    before_write: Callable[[], Awaitable[None]] | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """As in the base class, after the callback."""
        asks = request.method == "GET" or request.url.path.endswith(QUESTIONS)
        if not asks and self.before_write is not None:
            callback, self.before_write = self.before_write, None
            await callback()
        return await super().handle_async_request(request)


class Jumping:
    """A wall clock that can be moved past whatever a limit made everybody wait for."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        """Seconds since the epoch, or later."""
        return time.time() + self.ahead


class AzureDevOpsPlatform(Platform):
    """A simulator with one project per test."""

    capabilities = Capabilities(compare_and_set=True, comment_limit=COMMENT_LIMIT, faults=frozenset(Fault))
    secrets = (TOKEN, "conformanceconformance")

    def __init__(self, running: Running, simulator: AzureDevOpsSimulator, labels: LabelSet) -> None:
        self.simulator = simulator
        self._running, self._labels = running, labels
        self._clock = Jumping()
        self._shared = Shared(governor=LocalGovernor(self._clock))
        self._trackers: list[AzureDevOpsTracker] = []
        self._watched = Watched(verify=False)
        self.tracker = self._another(self._watched)

    @classmethod
    @asynccontextmanager
    async def start(cls, folder: Path, labels: LabelSet) -> AsyncIterator[Platform]:  # noqa: ARG003
        """An empty project, in which everybody may write."""
        simulator = AzureDevOpsSimulator()
        simulator.add_project(PROJECT)
        simulator.add_token(TOKEN, user="agentsmith")
        for name in ("alice", "bob", "carol", "mallory"):
            simulator.add_member(PROJECT, name)
        async with serve(simulator) as running:
            platform = cls(running, simulator, labels)
            try:
                yield platform
            finally:
                for tracker in platform._trackers:
                    await tracker.aclose()
        simulator.assert_understood()

    def _another(self, transport: httpx.AsyncBaseTransport) -> AzureDevOpsTracker:
        tracker = open_tracker(
            name="web",
            site=Site(self.simulator.organization, PROJECT, self._running.api_url),
            labels=self._labels,
            token=TOKEN,
            shared=self._shared,
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
        return str(self.simulator.open_item(PROJECT, title=title, body=body, tags=labels, actor=author))

    async def person_adds(self, key: str, label: str, actor: str = "alice") -> None:
        """In the simulator's state."""
        self.simulator.add_tag(int(key), label, actor)

    async def person_removes(self, key: str, label: str, actor: str = "alice") -> None:
        """In the simulator's state."""
        self.simulator.remove_tag(int(key), label, actor)

    async def person_comments(self, key: str, body: str, actor: str = "alice") -> None:
        """In the simulator's state."""
        self.simulator.comment(int(key), body, actor)

    async def edit(self, key: str, *, title: str | None = None, body: str | None = None) -> None:
        """In the simulator's state."""
        self.simulator.edit_item(int(key), title=title, body=body, actor="alice")

    async def close(self, key: str) -> None:
        """In the simulator's state."""
        self.simulator.close_item(int(key), "alice")

    async def reopen(self, key: str) -> None:
        """In the simulator's state."""
        self.simulator.reopen_item(int(key), "alice")

    async def delete(self, key: str) -> None:
        """In the simulator's state: into the recycle bin."""
        self.simulator.delete_item(int(key), "alice")

    async def labels(self, key: str) -> set[str]:
        """From the simulator's state."""
        return set(self.simulator.tags(int(key)))

    async def comments(self, key: str) -> list[RawComment]:
        """From the simulator's state."""
        return [RawComment(c["user"], c["text"]) for c in self.simulator.comments(int(key))]

    async def label_history(self, key: str) -> list[frozenset[str]]:
        """Every revision of the work item."""
        revisions = self.simulator.item(int(key)).revisions
        tags = [str(revision.fields.get("System.Tags", "")) for revision in revisions]
        return [frozenset(filter(None, (tag.strip() for tag in text.split(";")))) for text in tags]

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
            item = self.simulator.item(int(key or 0))
            item.revisions[-1] = replace(item.now, fields={**item.now.fields, "System.Title": 5})
            return
        denial = {"message": "TF401027: You need the Edit work items permission.", "typeKey": "AccessDeniedException"}
        faults = {
            Fault.UNAVAILABLE: SimulatorFault("status", status=503, times=None),
            Fault.UNREACHABLE: SimulatorFault("refuse", times=None),
            Fault.RATE_LIMITED: SimulatorFault("rate_limit", retry_after=120, times=None),
            Fault.UNAUTHORIZED: SimulatorFault("bad_credentials", times=None),
            Fault.FORBIDDEN: SimulatorFault("status", status=403, body=denial, method=WRITES, path=WRITTEN, times=None),
            Fault.LOST_ANSWER: SimulatorFault("applied_then_lost", method=WRITES, path=WRITTEN),
        }
        self.simulator.inject(faults[fault])

    async def heal(self) -> None:
        """Disarm everything, and let the time pass that a limit asked for."""
        self.simulator.clear_faults()
        self._clock.ahead += 1000


def _wrote(request: Recorded) -> bool:
    if request.method == "GET" or request.path.endswith(QUESTIONS):
        return False
    return request.status in range(200, 300) or "applied_then_lost" in request.faults
