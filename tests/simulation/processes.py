"""Machines and processes: killed, stopped, suspended, cut off, with clocks that are wrong.

A process is whatever owns callbacks of the loop: a daemon, a guard, the program that releases a lease. What one asks of
Redis or a tracker passes `checkpoint`, where something can happen to it; so can it at every other step that it makes.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from tests.simulation.faults import Fault
from tests.simulation.loop import OWNER, Call, SimulatedLoop

T = TypeVar("T")


class Link(StrEnum):
    """What a machine can be cut off from."""

    REDIS = "Redis"
    TRACKER = "the tracker"


class Fate(Protocol):
    """Decides what happens to processes, and when."""

    def at_step(self, process: Process) -> None:
        """The process is about to go on after some await."""

    def at_point(self, process: Process, point: str) -> Fault | None:
        """The process is about to ask for something."""


class Carrier(Protocol):
    """The network between processes and the tracker."""

    async def carry(self, process: Process, request: Callable[[], T], deadline: float | None) -> T: ...


class Host:
    """A machine. With it everything on it is suspended, or lost."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.suspended = False
        self.ahead = 0.0
        """By how much its wall clock is wrong."""
        self.cut: set[Link] = set()
        self.processes: list[Process] = []

    def suspend(self) -> None:
        """Close the lid."""
        self.suspended = True

    def wake(self) -> None:
        """Open it again. Guards have always looked at the clock before anybody else does anything."""
        self.suspended = False
        for process in sorted(self.processes, key=lambda process: not process.is_guard):
            process.let_go_on()

    def lose(self) -> None:
        """Pull the plug: nobody on it gets to say anything."""
        for process in sorted(self.processes, key=lambda process: not process.is_guard):
            process.kill(silently=True)


class Process:
    """One process on a machine."""

    is_guard = False

    def __init__(self, name: str, host: Host, loop: SimulatedLoop, fate: Fate, carrier: Carrier) -> None:
        self.name, self.host, self.loop = name, host, loop
        self.alive = True
        self.hung_up = False
        """Whether it is dead and its connections are closed; those of a lost machine stay open."""
        self.stopped = False
        self.lock_tokens: set[str] = set()
        self.on_death: list[Callable[[], None]] = []
        self._kept: list[Call] = []
        self._fate, self._carrier = fate, carrier
        self._context = contextvars.copy_context()
        self._context.run(OWNER.set, self)
        host.processes.append(self)

    def __str__(self) -> str:
        return self.name

    # ---- for the loop

    def admits(self, call: Call) -> bool:
        """See `Owner`."""
        if self.alive:
            self._fate.at_step(self)
        if not self.alive:
            return False
        if self.stopped or self.host.suspended:
            self._kept.append(call)
            return False
        return True

    # ---- what happens to it

    @property
    def well(self) -> bool:
        """Whether it can do its work."""
        return self.alive and not self.stopped and not self.host.suspended and not self.host.cut

    def kill(self, *, silently: bool = False) -> None:
        """Kill -9. Silently: not even its connections are closed."""
        if not self.alive:
            return
        self.alive = False
        self._kept.clear()
        if self in self.host.processes:
            self.host.processes.remove(self)
        self.hung_up = not silently
        for tell in self.on_death:
            tell()

    def stop(self) -> None:
        """SIGSTOP."""
        self.stopped = True

    def go_on(self) -> None:
        """SIGCONT."""
        self.stopped = False
        self.let_go_on()

    def let_go_on(self) -> None:
        """Give it back what it was kept from, if nothing keeps it any more."""
        if self.alive and not self.stopped and not self.host.suspended:
            kept, self._kept = self._kept, []
            self.loop.requeue(kept)

    # ---- what it does

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` as this process; whatever it starts belongs to the process too."""
        return self.loop.create_task(work, context=self._context.copy())

    def call(self, delay: float, callback: Callable[..., object], *args: Any) -> Call:
        """Call back later, as this process."""
        return self.loop.call_at(self.loop.clock.now + delay, callback, *args, context=self._context)

    async def checkpoint(self, point: str) -> Fault | None:
        """Come by `point`; answers a fault that the other side has to bring about."""
        fault = self._fate.at_point(self, point)
        if not self.alive:
            await self.loop.create_future()  # which nobody will ever see the end of
        if self.stopped or self.host.suspended:
            await asyncio.sleep(0)  # from which it returns once it goes on
        return fault

    async def carry(self, request: Callable[[], T], *, deadline: float | None = None) -> T:
        """Have a request carried out by the tracker, and wait for what it answers."""
        return await self._carrier.carry(self, request, deadline)
