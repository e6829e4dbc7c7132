"""The network: every request takes its time there and back, in any order, and some never arrive.

What is on the wire has left its process: it arrives whatever becomes of the sender.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from redis.exceptions import ConnectionError, NoScriptError, RedisError, TimeoutError

from agentsmith.domain.errors import TrackerUnavailable
from tests.simulation.faults import Fault
from tests.simulation.loop import Clock, SimulatedLoop
from tests.simulation.processes import Link, Process
from tests.simulation.refusals import Refusal
from tests.simulation.server import Blocked, NotSimulated, SimulatedServer
from tests.support.scripts import all_scripts, given

T = TypeVar("T")
_ANSWER_WITHIN: Final = 10.0
"""As `connection` bounds a command."""
_READ_WITHIN: Final = 15.0
"""As the HTTP layer bounds a request that has no deadline."""
_SCRIPTS: Final = ("eval", "evalsha")
HEARD: Final = frozenset(
    {
        "intents.begin_claim",
        "intents.decide",
        "intents.adopt",
        "intents.published",
        "leases.take",
        "leases.take_fenced",
        "queue.acknowledge_and_take",
        "queue.bury",
        "queue.push",
        "runs.acquire",
        "runs.renew",
        "runs.settle",
        "runs.settle_again",
    }
)
"""The scripts that the promises are held against."""


@functools.cache
def script_names() -> dict[bytes, str]:
    """Texts and hashes of all scripts to their names: `runs.settle`, `intents.begin_claim`, …"""
    names: dict[bytes, str] = {}
    for name, script in all_scripts().items():
        program = script.program
        names |= dict.fromkeys((program.sha.encode(), program.text.encode()), name)
    return names


class Listener(Protocol):
    """Hears what Redis carried out, in the order in which it did."""

    def heard(self, actor: Process, script: str, given: Mapping[str, Any], answer: Any) -> None: ...


class Network:
    """Between all processes, one Redis and one tracker."""

    def __init__(self, loop: SimulatedLoop, clock: Clock, chance: random.Random, server: SimulatedServer) -> None:
        self._loop, self._clock, self._random = loop, clock, chance.random
        self.server = server
        self.redis_is_up = True
        self.tracker_is_up = True
        self.listener: Listener | None = None
        self.tell: Callable[[Process, str, tuple[bytes, ...], Any], None] | None = None
        """Hears everything, for the trace."""
        self.refusal: Callable[[], Refusal | None] = lambda: None
        """What Redis answers the next command instead of carrying it out."""
        self.before: Callable[[str], None] = lambda _: None
        """Told of every command before Redis carries it out."""
        self._names = script_names()
        self._waiting: dict[Blocked, tuple[Process, asyncio.Future[Any]]] = {}

    # ---- Redis

    def point(self, words: tuple[bytes, ...]) -> str:
        """What a command is called where faults are laid and traces are written."""
        name = words[0].decode().lower()
        if name not in _SCRIPTS:
            return name
        script = self._names.get(words[1], name)
        return "leader" if script.startswith("leases.") and b":leader:" in words[3] else script

    async def ask(self, process: Process, words: tuple[bytes, ...]) -> Any:
        """Send a command to Redis and wait for the answer."""
        point = self.point(words)
        fault = await process.checkpoint(point)
        answer = self._loop.create_future()
        if fault is Fault.FAIL:
            self._loop.outside(self._short(), _fail, answer, ConnectionError("the connection broke"))
        else:
            self._loop.outside(self._short(fault), self._arrive, process, point, words, fault, answer)
        try:
            return await answer
        except asyncio.CancelledError:
            self._hang_up(answer)
            raise

    def _arrive(
        self, process: Process, point: str, words: tuple[bytes, ...], fault: Fault | None, answer: asyncio.Future[Any]
    ) -> None:
        if not self.redis_is_up or Link.REDIS in process.host.cut:
            self._unreachable(answer)
        elif refusal := self.refusal():
            self._refuse(refusal, process, point, words, answer)
        elif words[0] == b"BLMOVE":
            self._block(process, words, fault, answer)
        else:
            self.before(point)
            try:
                reply = self.server.execute(*words)
            except NotSimulated:
                raise  # a trouble of the simulation, not one of the world that it simulates
            except RedisError as error:
                reply = error
            self._carried_out(process, point, words, reply)
            self._answer(process, reply, fault, answer)

    def _refuse(
        self,
        refusal: Refusal,
        process: Process,
        point: str,
        words: tuple[bytes, ...],
        answer: asyncio.Future[Any],
    ) -> None:
        if refusal.unblocks:
            self._send_away(refusal.error)
        if refusal.applied and words[0] != b"BLMOVE":
            with contextlib.suppress(NoScriptError):
                self._carried_out(process, point, words, self.server.execute(*words))
        self._answer(process, refusal.error, None, answer)

    def _carried_out(self, process: Process, point: str, words: tuple[bytes, ...], reply: Any) -> None:
        if self.tell is not None:
            self.tell(process, point, words, reply)
        if self.listener is not None and point in HEARD and not isinstance(reply, Exception):
            count = int(words[2])
            texts = [word.decode("utf-8", "surrogateescape") for word in words[3:]]
            heard = given(all_scripts()[point], texts[:count], texts[count:])
            self.listener.heard(process, point, heard, _text(reply))

    def _answer(self, process: Process, reply: Any, fault: Fault | None, answer: asyncio.Future[Any]) -> None:
        if fault is Fault.LOSE:
            reply = ConnectionError("the connection broke before the answer came")
        self._loop.outside(self._short(), self._bring, process, reply, answer)

    def _bring(self, process: Process, reply: Any, answer: asyncio.Future[Any]) -> None:
        if Link.REDIS in process.host.cut and not isinstance(reply, NoScriptError):
            self._unreachable(answer)
        elif isinstance(reply, Exception):
            _fail(answer, reply)
        elif not answer.done():
            answer.set_result(reply)

    def _unreachable(self, answer: asyncio.Future[Any]) -> None:
        """Refused at once, or left to wait: nobody knows beforehand."""
        if self._random() < 0.5:
            self._loop.outside(self._short(), _fail, answer, ConnectionError("nobody is there"))
        else:
            self._loop.outside(_ANSWER_WITHIN, _fail, answer, TimeoutError("no answer"))

    def _block(
        self, process: Process, words: tuple[bytes, ...], fault: Fault | None, answer: asyncio.Future[Any]
    ) -> None:
        if process.hung_up:
            return  # the connection was closed before the server came to it

        def served(value: bytes | None) -> None:
            self._waiting.pop(blocked, None)
            give_up.cancel()
            self._carried_out(process, "blmove", words, value)
            self._answer(process, value, fault, answer)

        def too_late() -> None:
            self.server.unblock(blocked)
            served(None)

        blocked = Blocked(words[1], words[2], words[3], words[4], served)
        give_up = self._loop.outside(float(words[5]), too_late)
        self._waiting[blocked] = (process, answer)
        value = self.server.block(blocked)
        if value is not None:
            served(value)

    def _hang_up(self, answer: asyncio.Future[Any]) -> None:
        """Whoever waited for a blocked command gave up, and closes the connection."""
        for blocked, (_, waited) in self._waiting.items():
            if waited is answer:
                self._loop.outside(self._short(), self._forget, blocked)
                return

    def closed(self, process: Process) -> None:
        """The process died, and the kernel closes its connections, if there still is one."""
        if not process.hung_up:
            return
        for blocked, (owner, _) in self._waiting.items():
            if owner is process:
                self._loop.outside(self._short(), self._forget, blocked)

    def _forget(self, blocked: Blocked) -> None:
        self.server.unblock(blocked)
        self._waiting.pop(blocked, None)

    def redis_goes_down(self) -> None:
        """Every connection breaks."""
        self.redis_is_up = False
        self._send_away(ConnectionError("the server went away"))

    def _send_away(self, error: RedisError) -> None:
        for blocked, (_, answer) in list(self._waiting.items()):
            self._forget(blocked)
            self._loop.outside(self._short(), _fail, answer, error)

    # ---- the tracker

    async def carry(self, process: Process, request: Callable[[], T], deadline: float | None) -> T:
        """Have a request carried out by the tracker; TrackerUnavailable when no answer comes in time."""
        answer = self._loop.create_future()
        limit = _READ_WITHIN if deadline is None else max(0.0, deadline - self._clock.now)
        give_up = self._loop.outside(limit, _fail, answer, TrackerUnavailable("no answer in time"))
        self._loop.outside(self._long(), self._reach, process, request, answer)
        try:
            result: T = await answer
        finally:
            give_up.cancel()
        return result

    def _reach(self, process: Process, request: Callable[[], Any], answer: asyncio.Future[Any]) -> None:
        if not self.tracker_is_up or Link.TRACKER in process.host.cut:
            self._loop.outside(self._long(), _fail, answer, TrackerUnavailable("the tracker does not answer"))
            return
        try:
            reply = request()
        except Exception as error:
            reply = error
        self._loop.outside(self._long(), self._bring_back, process, reply, answer)

    def _bring_back(self, process: Process, reply: Any, answer: asyncio.Future[Any]) -> None:
        if Link.TRACKER in process.host.cut:
            return  # the answer is lost; whoever waits runs into the time limit
        if isinstance(reply, Exception):
            _fail(answer, reply)
        elif not answer.done():
            answer.set_result(reply)

    # ---- how long it takes

    def _short(self, fault: Fault | None = None) -> float:
        slow = 4.0 * self._random() if fault is Fault.SLOW else 0.0
        return 0.0002 + 0.003 * self._random() ** 3 + slow

    def _long(self) -> float:
        return 0.01 + 0.4 * self._random() ** 4


@dataclass(frozen=True, slots=True)
class ProcessWire:
    """A process's way to Redis (Wire)."""

    process: Process
    network: Network

    async def ask(self, words: tuple[bytes, ...]) -> Any:
        """See `Wire`."""
        return await self.network.ask(self.process, words)


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # looked at, else asyncio complains when the one who asked is dead


def _text(reply: Any) -> Any:
    if isinstance(reply, bytes):
        return reply.decode("utf-8", "surrogateescape")
    return [_text(part) for part in reply] if isinstance(reply, list) else reply
