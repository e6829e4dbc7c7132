"""The world of one example: processes, a tracker, a real Redis, and the promises that all of it is held against.

Every rule of the machine ends in `quiet`: nothing goes on any more but waiting for the model's clock, for a worker,
or for an actor to be resumed. Calls to Redis go out one at a time in the order in which they were made, so the same
rules give the same story.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Final, cast
from unittest.mock import patch

from redis.asyncio import Redis

from agentsmith.config import Config
from agentsmith.daemon.build import Parts, Role, assemble, run_context
from agentsmith.daemon.open import Opened
from agentsmith.daemon.presence import leave, report
from agentsmith.daemon.process import Daemon
from agentsmith.domain.lifecycle import Owner, Status
from agentsmith.domain.signal import Signal, SignalKind
from agentsmith.domain.tracker import Move, Tracker
from agentsmith.housekeeping.leader import Housekeeping, Intervals
from agentsmith.intake.poller import Poller
from agentsmith.intake.signals import Intake
from agentsmith.pipelines.machine import Machine
from agentsmith.running.consumer import Consumer
from agentsmith.store import AWAY, Store
from agentsmith.store import store as store_module
from tests.model.actors import Actor, Fault, MortalRedis, task_factory
from tests.model.clockwork import AGE, FLUSH, STEP, TIMES, Clock, ModelLoop, going_by
from tests.model.promises import Promises, Story, left_over
from tests.model.tracker import NAME, TRIGGER, Board, BoardTracker, Page, Write
from tests.model.workers import Child, Floor

INTAKES: Final = ("i1", "i2")
CONSUMERS: Final = ("c1", "c2")
KEEPERS: Final = ("h1", "h2")
EVERYBODY: Final = (*INTAKES, *CONSUMERS, *KEEPERS)
_OWNERS: Final = {"i": Owner.CLAIM, "c": Owner.RUN, "h": Owner.HOUSEKEEPING}
_ROLES: Final = {"i": Role.RECEIVER, "c": Role.CONSUMER, "h": Role.HOUSEKEEPING}
_NEVER: Final = 1e9
_MAX_ROUNDS: Final = 60


@dataclass(frozen=True, slots=True)
class Bench:
    """What the examples of one test share."""

    url: str
    namespace: str
    config: Config


class Line:
    """The one connection to Redis that everybody shares. Calls queue up; one that was sent is always carried out."""

    def __init__(self, url: str) -> None:
        self.redis = Redis.from_url(url, decode_responses=True, encoding_errors="surrogateescape", driver_info=None)
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._silent = asyncio.Event()
        self._silent.set()

    async def send(self, call: Callable[[Redis], Any]) -> Any:
        """Carry the call out, also if whoever made it is gone by then."""
        self._waiting += 1
        self._silent.clear()
        # Not by create_task, which would make it a task of the caller's process and end it with that.
        return await asyncio.shield(asyncio.Task(self._carry_out(call), loop=asyncio.get_running_loop()))

    async def _carry_out(self, call: Callable[[Redis], Any]) -> Any:
        try:
            async with self._turn:
                return await call(self.redis)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._silent.set()

    @property
    def silent(self) -> bool:
        return not self._waiting

    async def until_silent(self) -> None:
        await self._silent.wait()


class _Direct:
    """A client for the model itself: no checkpoint, nobody to hold responsible."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def __getattr__(self, command: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        return lambda *args, **options: self._line.send(lambda redis: getattr(redis, command)(*args, **options))


@dataclass(slots=True)
class Agent:
    """One process with its role."""

    actor: Actor
    store: Store
    tracker: Tracker
    parts: Parts
    consumer: Consumer | None = None
    keeper: Housekeeping | None = None
    daemon: Daemon | None = None


class World:
    """Everything in one example."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.clock = Clock()
        self.journal: list[str] = []
        self.flushes = 0
        self._moments = itertools.count(1)
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(going_by(self.clock))
        self._runner = asyncio.Runner(loop_factory=lambda: ModelLoop(self.clock))
        self.loop = cast(ModelLoop, self._runner.get_loop())
        self.loop.set_task_factory(task_factory)
        self.board = Board(bench.config.labels, self.say)
        self.floor = Floor(self.say, self._child_starts)
        self.promises = Promises(
            self.board,
            self.floor,
            times=TIMES,
            max_attempts=bench.config.consumer.max_attempts,
            now=lambda: self.clock.now,
            moment=self.moment,
            say=self.say,
        )
        self.agents: dict[str, Agent] = {}
        self.line: Line
        self.store: Store
        self.do(self._open())

    # ---- the machinery

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do something and wait until nothing goes on any more."""

        async def until_quiet() -> Any:
            answer = await work
            await self.quiet()
            return answer

        return self.loop.run_until_complete(until_quiet())

    async def quiet(self) -> None:
        """Return once everybody waits for something that only the model can bring about."""
        for _ in range(1_000_000):
            await asyncio.sleep(0)
            if not self.line.silent:
                await self.line.until_silent()
            elif not self.loop.busy:
                return
        raise AssertionError("the world does not come to rest")

    def say(self, what: str) -> None:
        """Add to the trace."""
        self.journal.append(f"{self.clock.now - 100_000:6.0f}  {what}")

    def moment(self) -> int:
        """A number that rises: tells what came first within one second of the model."""
        return next(self._moments)

    async def _open(self) -> None:
        self.line = Line(self._bench.url)
        await self.line.send(lambda redis: redis.eval(FLUSH, 0, self._bench.namespace))
        self.store = self._store(_Direct(self.line))
        # The settling period of a new server is over; what a FLUSHALL begins is the machine's to begin.
        await self.store.presence.settling()
        await self.store.redis.delete(self.store.keys.settling)
        for name in EVERYBODY:
            await self.start(name)

    def close(self) -> None:
        """End everybody and empty Redis."""

        async def shut() -> None:
            for agent in self.agents.values():
                agent.actor.kill()
            await self.quiet()
            await self.line.send(lambda redis: redis.eval(FLUSH, 0, self._bench.namespace))
            await self.line.redis.aclose()

        try:
            self.loop.run_until_complete(shut())
        finally:
            self._runner.close()
            self._stack.close()

    def _store(self, redis: object) -> Store:
        with patch.object(store_module, "connect", lambda _: redis):
            return Store("redis://model", times=TIMES, namespace=self._bench.namespace)

    # ---- processes

    async def start(self, name: str) -> None:
        """Start a process under this name; an earlier one of that name is dead."""
        config, actor = self._bench.config, Actor(name, self.say)
        store = self._store(MortalRedis(actor, self.line, self.promises))
        tracker = cast(Tracker, BoardTracker(self.board, actor, self, self.person))
        trackers = {NAME: tracker}
        parts = assemble(config, store, trackers)
        daemon = Daemon(config, frozenset({_ROLES[name[0]]}))
        agent = self.agents[name] = Agent(actor, store, tracker, parts, daemon=daemon)
        if name in CONSUMERS:
            context = run_context(config, Opened(store, "redis://model", None, "model"), trackers, parts)
            context = replace(context, open_guard=self.floor.open_for(actor), machine=Machine())
            agent.consumer = Consumer(
                context, daemon.process, slots=2, max_deliveries=config.consumer.max_deliveries, take_wait=_NEVER
            )
            actor.start(agent.consumer.serve())
        elif name in INTAKES:
            actor.start(Intake(store, parts.looks, daemon.process, hands=1).serve())
        else:
            agent.keeper = Housekeeping(store, trackers, parts.looks, Intervals(5.0, 60.0, 600.0))
        if name not in KEEPERS:
            actor.start(report(config, store, lambda: daemon.process, agent.consumer))

    def actor(self, name: str) -> Actor:
        return self.agents[name].actor

    async def kill(self, name: str, *, host: bool) -> None:
        """Kill -9; with the host its guards go too, and nobody releases the lease."""
        actor = self.actor(name)
        actor.releases = not host
        actor.kill()
        if host:
            self.floor.act(self.clock.now)

    async def let_take(self, name: str) -> None:
        """Let a waiting consumer or intake take once."""
        self.actor(name).may_take.set()
        await self.quiet()
        self.actor(name).may_take.clear()

    async def keep_house(self, name: str, work: Callable[[Housekeeping], Awaitable[object]]) -> None:
        """Have a housekeeper make one pass."""
        agent = self.agents[name]
        assert agent.keeper is not None
        keeper = agent.keeper

        async def one_pass() -> None:
            # Like the leader's loop: Redis being away ends the pass, not the process.
            with contextlib.suppress(*AWAY):
                await work(keeper)

        agent.actor.start(one_pass())
        await self.quiet()

    async def poll(self, name: str) -> None:
        """Have a process poll the tracker once."""
        agent = self.agents[name]
        poller = Poller(agent.store, agent.tracker, agent.parts.triggers, 60.0)

        async def one_poll() -> None:
            with contextlib.suppress(Exception):
                await poller.poll()

        agent.actor.start(one_poll())
        await self.quiet()

    async def drain(self, name: str) -> None:
        """SIGTERM with no patience: runs are given back, then the process ends."""
        agent = self.agents[name]
        consumer, daemon = agent.consumer, agent.daemon
        assert consumer is not None
        assert daemon is not None

        async def depart() -> None:
            await consumer.drain(timeout=0)
            await leave(agent.store, daemon.process)
            agent.actor.kill()

        self.say(f"{name} is drained")
        for child in self.floor.of(agent.actor):
            self.promises.story(child.ticket).starts -= 1  # given back, so not counted
        agent.actor.start(depart())
        await self.let_take(name)  # a drain waits for the take that is blocked

    # ---- time

    async def step(self) -> None:
        """Eight seconds pass for everybody."""
        await self.line.send(lambda redis: redis.eval(AGE, 0, self._bench.namespace, round(STEP * 1000)))
        waiting = list(self.floor.releases)
        self.clock.now += STEP
        # Guards look at the clock all the time: they are quicker than anybody who only now wakes up.
        self.floor.act(self.clock.now)
        await self.quiet()
        for guard in waiting:
            await self.release(guard)

    async def release(self, guard: Any) -> None:
        """A guard gets through to Redis at last."""
        if guard in self.floor.releases:
            self.floor.releases.remove(guard)
            said = await self.store.runs.release_dead(guard.lease, lock_key=guard.lock_key)
            self.say(f"release by the guard under {guard.actor} for {guard.lease.ticket}: {said}")
            await self.quiet()

    async def flush(self) -> None:
        """FLUSHALL."""
        self.say("FLUSHALL")
        self.flushes += 1
        await self.line.send(lambda redis: redis.eval(FLUSH, 0, self._bench.namespace))
        self.promises.forgot()

    # ---- people

    @property
    def stories(self) -> dict[str, Story]:
        return self.promises.stories

    @property
    def violations(self) -> list[str]:
        return self.promises.violations

    def open_ticket(self, *, triggered: bool) -> str:
        key = str(len(self.stories) + 1)
        labels = {TRIGGER} if triggered else set()
        self.board.pages[key] = Page(key, set(labels))
        self.promises.opened(key, labels)
        self.say(f"a person opens {key}{' with the trigger' if triggered else ''}")
        return key

    def person(self, what: Fault, key: str) -> None:
        """A person acts in just this moment."""
        if what is Fault.TAG:
            self.tag(key, "urgent")
        elif what is Fault.UNTRIGGER:
            self.untag(key, TRIGGER)
        else:
            self.unlabel(key)

    def tag(self, key: str, label: str) -> None:
        """A person adds a label that is not ours."""
        self.board.by_person(key, add=label)
        self.promises.tagged(key, label)

    def untag(self, key: str, label: str) -> None:
        """A person removes a label that is not ours."""
        self.board.by_person(key, remove=frozenset({label}))
        self.promises.untagged(key, label)

    def unlabel(self, key: str) -> None:
        """A person removes whatever lifecycle label there is."""
        page = self.board.pages[key]
        self.promises.unlabelled(key)
        self.board.by_person(key, remove=self.board.labels.lifecycle(page.labels))

    def ask_for(self, key: str) -> None:
        """A person does what it takes to have the ticket worked on."""
        page, statuses = self.board.pages[key], self.board.statuses(key)
        if not page.open:
            self.set_open(key, open=True)
        if TRIGGER not in page.labels:
            self.tag(key, TRIGGER)
        if statuses & {Status.DONE, Status.FAILED, Status.WAITING}:
            self.unlabel(key)

    def set_open(self, key: str, *, open: bool) -> None:
        self.board.set_open(key, open=open)
        self.promises.reconsidered(key)

    def signal(self, key: str, kind: SignalKind = SignalKind.LOOK) -> Signal:
        return Signal(NAME, key, self.board.pages[key].id, kind, cause="webhook", by="mona")

    async def retry(self, key: str) -> None:
        """A person says retry."""
        self.say(f"a person retries {key}")
        self.stories[key].retries += 1
        await self.store.signals.send([self.signal(key, SignalKind.RETRY)])

    async def land(self) -> None:
        """The oldest request that is still on the wire gets to the tracker."""
        write = self.board.late.pop(0)
        self.say("a late request lands")
        if self.board.write(write):
            self.lands(write)

    # ---- what must hold (Watcher)

    def _child_starts(self, child: Child) -> None:
        self.promises.child_starts(child)

    async def begins(self, actor: Actor, what: str, key: str, fence: int | None) -> None:
        """A write begins: see who holds the ticket's lock in this moment."""
        lock = self.store.keys.claim_lock("model", self.board.pages[key].id)
        holder = await self.line.send(lambda redis: redis.get(lock))
        self.promises.begins(actor, _OWNERS[actor.name[0]], what, key, fence, lock_holder=holder)

    def moves(self, actor: Actor, key: str, move: Move) -> None:
        self.promises.moves(actor, _OWNERS[actor.name[0]], key, move)

    def lands(self, write: Write) -> None:
        self.promises.lands(write)

    def check(self) -> None:
        """What must hold after every rule."""
        self.promises.check()

    # ---- the end

    async def converge(self) -> None:
        """Faults stop; everybody does their work; within a bounded time every label tells the truth (P2, P5)."""
        self.say("faults stop")
        self.board.outage = 0
        for name, agent in self.agents.items():
            agent.actor.arm, agent.actor.cut_off = None, False
            agent.actor.resume()
            await self.quiet()
            if not agent.actor.alive:
                await self.start(name)
        while self.board.late:
            await self.land()
        self.floor.act(self.clock.now)
        await self.quiet()
        for guard in list(self.floor.releases):
            await self.release(guard)
        wrong: list[str] = []
        for _ in range(_MAX_ROUNDS):
            await self.step()
            await self._round()
            self.check()
            wrong = [*self.promises.wrong_labels(), *await self._left()]
            if self.violations or not wrong:
                return
        for what in wrong:
            self.promises.broken("P2/P5", what)

    async def _round(self) -> None:
        await self.poll("i1")
        for name in INTAKES:
            for _ in range(3 * len(self.stories)):
                await self.let_take(name)
        for name in CONSUMERS:
            for _ in self.stories:
                await self.let_take(name)
        for child in self.floor.children:
            if child.alive:
                child.guard.finish(0)
        await self.quiet()
        await self.keep_house("h1", lambda keeper: keeper.sweep.run_once())
        await self.keep_house("h1", lambda keeper: keeper.stuck[Status.IN_PROGRESS].run_once())
        # As the reconciler does: a consumer that died right after a flush is known by its processing list alone.
        await self.keep_house("h1", lambda _: self.agents["h1"].store.presence.find_owners())
        await self.keep_house("h1", lambda keeper: keeper.stuck[Status.ENQUEUED].run_once())

    async def _left(self) -> list[str]:
        namespace = f"{self._bench.namespace}:"
        found = await self.line.send(lambda redis: redis.keys(f"{namespace}*"))
        return [f"{name} is left in Redis" for name in left_over([key.removeprefix(namespace) for key in found])]
