"""The guard's program in the simulation: it speaks the real one's protocol with the real handle, in virtual time.

Follows `agentsmith/guard/program.py`: the first reason to leave counts, children get TERM and after the grace KILL,
what ended is reported before the farewell is said, and the farewell is said only if the consumer cannot settle.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Coroutine
from typing import Any, Final

from agentsmith.domain.ticket import TicketId
from agentsmith.guard import program
from agentsmith.guard.spawn import Ear
from agentsmith.store import RunLease
from tests.model.workers import Child, Floor
from tests.simulation.loop import Call
from tests.simulation.processes import Process
from tests.simulation.setting import LONGEST_WORK

_PIPE: Final = 0.0002
"""How long a line takes through a pipe; always the same, so that lines keep their order."""
_LEARNS_OF_DEATH: Final = 0.01
_KILLED: Final = 137

Farewell = Callable[[dict[str, Any], Process], Coroutine[Any, Any, None]]
"""What the guard runs in the end: told what, as which process."""


class Work:
    """What a child will do if it is let: drawn once per child."""

    def __init__(self, chance: random.Random, *, long: bool) -> None:
        self.code = chance.choice((0, 0, 0, 0, 0, 1, 75, 79))
        self.lasts = LONGEST_WORK * (0.7 + 0.3 * chance.random())
        if not long:
            self.lasts = chance.choice((0.05, 1.0, 5.0, 30.0)) * (0.5 + chance.random())
        self.obeys_term = chance.random() < 0.7
        self.dies_within = chance.random()


class SimulatedGuard:
    """A guard and its children on a machine; `transport` is the consumer's end of it."""

    def __init__(
        self,
        process: Process,
        consumer: Process,
        ear: Ear,
        floor: Floor,
        chance: random.Random,
        farewell: Farewell,
        *,
        long_work: bool,
    ) -> None:
        self.process, self.consumer = process, consumer
        self.trusted_until = float("inf")
        self.lease: RunLease | None = None
        self.returncode: int | None = None
        self.child: Child | None = None
        self.over = False
        self._ear, self._floor, self._random, self._farewell = ear, floor, chance, farewell
        self._grace, self._long_work = 0.0, long_work
        self._last_words: dict[str, Any] | None = None
        self._leaving: tuple[str, int, bool] | None = None
        self._stopped: str | None = None
        self._timed_out = False
        self._started = 0.0
        self._unread = b""
        self._watch: Call | None = None
        self._pressing = False
        consumer.on_death.append(self._consumer_died)
        process.on_death.append(self._killed)

    def __str__(self) -> str:
        return self.process.name

    @property
    def actor(self) -> Process:
        """Whose run it is."""
        return self.consumer

    # ---- orders

    def hear(self, data: bytes) -> None:
        """The consumer wrote something into our pipe."""
        self.process.call(_PIPE, self._read, data)

    def _read(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            if not self.over:
                self._obey(json.loads(line))

    def _obey(self, order: dict[str, Any]) -> None:
        match order["op"]:
            case "hello":
                self._grace, self._last_words = order["grace"], order["farewell"]
                if self._last_words:
                    told = json.loads(self._last_words["input"])
                    self.lease = RunLease.parse(TicketId(told["ticket"]), told["lease"])
                self._trust(order["trusted_until"])
                self._send("ready")
            case "start" if self._leaving is None:
                self._start(order)
            case "trust":
                self._trust(order["until"])
            case "stop" if self.child is not None:
                self._stopped = self._stopped or order["reason"]
                self._press()
            case "end":
                self._leave(program.ENDED)

    def _trust(self, until: float) -> None:
        self.trusted_until = until
        if self._watch is not None:
            self._watch.cancel()
        self._watch = self.process.call(max(0.0, until - self._now) + 0.001, self._judge)

    @property
    def _now(self) -> float:
        return self.process.loop.clock.now

    def _judge(self) -> None:
        if self._now > self.trusted_until:
            self._leave(program.DISTRUSTED)

    # ---- children

    def _start(self, order: dict[str, Any]) -> None:
        assert self.lease is not None
        env, work = order["env"], Work(self._random, long=self._long_work)
        done: asyncio.Future[int] = self.process.loop.create_future()
        run, title = env["AGENTSMITH_RUN_ID"], env["AGENTSMITH_TICKET_TITLE"]
        child = self.child = Child(self.lease.ticket, run, self.lease.fence, self, done, title)
        self._started, self._stopped, self._timed_out, self._pressing = self._now, None, False, False
        self._work = work
        self._floor.starts(child)
        self._send("started", pid=1)
        timeout = order["timeout"]
        if timeout is not None and timeout < work.lasts:
            self.process.call(timeout, self._times_out, child)
        else:
            self.process.call(work.lasts, self._ends, child, work.code)

    def _times_out(self, child: Child) -> None:
        if child.alive:
            self._timed_out = True
            self._press()

    def _press(self) -> None:
        """TERM, then KILL after the grace."""
        if self.child is None or self._pressing:
            return
        self._pressing = True
        wait = self._work.dies_within * min(0.2, self._grace) if self._work.obeys_term else self._grace
        if self._leaving is program.DISTRUSTED:
            # The grace counts from the end of the trust: a machine that slept over it has none left to give.
            wait = min(wait, max(0.0, self.trusted_until + self._grace - self._now))
        self.process.call(wait, self._ends, self.child, None)

    def _ends(self, child: Child, code: int | None) -> None:
        if not child.alive:
            return
        child.alive = False
        self.child = None
        self._floor.say(f"{child} ends: {self._stopped or ('timed out' if self._timed_out else f'exit code {code}')}")
        self._send(
            "exited", code=code, signal=None if code is not None else 15, timed_out=self._timed_out,
            stopped=self._stopped, tail="", truncated=False, duration=self._now - self._started,
        )  # fmt: skip
        if self._leaving is not None:
            self._go()

    # ---- leaving

    def _leave(self, why: tuple[str, int, bool]) -> None:
        if self.over or self._leaving is not None:
            return
        self._leaving = why
        if self.child is None:
            self._go()
        else:
            self._stopped = self._stopped or why[0]
            self._press()

    def _go(self) -> None:
        assert self._leaving is not None
        reason, code, farewell = self._leaving
        if self.over:
            return
        self.over = True
        if not (farewell and self._last_words):
            self._exit(code)
            return
        self._send("farewell", reason=reason)
        task = self.process.spawn(self._farewell(json.loads(self._last_words["input"]), self.process))
        task.add_done_callback(lambda _: self._exit(code))

    def _exit(self, code: int) -> None:
        self.returncode = code
        self._tell(self._ear.fell_silent)
        self._tell(self._ear.keeper_ended)
        self.process.on_death.clear()
        self.process.kill()

    def _consumer_died(self) -> None:
        self.process.call(_LEARNS_OF_DEATH, self._leave, program.ORPHANED)

    def _killed(self) -> None:
        """Kill -9 of the guard: its keeper ends what is left, and there is no farewell."""
        self.over = True
        if self.child is not None:
            self.child.alive = False
            self._floor.say(f"{self.child} ends: its guard was killed")
        self.returncode = _KILLED
        self._tell(self._ear.fell_silent)
        self._tell(self._ear.keeper_ended)

    # ---- events

    def _send(self, event: str, **fields: object) -> None:
        line = json.dumps({"event": event, **fields}).encode() + b"\n"
        self._tell(self._ear.heard, line)

    def _tell(self, callback: Callable[..., object], *args: object) -> None:
        """Reach the consumer, if it lives by then; as its own callback, for it may be stopped meanwhile."""
        self.consumer.call(_PIPE, callback, *args)


class SimulatedPost:
    """What the handle holds of a guard's process."""

    def __init__(self, guard: SimulatedGuard, pid: int) -> None:
        self._guard, self.pid = guard, pid

    @property
    def returncode(self) -> int | None:
        return self._guard.returncode

    def order(self, line: bytes) -> None:
        """An order."""
        self._guard.hear(line)

    def close(self) -> None:
        """Nothing is left open."""
