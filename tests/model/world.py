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
from agentsmith.consumer import Consumer
from agentsmith.daemon import Daemon, Parts, Role, assemble, run_context
from agentsmith.domain.lifecycle import EDGES, Owner, Status
from agentsmith.domain.signal import Signal, SignalKind
from agentsmith.domain.ticket import TicketId
from agentsmith.domain.tracker import Move, Tracker
from agentsmith.housekeeping import Housekeeping, Intervals
from agentsmith.intake import Intake
from agentsmith.opening import Opened
from agentsmith.poller import Poller
from agentsmith.store import AWAY, Store
from agentsmith.store import store as store_module
from tests.model.actors import Actor, Fault, MortalRedis, task_factory
from tests.model.clockwork import AGE, FLUSH, STEP, TIMES, Clock, ModelLoop, going_by
from tests.model.tracker import NAME, TRIGGER, Board, BoardTracker, Page, Write
from tests.model.workers import Child, Floor

INTAKES: Final = ("i1", "i2")
CONSUMERS: Final = ("c1", "c2")
KEEPERS: Final = ("h1", "h2")
EVERYBODY: Final = (*INTAKES, *CONSUMERS, *KEEPERS)
_ROLES: Final = {"i": Role.RECEIVER, "c": Role.CONSUMER, "h": Role.HOUSEKEEPING}
_NEVER: Final = 1e9
_MAX_ROUNDS: Final = 60

_LEFT: Final = """
local n, left = ARGV[1], {}
for _, key in ipairs(redis.call('KEYS', n .. ':*')) do
  local name = string.sub(key, #n + 2)
  if name == 'queue:jobs' or name == 'queue:index' or name == 'running' or name == 'intents' or name == 'signals:inbox'
    or name == 'reservations' or string.match(name, '^intent:') or string.match(name, '^heartbeat:')
    or string.match(name, '^claim%-lock:') or string.match(name, '^queue:processing:')
    or string.match(name, '^signals:processing:') then left[#left + 1] = name end
end
return left
"""
"""What may not be left in Redis once everything is settled."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What the examples of one test share."""

    url: str
    namespace: str
    config: Config


class Line:
    """The one connection to Redis that everybody shares. Calls queue up; one that was sent is always carried out."""

    def __init__(self, url: str) -> None:
        self.redis = Redis.from_url(url, decode_responses=True, encoding_errors="surrogateescape")
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


@dataclass(slots=True)
class Story:
    """What is known of one ticket, to tell what may happen to it."""

    key: str
    foreign: set[str]
    final: Status | None = None
    """Published as the end, and no person has said otherwise since."""
    retries: int = 0
    """How often a person said retry and was not heard yet."""
    newest: int = 0
    """The newest fence that Redis gave out since it was last emptied."""
    unwanted_since: int | None = None
    starts: int = 0
    """Children started since the count last began afresh."""


class World:
    """Everything in one example."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.clock = Clock()
        self.journal: list[str] = []
        self.violations: list[str] = []
        self.stories: dict[str, Story] = {}
        self.flushes = 0
        self.flushed_at: int = -1
        self._flush_time = -_NEVER
        self._moments = itertools.count(1)
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(going_by(self.clock))
        self._runner = asyncio.Runner(loop_factory=lambda: ModelLoop(self.clock))
        self.loop = cast(ModelLoop, self._runner.get_loop())
        self.loop.set_task_factory(task_factory)
        self.board = Board(bench.config.labels, self.say)
        self.floor = Floor(self.say, self.moment, self._child_starts)
        self.agents: dict[str, Agent] = {}
        self._acquired: dict[str, int] = {}
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

    def broken(self, promise: str, what: str) -> None:
        """Note that a promise does not hold."""
        self.violations.append(f"{promise}: {what}")
        self.say(f"!!! {promise}: {what}")

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
        store = self._store(MortalRedis(actor, self.line, self))
        tracker = cast(Tracker, BoardTracker(self.board, actor, self, self.person))
        trackers = {NAME: tracker}
        parts = assemble(config, store, trackers)
        daemon = Daemon(config, frozenset({_ROLES[name[0]]}))
        agent = self.agents[name] = Agent(actor, store, tracker, parts, daemon=daemon)
        if name in CONSUMERS:
            context = run_context(config, Opened(store, "redis://model", None, "model"), trackers, parts)
            context = replace(context, open_guard=self.floor.open_for(actor))
            agent.consumer = Consumer(
                context, daemon._process, slots=2, max_deliveries=config.consumer.max_deliveries, take_wait=_NEVER
            )
            actor.start(agent.consumer.serve())
        elif name in INTAKES:
            actor.start(Intake(store, parts.claims, daemon._process, hands=1).serve())
        else:
            agent.keeper = Housekeeping(store, trackers, parts.recovery, Intervals(5.0, 60.0, 600.0))
        if name not in KEEPERS:
            actor.start(daemon._tick(store, agent.consumer))

    def actor(self, name: str) -> Actor:
        return self.agents[name].actor

    async def kill(self, name: str, *, host: bool) -> None:
        """Kill -9; with the host its guards go too, and nobody says farewell."""
        actor = self.actor(name)
        actor.farewells = not host
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
        poller = Poller(agent.store, {NAME: agent.tracker}, agent.parts.triggers, {NAME: 60.0})

        async def one_poll() -> None:
            with contextlib.suppress(Exception):
                await poller.poll(agent.tracker)

        agent.actor.start(one_poll())
        await self.quiet()

    async def drain(self, name: str) -> None:
        """SIGTERM with no patience: runs are given back, then the process ends."""
        agent = self.agents[name]
        consumer, daemon = agent.consumer, agent.daemon
        assert consumer is not None
        assert daemon is not None

        async def leave() -> None:
            await consumer.drain(timeout=0)
            await daemon._leave(agent.store)
            agent.actor.kill()

        self.say(f"{name} is drained")
        for child in self.floor.of(agent.actor):
            self._story(child.ticket).starts -= 1  # given back, so not counted
        agent.actor.start(leave())
        await self.quiet()

    # ---- time

    async def step(self) -> None:
        """Eight seconds pass for everybody."""
        await self.line.send(lambda redis: redis.eval(AGE, 0, self._bench.namespace, round(STEP * 1000)))
        waiting = list(self.floor.farewells)
        self.clock.now += STEP
        # Guards look at the clock all the time: they are quicker than anybody who only now wakes up.
        self.floor.act(self.clock.now)
        await self.quiet()
        for guard in waiting:
            await self.farewell(guard)

    async def farewell(self, guard: Any) -> None:
        """A guard gets through to Redis at last."""
        if guard in self.floor.farewells:
            self.floor.farewells.remove(guard)
            said = await self.store.runs.release_dead(guard.lease, lock_key=guard.lock_key)
            self.say(f"farewell of the guard under {guard.actor} for {guard.lease.ticket}: {said}")
            await self.quiet()

    async def flush(self) -> None:
        """FLUSHALL."""
        self.say("FLUSHALL")
        self.flushes += 1
        await self.line.send(lambda redis: redis.eval(FLUSH, 0, self._bench.namespace))
        self.flushed_at, self._flush_time = self.moment(), self.clock.now
        for story in self.stories.values():
            story.newest = 0
            story.starts = 0  # counted in Redis; the comment's memo may be a claim late

    # ---- people

    def open_ticket(self, *, triggered: bool) -> str:
        key = str(len(self.stories) + 1)
        labels = {TRIGGER} if triggered else set()
        self.board.pages[key] = Page(key, set(labels))
        self.stories[key] = Story(key, labels, unwanted_since=None if triggered else self.moment())
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
        self.stories[key].foreign.add(label)
        self.board.by_person(key, add=label)
        self._wanted(key)

    def untag(self, key: str, label: str) -> None:
        """A person removes a label that is not ours."""
        self.stories[key].foreign.discard(label)
        self.board.by_person(key, remove=frozenset({label}))
        self._wanted(key)

    def unlabel(self, key: str) -> None:
        """A person removes whatever lifecycle label there is."""
        page = self.board.pages[key]
        self.stories[key].final = None
        self.stories[key].starts = 0
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
        self._wanted(key)

    def _wanted(self, key: str) -> None:
        page, story = self.board.pages[key], self.stories[key]
        wanted = page.open and TRIGGER in page.labels
        story.unwanted_since = None if wanted else story.unwanted_since or self.moment()

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

    # ---- what must hold (Watcher, Ledger)

    def heard(self, actor: Actor, script: str, keys: list[str], args: list[Any], answer: Any) -> None:
        """Hold what a script answered against P1 and P6."""
        match script:
            case "intents.begin_claim" | "intents.decide" if answer[0] in ("begun", "decided"):
                self._raised(actor, script, args[0], int(answer[1]))
            case "runs.acquire" if answer[0] == "acquired":
                self._acquired[args[2]] = self.moment()
                self._raised(actor, script, args[0], int(answer[1]))
            case "intents.adopt" if answer:
                fields = dict(zip(answer[::2], answer[1::2], strict=True))
                self._raised(actor, script, args[0], int(fields["fence"]))
            case "runs.settle" if answer == "settled":
                self._accepted(actor, script, args[0], int(args[1]))
            case "runs.renew" if answer != "lost":
                self._accepted(actor, script, args[0], int(args[1]))
            case "intents.published" if answer == "published":
                self._accepted(actor, script, args[0], int(args[1]))
            case "leases.take" if answer:
                actor.lock_tokens.add(args[0])
            case "leases.take_fenced" if answer == "held":
                actor.lock_tokens.add(args[0])
                self._accepted(actor, script, keys[1].partition(":fence:")[2], int(args[2]))
            case _:
                pass

    def _raised(self, actor: Actor, script: str, ticket: str, fence: int) -> None:
        """Somebody took the ticket over: then nothing of an earlier run may be alive."""
        story = self._story(ticket)
        story.newest = max(story.newest, fence)
        for child in self.floor.alive(TicketId(ticket)):
            if child.fence >= fence:
                continue
            if self.flushed_at <= child.guard.trusted_at:
                self.broken("P1", f"{actor} took {ticket} over ({script}) while {child} was alive")
            elif script == "intents.decide" and self.clock.now - self._flush_time < TIMES.settle + TIMES.renew_every:
                self.broken("P1", f"{actor} declared {ticket} dead ({script}) too soon after Redis was emptied")

    def _accepted(self, actor: Actor, script: str, ticket: str, fence: int) -> None:
        if fence < self._story(ticket).newest:
            self.broken("P6", f"{script} by {actor} was accepted for {ticket} below the newest fence")

    def _child_starts(self, child: Child) -> None:
        story = self._story(child.ticket)
        for other in self.floor.alive(child.ticket):
            # A lease that Redis forgot cannot keep anybody out; it is put back within a renewal interval.
            if self.flushed_at <= other.guard.trusted_at:
                self.broken("P1", f"{child} starts while {other} is alive")
        if story.unwanted_since is not None and story.unwanted_since < self._acquired.get(child.run, 0):
            self.broken("P2", f"{child} starts although the ticket was withdrawn before its request was taken")
        story.starts += 1
        limit = self._bench.config.consumer.max_attempts
        if story.starts > limit:
            self.broken("P2", f"{child} starts for the {story.starts}th time; the limit is {limit}")

    async def begins(self, actor: Actor, what: str, key: str, fence: int | None) -> None:
        """A write begins: only under the ticket's lock, and not below the newest fence (P6)."""
        story, ticket = self.stories[key], self.board.pages[key].id
        # Claim comments on what it has pushed: a consumer may have taken that already, and waits for the lock.
        comments_on_claim = what == "tracker.sticky" and actor.name in INTAKES
        if fence is not None and fence < story.newest and not comments_on_claim:
            self.broken("P6", f"{actor} began {what} on {key} below the newest fence")
        holder = await self.line.send(lambda redis: redis.get(self.store.keys.claim_lock("model", ticket)))
        if holder not in actor.lock_tokens and not (holder is None and self._flush_time >= self.clock.now - TIMES.lock):
            self.broken("P6", f"{actor} began {what} on {key} without its lock")

    def moves(self, actor: Actor, key: str, move: Move) -> None:
        """Only edges that are in the table, and only by those who own them."""
        owners = {edge.owner for edge in EDGES if (edge.source, edge.to) == (move.expect, move.to)}
        role = {"i": Owner.CLAIM, "c": Owner.RUN, "h": Owner.HOUSEKEEPING}[actor.name[0]]
        if owners == {Owner.PERSON}:
            allowed = self.stories[key].retries > 0
        elif owners in ({Owner.CLAIM}, {Owner.RUN} if move.to is Status.IN_PROGRESS else set()):
            allowed = role in owners
        else:
            allowed = bool(owners)  # what a run or housekeeping decided, anybody may publish
        if not allowed:
            self.broken("P4", f"{actor} moves {key} from {move.expect} to {move.to}, which is not its edge")

    def lands(self, write: Write) -> None:
        """A write of ours is on the ticket."""
        story, labels = self.stories[write.key], self.board.labels
        if story.final is not None and labels.label(story.final) in write.remove:
            if story.retries:
                story.retries -= 1
            elif write.fence is None or write.fence >= story.newest:
                self.broken("P4", f"{write.by} took {story.final} off {write.key}, and no person had asked for it")
            story.final, story.starts = None, 0
        added = labels.status_of(write.add) if write.add else None
        if added is Status.PENDING and story.retries and story.final is None:
            # Asked for again while it was running: the run ends as pending, and counting begins afresh.
            story.starts = 0
        if added is not None and added.final and (write.fence is None or write.fence >= story.newest):
            story.final = added
        if added in (Status.DONE, Status.FAILED, Status.WAITING) or (write.remove and write.add is None):
            story.starts = 0

    def _story(self, ticket: str) -> Story:
        return self.stories[ticket.rpartition("#")[2]]

    def check(self) -> None:
        """What must hold after every rule."""
        for key, story in self.stories.items():
            page = self.board.pages[key]
            foreign = page.labels - self.board.labels.lifecycle(page.labels)
            if foreign != story.foreign:
                self.broken("P3", f"{key} carries {sorted(foreign)}; people left {sorted(story.foreign)}")

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
        for guard in list(self.floor.farewells):
            await self.farewell(guard)
        wrong: list[str] = []
        for _ in range(_MAX_ROUNDS):
            await self.step()
            await self._round()
            self.check()
            wrong = [*self._wrong_labels(), *await self._left()]
            if self.violations or not wrong:
                return
        for what in wrong:
            self.broken("P2/P5", what)

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
        await self.keep_house("h1", lambda keeper: keeper.sweep())
        await self.keep_house("h1", lambda keeper: keeper.look_at(Status.IN_PROGRESS))
        await self.keep_house("h1", lambda keeper: keeper.look_at(Status.ENQUEUED))

    def _wrong_labels(self) -> list[str]:
        wrong = []
        for key, story in self.stories.items():
            statuses, page = self.board.statuses(key), self.board.pages[key]
            wanted = page.open and TRIGGER in page.labels
            if story.final is not None and statuses != {story.final}:
                wrong.append(f"{key} ended as {story.final}, but shows {self.board.shown(key)}")
            elif wanted and (len(statuses) != 1 or not statuses <= {Status.DONE, Status.FAILED, Status.WAITING}):
                wrong.append(f"{key} should be done, failed or waiting, but shows {self.board.shown(key)}")
            elif not page.open and self.flushed_at >= 0:
                pass  # trackers list open tickets only: nobody finds a closed one that Redis has forgotten
            elif len(statuses) > 1 or statuses & {Status.ENQUEUED, Status.IN_PROGRESS}:
                wrong.append(f"{key} was withdrawn, but shows {self.board.shown(key)}")
            if self.floor.alive(page.id):
                wrong.append(f"{key} still has a child")
        return wrong

    async def _left(self) -> list[str]:
        left = await self.line.send(lambda redis: redis.eval(_LEFT, 0, self._bench.namespace))
        return [f"{name} is left in Redis" for name in left]
