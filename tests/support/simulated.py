"""A simulator on loopback with trackers on it: what is alike on every platform."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any, Generic, TypeVar

from agentsmith.domain.tracker import Tracker
from agentsmith.simulators import Fault, Recorded, Running
from agentsmith.simulators.frame import Simulator

S = TypeVar("S", bound=Simulator)
T = TypeVar("T", bound=Tracker)


class Simulated(Generic[S]):
    """One project, in which mona and the tracker's account may write."""

    def __init__(self, running: Running, simulator: S, stack: AsyncExitStack) -> None:
        self.running = running
        self.simulator = simulator
        self._stack = stack

    def closing(self, tracker: T) -> T:
        """The tracker, to be closed in the end."""
        self._stack.push_async_callback(tracker.aclose)
        return tracker

    def fail(self, kind: str, **more: Any) -> Fault:
        """Arm a fault."""
        return self.simulator.inject(Fault(kind, **more))

    def shortened(self, path: str) -> str:
        """A path without what all of them begin with."""
        return path

    def sent(self) -> list[str]:
        """The requests since the last look, as `METHOD /path status`, and forget them."""
        return [f"{r.method} {self.shortened(r.path)} {r.status}" for r in self.recorded()]

    def recorded(self) -> list[Recorded]:
        """The requests since the last look, whole."""
        found = list(self.simulator.requests)
        self.simulator.forget_requests()
        return found
