"""Actors: the processes of the model. Whatever one asks of Redis or of a tracker passes one of its checkpoints.

At a checkpoint an actor can crash (kill -9: this call and every later one has no effect, whatever `finally` tries),
be paused (SIGSTOP), or meet with a fault of the network. So a fault can hit between every two steps of the real code
without the code knowing of it.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from redis import Redis
from redis.exceptions import ConnectionError

from tests.support.scripts import all_scripts, given

T = TypeVar("T")


class Killed(BaseException):
    """The process is no more. Not an Exception, so that nobody handles it."""


class Fault(StrEnum):
    """What can happen at a checkpoint."""

    CRASH = "crash"
    PAUSE = "pause"
    FAIL = "fail"
    """The request does not get through."""
    LOSE = "lose the answer"
    """It is carried out, but the answer does not get through."""
    LATE = "land late"
    """The tracker carries it out at some later time, and nobody hears of it."""
    LIMIT = "limit"
    """The tracker wants to be left alone for a while."""
    SLOW = "slow"
    """It takes its time. Only where time passes by itself: not in the model."""
    STALE = "stale read"
    """The tracker answers what was true before the latest write. Not in the model either."""
    TAG = "person tags"
    UNTRIGGER = "person untriggers"
    UNLABEL = "person unlabels"
    """A person acts on the ticket in just this moment."""


IN_THE_MODEL: Final = tuple(fault for fault in Fault if fault not in (Fault.SLOW, Fault.STALE))
PERSONS: Final = (Fault.TAG, Fault.UNTRIGGER, Fault.UNLABEL)

_ACTOR: contextvars.ContextVar[Actor | None] = contextvars.ContextVar("actor", default=None)


@dataclass(slots=True)
class Arm:
    """A fault that waits for the actor to come by `point`, for the time after `skip` others."""

    point: str
    skip: int
    fault: Fault

    def fires(self, point: str) -> bool:
        """Whether this is the moment."""
        if self.point not in (point, "anything"):
            return False
        self.skip -= 1
        return self.skip < 0


class Actor:
    """One process: its tasks, what befalls it, and what it was seen to hold."""

    def __init__(self, name: str, say: Callable[[str], None]) -> None:
        self.name = name
        self.alive = True
        self.cut_off = False
        self.releases = True
        """Whether its guards get to release the lease; not if the whole host is lost."""
        self.arm: Arm | None = None
        self.may_take = asyncio.Event()
        """Set to let a blocking take go on; the model decides when a signal or a request is taken."""
        self.lock_tokens: set[str] = set()
        self._running = asyncio.Event()
        self._running.set()
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._say = say

    def __str__(self) -> str:
        return self.name

    @property
    def paused(self) -> bool:
        """Whether it is stopped where it stands."""
        return self.alive and not self._running.is_set()

    @property
    def well(self) -> bool:
        """Whether it can do its work."""
        return self.alive and not self.paused and not self.cut_off

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run `work` as this process; whatever tasks it makes belong to the process too."""

        def create() -> asyncio.Task[Any]:
            _ACTOR.set(self)
            return asyncio.get_running_loop().create_task(work)

        return contextvars.copy_context().run(create)

    def own(self, task: asyncio.Task[Any]) -> None:
        """Remember a task, to end it with the process."""
        self._tasks[task] = None
        task.add_done_callback(self._disown)

    def _disown(self, task: asyncio.Task[Any]) -> None:
        del self._tasks[task]
        if not task.cancelled():
            task.exception()  # looked at, else asyncio complains that nobody did

    @property
    def idle(self) -> bool:
        """Whether nothing of the process is left or under way."""
        return not self._tasks

    def kill(self) -> None:
        """Kill -9."""
        if self.alive:
            self._say(f"{self} dies")
        self.alive = False
        self._running.set()
        for task in list(self._tasks):
            if task is not asyncio.current_task():
                task.cancel()

    def pause(self) -> None:
        """SIGSTOP."""
        self._say(f"{self} is paused")
        self._running.clear()

    def resume(self) -> None:
        """SIGCONT."""
        if self.paused:
            self._say(f"{self} goes on")
        self._running.set()

    async def checkpoint(self, point: str) -> Fault | None:
        """Come by `point`; answers a fault that the caller has to bring about."""
        fault = None
        self.check()
        if self.arm is not None and self._running.is_set() and self.arm.fires(point):
            fault, self.arm = self.arm.fault, None
            self._say(f"{self} at {point}: {fault}")
        if fault is Fault.CRASH:
            self.kill()
        elif fault is Fault.PAUSE:
            self.pause()
        while self.paused:
            await self._running.wait()
        self.check()
        return fault

    async def carry(self, request: Callable[[], T], *, deadline: float | None = None) -> T:
        """Have a request carried out by the tracker, which takes no time here."""
        del deadline
        return request()

    def check(self) -> None:
        """End the caller here if the process is dead."""
        if not self.alive:
            raise Killed(self.name)


def task_factory(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    """Makes every task belong to the process whose task made it."""
    task = asyncio.Task(work, loop=loop, **options)
    if (actor := _ACTOR.get()) is not None:
        actor.own(task)
    return task


class Wire(Protocol):
    """How the model reaches the real server: one call after another, never interrupted half-way."""

    async def send(self, call: Callable[[Any], Any]) -> Any: ...


class Ledger(Protocol):
    """Hears what the scripts answered, to hold it against the promises."""

    def heard(self, actor: Actor, script: str, given: Mapping[str, Any], answer: Any) -> None: ...


class MortalRedis:
    """A client that works as long as its process lives and is connected.

    `blmove` is the one command that waits: here until the model lets it, or its own time-out passes.
    """

    def __init__(self, actor: Actor, wire: Wire, ledger: Ledger) -> None:
        self._actor, self._wire, self._ledger = actor, wire, ledger

    def __getattr__(self, command: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        return partial(self._call, command)

    async def aclose(self) -> None:
        """The connection is the model's."""

    async def blmove(self, source: str, target: str, timeout: float, src: str, dest: str) -> Any:
        try:
            async with asyncio.timeout(timeout):
                await self._actor.may_take.wait()
        except TimeoutError:
            return None
        self._actor.may_take.clear()
        return await self._call("lmove", source, target, src, dest)

    async def _call(self, command: str, *args: Any, **options: Any) -> Any:
        script = _SCRIPTS.get(args[0], "") if command == "evalsha" else ""
        fault = await self._actor.checkpoint(script or command)
        if self._actor.cut_off or fault is Fault.FAIL:
            raise ConnectionError("cut off")

        async def carry_out(redis: Any) -> Any:
            answer = await getattr(redis, command)(*args, **options)
            if script:
                # Here, because what was carried out counts, also if whoever asked for it is gone by now.
                count = int(args[1])
                heard = given(all_scripts()[script], args[2 : 2 + count], args[2 + count :])
                self._ledger.heard(self._actor, script, heard, answer)
            return answer

        answer = await self._wire.send(carry_out)
        self._actor.check()
        if fault is Fault.LOSE or self._actor.cut_off:
            raise ConnectionError("the answer was lost")
        return answer


_SCRIPTS: dict[str, str] = {}
"""Script hashes to names: `settle`, `begin_claim`, …"""


def load_scripts(admin: Redis) -> None:
    """Learn the scripts' names and teach them to the server, as they are now: an ablation changes them."""
    for name, script in all_scripts().items():
        program = script.program
        _SCRIPTS[program.sha] = name
        admin.script_load(program.text)
