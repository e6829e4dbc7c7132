"""Jira under the conformance suite: the real client over HTTP on loopback, against the simulator, in three ways.

Cloud with labels only, Cloud with the project's workflow beside them, and Data Center. People act on the simulator's
state directly; the tracker's own pool is watched only to know when its next write leaves. Reads are not trusted here
(`trust_reads=0`), so that what people do between a read and a move is noticed before the write; what the default, which
saves that look, does then is tested in tests/roles.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

import httpx

from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.tracker import Tracker
from agentsmith.simulators import Fault as SimulatorFault
from agentsmith.simulators import Recorded, Running, serve
from agentsmith.simulators.jira import JiraSimulator
from agentsmith.trackers.http import LocalGovernor, Pace, Shared
from agentsmith.trackers.jira.opening import open_tracker
from agentsmith.trackers.jira.site import Deployment, Site
from agentsmith.trackers.jira.texts import COMMENT_LIMIT
from agentsmith.trackers.jira.tracker import JiraTracker
from tests.conformance.github import Jumping, Watched
from tests.conformance.harness import Capabilities, Fault, Platform, RawComment

PROJECT: Final = "WEB"
TOKEN: Final = "ATATT3xCONFORMANCEsecretsecret"
WRITES: Final = "POST|PUT|DELETE"
READING: Final = ("/search", "/search/jql", "/issue/bulkfetch")
"""What is asked by POST and changes nothing."""
WORKFLOW: Final = (
    ("To Do", "new"),
    ("Queued", "new"),
    ("In Progress", "indeterminate"),
    ("Waiting", "indeterminate"),
    ("Done", "done"),
    ("Failed", "indeterminate"),
)


class JiraPlatform(Platform):
    """Jira Cloud with one project per test."""

    capabilities = Capabilities(compare_and_set=False, comment_limit=COMMENT_LIMIT, faults=frozenset(Fault))
    secrets = (TOKEN, "secretsecret")
    cloud: ClassVar[bool] = True
    statuses: ClassVar[Mapping[Status, str] | None] = None

    def __init__(self, running: Running, simulator: JiraSimulator, labels: LabelSet, email: str) -> None:
        self.simulator = simulator
        self._running, self._labels, self._email = running, labels, email
        self._clock = Jumping()
        self._shared = Shared(governor=LocalGovernor(self._clock))
        self._trackers: list[JiraTracker] = []
        self._watched = Watched(verify=False)
        self.tracker = self._another(self._watched)

    @classmethod
    @asynccontextmanager
    async def start(cls, folder: Path, labels: LabelSet) -> AsyncIterator[Platform]:  # noqa: ARG003
        """An empty project, in which everybody may edit, and our account administers."""
        simulator = JiraSimulator(cloud=cls.cloud)
        simulator.add_project(PROJECT, statuses=WORKFLOW)
        email = simulator.add_token(TOKEN, user="agentsmith")
        simulator.set_role(PROJECT, "agentsmith", "admin")
        for name in ("alice", "bob", "carol", "mallory"):
            simulator.set_role(PROJECT, name, "write")
            simulator.add_user(name, account_id=name)
        async with serve(simulator) as running:
            platform = cls(running, simulator, labels, email)
            try:
                yield platform
            finally:
                for tracker in platform._trackers:
                    await tracker.aclose()
        simulator.assert_understood()

    def _another(self, transport: httpx.AsyncBaseTransport) -> JiraTracker:
        deployment = Deployment.CLOUD if self.cloud else Deployment.DATA_CENTER
        tracker = open_tracker(
            name="web",
            site=Site(PROJECT, self._running.api_url, deployment),
            labels=self._labels,
            token=TOKEN,
            email=self._email if self.cloud else None,
            shared=self._shared,
            statuses=self.statuses,
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
        return self.simulator.open_issue(PROJECT, summary=title, description=body, labels=labels, actor=author)

    async def person_adds(self, key: str, label: str, actor: str = "alice") -> None:
        """In the simulator's state."""
        self.simulator.add_label(key, label, actor)

    async def person_removes(self, key: str, label: str, actor: str = "alice") -> None:
        """In the simulator's state."""
        self.simulator.remove_label(key, label, actor)

    async def person_comments(self, key: str, body: str, actor: str = "alice") -> None:
        """In the simulator's state."""
        self.simulator.comment(key, body, actor)

    async def edit(self, key: str, *, title: str | None = None, body: str | None = None) -> None:
        """In the simulator's state."""
        self.simulator.edit_issue(key, summary=title, description=body, actor="alice")

    async def close(self, key: str) -> None:
        """In the simulator's state."""
        self.simulator.transition(key, "Done", "alice")

    async def reopen(self, key: str) -> None:
        """In the simulator's state."""
        self.simulator.transition(key, "To Do", "alice")

    async def delete(self, key: str) -> None:
        """In the simulator's state: 404 from now on."""
        self.simulator.delete_issue(key, "alice")

    async def labels(self, key: str) -> set[str]:
        """From the simulator's state."""
        return set(self.simulator.labels(key))

    async def comments(self, key: str) -> list[RawComment]:
        """From the simulator's state."""
        return [RawComment(c["author"], c["body"]) for c in self.simulator.comments(key)]

    async def label_history(self, key: str) -> list[frozenset[str]]:
        """Every version of the issue that the simulator kept."""
        return self.simulator.label_history(key)

    async def writes(self) -> int:
        """From the request log: what was carried out, whether or not its answer arrived."""
        return sum(1 for request in self.simulator.requests if _wrote(request))

    def between_read_and_write(self, callback: Callable[[], Awaitable[None]]) -> None:
        """At the gate of the tracker's pool."""
        self._watched.before_write = callback

    async def second_tracker(self) -> Tracker:
        """With connections, memories and label locks of its own."""
        return self._another(httpx.AsyncHTTPTransport(verify=False))

    async def inject(self, fault: Fault, key: str | None = None) -> None:
        """By the simulator's own faults; a malformed record is one whose summary is no text."""
        if fault is Fault.MALFORMED:
            broken: Any = replace(self.simulator.issue(key or ""), summary=None)  # type: ignore[arg-type]
            self.simulator.hub.world.save(broken, self.simulator.clock.now())
            return
        denial = {"errorMessages": ["You do not have permission to edit issues in this project."], "errors": {}}
        unread = r"/issue/[A-Z]+-\d+"
        faults = {
            Fault.UNAVAILABLE: SimulatorFault("status", status=503, times=None),
            Fault.UNREACHABLE: SimulatorFault("refuse", times=None),
            Fault.RATE_LIMITED: SimulatorFault("burst_limit", retry_after=120, times=None),
            Fault.UNAUTHORIZED: SimulatorFault("bad_credentials", times=None),
            Fault.FORBIDDEN: SimulatorFault("status", status=403, body=denial, method=WRITES, path=unread, times=None),
            Fault.LOST_ANSWER: SimulatorFault("applied_then_lost", method=WRITES, path=unread),
        }
        self.simulator.inject(faults[fault])

    async def heal(self) -> None:
        """Disarm everything, and let the time pass that a limit asked for."""
        self.simulator.clear_faults()
        self._clock.ahead += 1000


class JiraStatusPlatform(JiraPlatform):
    """Jira Cloud in status mode: the workflow moves with the label."""

    statuses: ClassVar[Mapping[Status, str] | None] = {
        status: name for status, (name, _) in zip(Status, WORKFLOW, strict=True)
    }


class JiraDataCenterPlatform(JiraPlatform):
    """Jira Data Center."""

    cloud = False


def _wrote(request: Recorded) -> bool:
    if request.method == "GET" or request.path.endswith(READING):
        return False
    return request.status in range(200, 300) or "applied_then_lost" in request.faults
