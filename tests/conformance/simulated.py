"""A platform's simulator under the conformance suite: the real client over HTTP on loopback.

People act on the simulator's state directly; the tracker's own pool is watched only to know when its next write leaves.
Where a tracker may trust its reads for a while, that is switched off here (`trust_reads=0`), so that what people do
between a read and a move is noticed before the write; what the default does then is tested in tests/roles.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar

import httpx

from agentsmith.domain.errors import TrackerError
from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.tracker import Tracker
from agentsmith.simulators import Fault as SimulatorFault
from agentsmith.simulators import Recorded, serve
from agentsmith.simulators.frame import Simulator
from agentsmith.simulators.tickets import ProjectTickets, Said
from agentsmith.trackers.http import LocalGovernor, Pace, Shared
from tests.conformance.harness import Fault, Platform
from tests.support.contracts import ContractJudge

S = TypeVar("S", bound=Simulator)

PEOPLE: Final = ("alice", "bob", "carol", "mallory")
FAST: Final = Pace(first_delay=0.001, longest_delay=0.002)
WRITES: Final = "POST|PATCH|PUT|DELETE"


class Watched(httpx.AsyncHTTPTransport):
    """Lets something happen right before the next write leaves: after every read that it is based on."""

    def __init__(self, asks: Callable[[str, str], bool]) -> None:
        super().__init__(verify=False)
        self._asks = asks
        self.before_write: Callable[[], Awaitable[object]] | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """As in the base class, after the callback."""
        if self.before_write is not None and not self._asks(request.method, request.url.path):
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


class SimulatedPlatform(Platform, Generic[S]):
    """A simulator with one project per test."""

    says: ClassVar[str]
    """How every message about the platform begins."""
    questions: ClassVar[tuple[str, ...]] = ()
    """How the paths end of what is asked by POST and changes nothing."""
    written: ClassVar[str] = ""
    """A pattern for the paths of writes to tickets, where others are written to for asking."""
    denial: ClassVar[Mapping[str, Any]]
    """The body of a refusal for lack of permission; a careless one, that repeats the token."""
    refusal: ClassVar[str]
    """What people should be told of it."""
    limited: ClassVar[Mapping[str, Any]]
    """The simulator's fault for a limit; `retry_after` names the time."""
    own_faults: ClassVar[Mapping[str, tuple[Mapping[str, Any], type[TrackerError]]]] = {}
    """What else can go wrong here, beside what can everywhere: the simulator's fault, and the error it must become."""
    wrong: ClassVar[Sequence[tuple[tuple[str, ...], Any]]]
    """Where the record of ticket 1 may be garbled, and by what, so that it must not be believed."""
    undescribed: ClassVar[frozenset[str]] = frozenset()
    """The last parts of paths that the description leaves out."""

    def __init__(self, simulator: S, labels: LabelSet) -> None:
        self.simulator = simulator
        self.tickets = self.people()
        self._labels = labels
        self._clock = Jumping()
        self._shared = Shared(governor=LocalGovernor(self._clock))
        self._trackers: list[Tracker] = []
        self._watched = Watched(self.asks)
        self.tracker = self.another(transport=self._watched)

    @classmethod
    @asynccontextmanager
    async def start(cls, folder: Path, labels: LabelSet) -> AsyncIterator[Platform]:  # noqa: ARG003
        """An empty project, in which everybody may write."""
        simulator = cls.furnished()
        async with serve(simulator):
            platform = cls(simulator, labels)
            try:
                yield platform
            finally:
                for tracker in platform._trackers:
                    await tracker.aclose()
        simulator.assert_understood()

    async def time_passes(self) -> None:
        """On the simulator's clock."""
        self.simulator.clock.advance(2)

    @classmethod
    @abstractmethod
    def furnished(cls) -> S:
        """The simulator with a project, the people, and a token for `agentsmith`."""

    @abstractmethod
    def open(self, labels: LabelSet, shared: Shared, pace: Pace, http: httpx.AsyncClient, page_size: int) -> Tracker:
        """A tracker on the project."""

    @abstractmethod
    def people(self) -> ProjectTickets:
        """What people do with the tickets, and see of them."""

    @abstractmethod
    def garble(self, key: str) -> None:
        """Let the record of one ticket lack what the platform documents."""

    @classmethod
    def judge(cls) -> ContractJudge | None:
        """Who judges what was said by the published description; None where none is official."""
        return None

    def another(
        self,
        *,
        pace: Pace = FAST,
        shared: Shared | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        page_size: int = 3,
    ) -> Tracker:
        """A tracker with connections and memories of its own; what replicas share is shared, unless it is given."""
        http = httpx.AsyncClient(transport=transport or httpx.AsyncHTTPTransport(verify=False))
        tracker = self.open(self._labels, shared or self._shared, pace, http, page_size)
        self._trackers.append(tracker)
        return tracker

    def asks(self, method: str, path: str) -> bool:
        """Whether such a request changes nothing."""
        return method == "GET" or path.endswith(self.questions)

    def spoil(self, kind: str, **options: Any) -> SimulatorFault:
        """Arm one of the simulator's faults."""
        return self.simulator.inject(SimulatorFault(kind, **options))

    def recorded(self) -> list[Recorded]:
        """The requests since the last look."""
        found = list(self.simulator.requests)
        self.simulator.forget_requests()
        return found

    # --- what people do, in the simulator's state -------------------------------------------------------------------

    async def open_ticket(
        self, title: str = "a ticket", body: str = "", labels: tuple[str, ...] = (), author: str = "alice"
    ) -> str:
        """See Platform."""
        return self.tickets.open(title, labels, body=body, actor=author)

    async def person_adds(self, key: str, label: str, actor: str = "alice") -> None:
        """See Platform."""
        self.tickets.add_label(key, label, actor)

    async def person_removes(self, key: str, label: str, actor: str = "alice") -> None:
        """See Platform."""
        self.tickets.remove_label(key, label, actor)

    async def person_comments(self, key: str, body: str, actor: str = "alice") -> str:
        """See Platform."""
        return self.tickets.comment(key, body, actor)

    async def person_withdraws(self, key: str, ref: str) -> None:
        """See Platform."""
        self.tickets.withdraw(key, ref)

    async def reactions(self, key: str, ref: str) -> list[str]:
        """See Platform."""
        return self.tickets.reactions(key, ref)

    async def edit(self, key: str, *, title: str | None = None, body: str | None = None, actor: str = "alice") -> None:
        """See Platform."""
        self.tickets.edit(key, title=title, body=body, actor=actor)

    async def close(self, key: str) -> None:
        """See Platform."""
        self.tickets.close(key)

    async def reopen(self, key: str) -> None:
        """See Platform."""
        self.tickets.reopen(key)

    async def delete(self, key: str) -> None:
        """See Platform."""
        self.tickets.delete(key)

    async def block(self, key: str, by: str) -> None:
        """See Platform."""
        self.tickets.block(key, by)

    async def labels(self, key: str) -> set[str]:
        """See Platform."""
        return set(self.tickets.labels(key))

    async def comments(self, key: str) -> list[Said]:
        """See Platform."""
        return self.tickets.comments(key)

    async def label_history(self, key: str) -> list[frozenset[str]]:
        """See Platform."""
        return self.tickets.label_history(key)

    # --- what went over the wire, and what goes wrong ---------------------------------------------------------------

    async def writes(self) -> int:
        """From the request log: what was carried out, whether or not its answer arrived."""
        wrote = [r for r in self.simulator.requests if not self.asks(r.method, r.path)]
        return sum(1 for r in wrote if r.status in range(200, 300) or "applied_then_lost" in r.faults)

    def between_read_and_write(self, callback: Callable[[], Awaitable[object]]) -> None:
        """At the gate of the tracker's pool."""
        self._watched.before_write = callback

    async def second_tracker(self) -> Tracker:
        """See `another`."""
        return self.another()

    def paged_by(self, size: int) -> Tracker:
        """Nothing is shared but the pace."""
        return self.another(shared=Shared(governor=self._shared.governor), page_size=size)

    async def inject(self, fault: Fault, key: str | None = None) -> None:
        """By the simulator's own faults."""
        if fault is Fault.MALFORMED:
            self.garble(key or "")
            return
        writes = {"method": WRITES, "path": self.written}
        faults: dict[Fault, dict[str, Any]] = {
            Fault.UNAVAILABLE: {"kind": "status", "status": 503, "times": None},
            Fault.UNREACHABLE: {"kind": "refuse", "times": None},
            Fault.RATE_LIMITED: {**self.limited, "retry_after": 120, "times": None},
            Fault.UNAUTHORIZED: {"kind": "bad_credentials", "times": None},
            Fault.FORBIDDEN: {"kind": "status", "status": 403, "body": self.denial, "times": None, **writes},
            Fault.LOST_ANSWER: {"kind": "applied_then_lost", **writes},
        }
        self.spoil(**faults[fault])

    async def heal(self) -> None:
        """Disarm everything, and let the time pass that a limit asked for."""
        self.simulator.clear_faults()
        self._clock.ahead += 4000
        self.simulator.clock.advance(4000)
