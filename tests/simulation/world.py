"""The world of one seed: machines with daemons on them, a Redis, a tracker, and the promises they are held to.

The daemons are the real ones, from `Daemon.serve` down; so is the handle of a guard. What they stand on is not: the
event loop, the clocks, Redis, the network, the tracker and the guards' processes are simulated, and everything that
chance decides is drawn from the seed. So the same seed tells the same story, to the letter.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast
from unittest.mock import patch

from agentsmith.daemon import build as build_module
from agentsmith.daemon import process as daemon_module
from agentsmith.daemon import services as services_module
from agentsmith.daemon.build import Role
from agentsmith.daemon.open import Opened, lease_times
from agentsmith.daemon.process import Daemon
from agentsmith.domain.lifecycle import Owner as EdgeOwner
from agentsmith.domain.tracker import Move, Tracker
from agentsmith.guard import client as guard_client
from agentsmith.guard.spawn import GuardProcess, Listener
from agentsmith.intake import signals as intake_module
from agentsmith.intake.signals import Intake
from agentsmith.pipelines.machine import Machine
from agentsmith.running import release_lease
from agentsmith.running.consumer import Consumer
from agentsmith.store import Store
from agentsmith.store import store as store_module
from agentsmith.trackers.http.ledger import current_purpose
from tests.simulation.client import SimulatedRedis
from tests.simulation.faults import Fault
from tests.simulation.guard import SimulatedGuard, SimulatedProcess
from tests.simulation.hermetic import EPOCH, hermetic
from tests.simulation.loop import OWNER, Clock, SimulatedLoop
from tests.simulation.network import Network, ProcessWire
from tests.simulation.processes import Host, Process
from tests.simulation.promises import Promises, left_over
from tests.simulation.refusals import Refusals
from tests.simulation.server import SimulatedServer
from tests.simulation.setting import IDLE_WAIT, NAMESPACE, TOPOLOGIES, configuration
from tests.simulation.trace import Trace
from tests.simulation.tracker import NAME, Board, BoardTracker, Flavour, Write
from tests.simulation.weather import Weather
from tests.simulation.workers import Child, Floor

_URL: Final = "redis://simulated"
_PURPOSES: Final = {"claim": EdgeOwner.CLAIM, "run": EdgeOwner.RUN, "housekeeping": EdgeOwner.HOUSEKEEPING}


@dataclass(slots=True)
class Agent:
    """One daemon on its machine, in its present incarnation."""

    name: str
    roles: frozenset[Role]
    process: Process
    daemon: Daemon
    store: Store | None = None
    leaving: bool = False


class LiveBoard(Board):
    """A board whose late requests land by themselves, and whose people's labels are looked after at every write."""

    world: SimulatedWorld

    def write(self, write: Write) -> bool:
        """Carry a request out, and see that only our labels changed by ours (P3)."""
        done = super().write(write)
        self.world.promises.check()
        self.world.changed(write)
        return done

    def delay(self, write: Write) -> None:
        """It lands when it lands."""
        self.world.later(0.3 + 12 * self.world.chance.random() ** 2, self._land, write)
        self.late.append(write)

    def _land(self, write: Write) -> None:
        self.late.remove(write)
        self.say(f"a late request of {write.by} lands")
        if self.write(write):
            self.world.promises.lands(write)


class SimulatedWorld:
    """Everything in one seed."""

    def __init__(self, seed: int, folder: Path, *, whole_trace: bool) -> None:
        self.chance = random.Random(seed)
        self.config = configuration(folder)
        self.clock = Clock()
        self.loop = SimulatedLoop(self.clock)  # type: ignore[abstract]  # the rest is never asked for
        self.trace = Trace(self.clock, whole=whole_trace)
        self.weather = Weather(self.chance, self._strike)
        self.redis_ahead = 0.0
        self.server = SimulatedServer(lambda: round((EPOCH + self.clock.now + self.redis_ahead) * 1e6))
        self.network = Network(self.loop, self.clock, self.chance, self.server)
        self.network.refusal = Refusals(seed, lambda: self.clock.now, lambda: self.weather.rough, self._refuses)
        self._moments = itertools.count(1)
        self.board = LiveBoard(self.config.labels, self.trace.say, flavour=self.chance.choice(list(Flavour)))
        self.board.world = self
        self.floor = Floor(self.trace.say, self._child_starts)
        self.floor.asleep = lambda child: cast(SimulatedGuard, child.guard).process.host.suspended
        self.promises = Promises(
            self.board,
            self.floor,
            times=lease_times(self.config),
            max_attempts=self.config.consumer.max_attempts,
            now=lambda: self.clock.now,
            moment=lambda: next(self._moments),
            say=self.trace.say,
        )
        self.network.listener = self.promises
        if whole_trace:
            self.network.tell = self.trace.redis
        self.agents: dict[str, Agent] = {}
        self.guards: list[SimulatedGuard] = []
        self.changed: Callable[[Write], None] = lambda _: None
        """Told of every write on the board; people's webhooks come from here."""
        self.person: Callable[[Fault, str], None] = lambda *_: None
        """Acts on a ticket in just this moment."""
        self.topology = self.chance.choice(TOPOLOGIES)
        self._hands = self.chance.choice((1, 2))
        self._incarnations = itertools.count(1)
        self._outside = Process("outside", Host("outside"), self.loop, _NoFaults(), self.network)

    # ---- the machinery

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Let the code under test live in this world."""

        def connect(_: str) -> SimulatedRedis:
            return SimulatedRedis(ProcessWire(cast(Process, OWNER.get()), self.network))

        def ahead() -> float:
            owner = cast(Process | None, OWNER.get())
            return owner.host.ahead if owner is not None else 0.0

        def host() -> str:
            owner = cast(Process | None, OWNER.get())
            return owner.host.name if owner is not None else "outside"

        with (
            hermetic(self.clock, self.chance, ahead, host),
            patch.object(store_module, "connect", connect),
            patch.object(daemon_module, "Consumer", _patient_consumer),
            patch.object(daemon_module, "Intake", partial(Intake, hands=self._hands)),
            patch.object(services_module, "Retention", _NoRetention),
            patch.object(intake_module, "_LONGEST_WAIT", IDLE_WAIT),
            patch.object(build_module, "try_out", _well),
            patch.object(Machine, "broke", self._broke),
            patch.object(guard_client, "_processes", tuple),
            patch.object(GuardProcess, "spawn", self._spawn_guard),
            self.loop.running(),
        ):
            yield

    def _broke(self, why: str) -> None:
        """These machines are never ill, but for a guard that is killed as it starts: else it is a mistake of ours."""
        if "did not start" not in why:
            self.promises.broken("P2", f"something of ours broke: {why}")

    def later(self, delay: float, what: Callable[..., object], *args: Any) -> None:
        """Let something happen that nobody can keep from happening."""
        self.loop.outside(delay, what, *args)

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self.chance.random()

    # ---- daemons

    def start(self, name: str) -> None:
        """Start a daemon under this name; an earlier one of that name is dead."""
        roles, number = self.topology[name], next(self._incarnations)
        process = Process(name, Host(f"host-{name}-{number}"), self.loop, self.weather, self.network)
        process.on_death.append(partial(self.network.closed, process))
        daemon = Daemon(self.config, roles)
        daemon.process = replace(daemon.process, name=f"{name}-{number}", host=process.host.name, pid=number)
        agent = self.agents[name] = Agent(name, roles, process, daemon)
        self.trace.say(f"starts as {name}-{number}", name)
        task = process.spawn(self._live(agent))
        task.add_done_callback(partial(self._over, agent))

    async def _live(self, agent: Agent) -> None:
        agent.store = Store(_URL, times=lease_times(self.config), namespace=NAMESPACE)
        tracker = cast(
            Tracker, BoardTracker(self.board, agent.process, self, lambda fault, key: self.person(fault, key))
        )
        opened = Opened(agent.store, _URL, None, "simulated")
        await agent.daemon.serve(agent.daemon.node(opened, {NAME: tracker}))

    def _over(self, agent: Agent, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.promises.broken("P2", f"{agent.name} died of {_innermost(error)!r}")
        elif not agent.leaving:
            self.promises.broken("P2", f"{agent.name} ended, and nobody had asked for it")
        self.kill(agent)

    def kill(self, agent: Agent, *, silently: bool = False) -> None:
        """The daemon is no more; somebody starts another one soon."""
        if not agent.process.alive:
            return
        self.trace.say("is lost with its machine" if silently else "dies", agent.name)
        if silently:
            agent.process.host.lose()
        else:
            agent.process.kill()
        self.later(self.between(5, 20) if silently else self.between(0.3, 6), self.revive, agent)

    def revive(self, agent: Agent) -> None:
        """Start another one in its place, unless somebody did already."""
        if self.agents[agent.name] is agent:
            self.start(agent.name)

    def pause(self, process: Process, seconds: float) -> None:
        """SIGSTOP, and SIGCONT later."""
        self.trace.say(f"is stopped for {seconds:.1f} s", process.name)
        process.stop()
        self.later(seconds, self.go_on, process)

    def go_on(self, process: Process) -> None:
        if process.alive and process.stopped:
            self.trace.say("goes on", process.name)
            process.go_on()

    def drain(self, agent: Agent) -> None:
        """SIGTERM."""
        if not agent.leaving:
            agent.leaving = True
            self.trace.say("is asked to end", agent.name)
            agent.process.call(0, agent.daemon.stop)

    def _strike(self, process: Process, fault: Fault) -> None:
        """Something befalls a process in the middle of what it does."""
        self.trace.say(f"*** {fault}", process.name)
        if fault is Fault.CRASH:
            agent = next((agent for agent in self.agents.values() if agent.process is process), None)
            if agent is not None:
                self.kill(agent)
            else:
                process.kill()
        elif fault is Fault.PAUSE:
            self.pause(process, self.chance.choice((0.2, 1.0, 7.0, 22.0, 30.0)))

    def _refuses(self, what: str) -> None:
        self.weather.counts["Redis refuses"] += 1
        self.trace.say(what)

    # ---- guards and children

    async def _spawn_guard(self, listener: Listener, _cgroup: object) -> SimulatedProcess:
        consumer = cast(Process, OWNER.get())
        await consumer.checkpoint("guard.open")
        await asyncio.sleep(self.between(0.02, 0.1))
        number = len(self.guards) + 1
        process = Process(f"guard-{number}", consumer.host, self.loop, _NoFaults(), self.network)
        process.is_guard = True
        guard = SimulatedGuard(
            process, consumer, listener, self.floor, self.chance, self._release, long_work=self.weather.silent
        )
        self.guards.append(guard)
        return SimulatedProcess(guard, pid=2**31 - number)

    async def _release(self, document: dict[str, Any], process: Process) -> None:
        self.trace.say(f"releases the lease of {document['ticket']}", process.name)
        await release_lease.release(document)

    def _child_starts(self, child: Child) -> None:
        self.promises.child_starts(child)

    # ---- the tracker's watcher

    async def begins(self, actor: Process, what: str, key: str, fence: int | None) -> None:
        """A write begins: see who holds the ticket's lock in this moment."""
        lock = f"{NAMESPACE}:claim-lock:model:{self.board.pages[key].id}".encode()
        holder = self.server.keyspace.live(lock)
        self.trace.say(f"begins {what} on {key}", actor.name)
        self.promises.begins(
            actor, _role(), what, key, fence, lock_holder=holder.decode() if holder is not None else None
        )

    def moves(self, actor: Process, key: str, move: Move) -> None:
        self.promises.moves(actor, _role(), key, move)

    def lands(self, write: Write) -> None:
        self.promises.lands(write)

    # ---- looking at it

    def left(self) -> list[str]:
        """What is in Redis that should not be there once everything is settled."""
        keys = [key.decode().removeprefix(f"{NAMESPACE}:") for key in self.server.keyspace.do_keys(b"*")]
        return [f"{name} is left in Redis" for name in left_over(keys)]

    def store_outside(self) -> Store:
        """A store for people at a shell, who have a connection of their own."""
        return self._outside._context.run(Store, _URL, times=lease_times(self.config), namespace=NAMESPACE)

    def as_person(self, work: Any) -> None:
        """Do something at a shell."""
        self._outside.spawn(work)


class _NoFaults:
    """Nothing ever happens."""

    def at_step(self, process: Process) -> None:
        pass

    def at_point(self, process: Process, point: str) -> None:
        pass


async def _well(*_: object, **__: object) -> None:
    """A check that every machine here passes."""


class _NoRetention:
    """The disk is the real one, and its dates are from another time."""

    def __init__(self, *_: object) -> None:
        pass

    async def serve(self) -> None:
        """Remove nothing, for ever."""
        await asyncio.Event().wait()


def _patient_consumer(**options: Any) -> Consumer:
    return Consumer(**{**options, "take_wait": IDLE_WAIT})


def _role() -> EdgeOwner:
    return _PURPOSES.get(current_purpose(), EdgeOwner.PERSON)


def _innermost(error: BaseException) -> BaseException:
    return _innermost(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
