"""The state machine: what people, processes and the weather can do, in any order."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from enum import StrEnum
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, precondition, rule

from agentsmith.domain.lifecycle import Status
from agentsmith.domain.stop import StopReason
from tests.model.actors import IN_THE_MODEL, Actor, Arm, Fault
from tests.model.tracker import TRIGGER, Flavour
from tests.model.world import CONSUMERS, EVERYBODY, INTAKES, KEEPERS, Bench, World

_MOST_TICKETS: Final = 2
_MOST_UNWELL: Final = 3
_MOST_FLUSHES: Final = 2
"""Bounds on misery: where everything is broken all the time, nothing gets far enough to go wrong."""
_EXITS: Final = st.sampled_from([0, 0, 0, 1, 75, 79])

_CLAIM: Final = (
    "lmove", "signals.opened", "leases.take", "tracker.get", "tracker.history", "intents.begin_claim",
    "tracker.add", "tracker.add answered", "tracker.remove", "tracker.write", "hget", "queue.push", "tracker.sticky",
    "set", "leases.release", "signals.acknowledge", "signals.later", "intents.decide", "intents.published",
)  # fmt: skip
_START: Final = (
    "lmove", "runs.acquire", "guard.open", "get", "tracker.get", "runs.start", "leases.take_fenced", "tracker.add",
    "tracker.add answered", "tracker.remove", "tracker.write", "tracker.sticky", "leases.release",
    "queue.acknowledge_and_take", "runs.renew", "runs.settle", "signals.send_later",
)  # fmt: skip
_SETTLE: Final = (
    "runs.settle", "leases.take_fenced", "tracker.get", "tracker.sticky", "tracker.add", "tracker.add answered",
    "tracker.remove", "tracker.write", "intents.published", "leases.release", "queue.push",
)  # fmt: skip
_RECOVER: Final = (
    "queue.put_back", "signals.put_back", "leases.take", "tracker.get", "intents.adopt", "life.judge",
    "intents.decide", "tracker.add", "tracker.add answered", "tracker.remove", "tracker.write", "tracker.sticky",
    "queue.push", "intents.published", "leases.release", "tracker.find",
)  # fmt: skip
_LIVE: Final = ("runs.renew", "presence.tick", "queue.restore", "runs.release_dead", "signals.ripen")

Mishap = tuple[str, int, Fault]
"""Where, after how many times, what."""


def _mishaps(*points: str) -> st.SearchStrategy[Mishap | None]:
    """Nothing, as often as not; or a fault at one of these points, or anywhere."""
    return st.none() | st.tuples(
        st.sampled_from((*points, "anything")), st.sampled_from([0, 0, 0, 1, 2, 5]), st.sampled_from(IN_THE_MODEL)
    )


def _one_of(choices: Callable[[Lifecycle], Sequence[str]]) -> st.SearchStrategy[str]:
    """One of what there is to choose from at that moment; the rule's precondition sees to it that there is any."""
    return st.runner().flatmap(lambda machine: st.sampled_from(choices(machine)))


def _actors(which: Callable[[Actor], bool], names: Sequence[str] = EVERYBODY) -> Callable[[Lifecycle], Sequence[str]]:
    return lambda machine: [name for name in names if which(machine.world.actor(name))]


_living = _actors(lambda actor: actor.alive)
_unwell = _actors(lambda actor: not actor.well)
_well_intakes = _actors(lambda actor: actor.well, INTAKES)
_well_consumers = _actors(lambda actor: actor.well, CONSUMERS)


def _working(machine: Lifecycle) -> Sequence[str]:
    return [name for name in CONSUMERS if machine.world.floor.of(machine.world.actor(name))]


def _has_some(choices: Callable[[Lifecycle], Sequence[str]]) -> Callable[[Any], bool]:
    return lambda machine: bool(choices(machine))


class Act(StrEnum):
    """What a person does to a ticket."""

    TAG = "tag"
    TAG_LIKE_OURS = "tag like ours"
    TRIGGER = "trigger"
    UNTRIGGER = "untrigger"
    UNLABEL = "take the lifecycle label off"
    CLOSE_OR_REOPEN = "close or reopen"
    COMMENT = "comment"
    """Anything that makes the platform send a webhook."""
    RETRY = "retry"
    CANCEL = "cancel"


class Disturbance(StrEnum):
    """What can befall a process."""

    KILL = "kill"
    LOSE_HOST = "lose the host"
    PAUSE = "pause"
    CUT_OFF = "cut off"
    DRAIN = "drain"


class Lifecycle(RuleBasedStateMachine):
    """Label a ticket, work happens, the label tells how it went; whatever comes in between."""

    tickets = Bundle("tickets")

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.world = World(bench)

    def _do(self, work: Coroutine[Any, Any, Any] | None = None) -> None:
        """Do it, let everything come to rest, and hold the outcome against the promises."""
        if work is not None:
            self.world.do(work)
        self.world.check()
        self._judge()

    def _judge(self) -> None:
        world = self.world
        assert not world.violations, "\n".join(["", *world.violations, "", "What happened:", *world.journal])

    def teardown(self) -> None:
        world = self.world
        try:
            if not world.violations:
                world.do(world.converge())
                self._judge()
        finally:
            world.close()

    # ---- people

    @initialize(target=tickets, flavour=st.sampled_from(Flavour))
    def first_ticket(self, flavour: Flavour) -> str:
        self.world.board.flavour = flavour
        key = self.world.open_ticket(triggered=True)
        self._do(self.world.store.signals.send([self.world.signal(key)]))
        return key

    @precondition(lambda self: len(self.world.stories) < _MOST_TICKETS)
    @rule(target=tickets, triggered=st.booleans())
    def open_ticket(self, triggered: bool) -> str:
        return self.world.open_ticket(triggered=triggered)

    @rule(ticket=tickets, act=st.sampled_from(Act))
    def person(self, ticket: str, act: Act) -> None:
        world = self.world
        match act:
            case Act.TAG:
                world.tag(ticket, "urgent")
            case Act.TAG_LIKE_OURS:
                world.tag(ticket, "agent-smith:bug")
            case Act.TRIGGER:
                world.tag(ticket, TRIGGER)
            case Act.UNTRIGGER:
                world.untag(ticket, TRIGGER)
            case Act.UNLABEL:
                world.unlabel(ticket)
            case Act.CLOSE_OR_REOPEN:
                world.set_open(ticket, open=not world.board.pages[ticket].open)
            case Act.COMMENT:
                world.do(world.store.signals.send([world.signal(ticket)]))
            case Act.RETRY:
                world.do(world.retry(ticket))
            case Act.CANCEL if world.floor.alive(world.board.pages[ticket].id):
                world.do(world.store.runs.request_stop(world.board.pages[ticket].id, StopReason.cancelled_by("mona")))
        self._judge()

    # ---- work

    @rule(intake=st.sampled_from(INTAKES), polls=st.booleans(), mishap=_mishaps(*_CLAIM))
    def look(self, intake: str, polls: bool, mishap: Mishap | None) -> None:
        """An intake takes a signal and deals with it; perhaps it polls before."""

        async def poll_and_look() -> None:
            if polls:
                await self.world.poll(intake)
            await self.world.let_take(intake)

        self._lay(intake, mishap)
        self._do(poll_and_look())

    @rule(consumer=st.sampled_from(CONSUMERS), mishap=_mishaps(*_START))
    def take(self, consumer: str, mishap: Mishap | None) -> None:
        """A consumer takes a request and works on it."""
        self._lay(consumer, mishap)
        self._do(self.world.let_take(consumer))

    @precondition(_has_some(_well_intakes))
    @precondition(_has_some(_well_consumers))
    @rule(
        ticket=tickets,
        intake=_one_of(_well_intakes),
        consumer=_one_of(_well_consumers),
        claiming=_mishaps(*_CLAIM),
        starting=_mishaps(*_START),
    )
    def work(self, ticket: str, intake: str, consumer: str, claiming: Mishap | None, starting: Mishap | None) -> None:
        """A person asks for the ticket, and it gets a child, if nothing comes in between."""
        self._lay(intake, claiming)
        self._lay(consumer, starting)
        self._do(self._bring_to_work(ticket, intake, consumer))

    @precondition(_has_some(_well_intakes))
    @precondition(_has_some(_well_consumers))
    @rule(
        ticket=tickets,
        intake=_one_of(_well_intakes),
        consumer=_one_of(_well_consumers),
        code=_EXITS,
        settling=_mishaps(*_SETTLE),
    )
    def run(self, ticket: str, intake: str, consumer: str, code: int, settling: Mishap | None) -> None:
        """A person asks for the ticket, and it is done, if nothing comes in between."""
        self._do(self._bring_to_work(ticket, intake, consumer))
        self._lay(consumer, settling)
        for child in self.world.floor.of(self.world.actor(consumer)):
            self.world.say(f"{child} exits with {code}")
            child.guard.finish(code)
        self._do(self.world.quiet())

    async def _bring_to_work(self, ticket: str, intake: str, consumer: str) -> None:
        self.world.ask_for(ticket)
        await self.world.store.signals.send([self.world.signal(ticket)])
        await self.world.let_take(intake)
        await self.world.let_take(intake)
        await self.world.let_take(consumer)

    @precondition(_has_some(_working))
    @rule(consumer=_one_of(_working), code=_EXITS, mishap=_mishaps(*_SETTLE))
    def finish(self, consumer: str, code: int, mishap: Mishap | None) -> None:
        """The oldest child of a consumer ends."""
        child = self.world.floor.of(self.world.actor(consumer))[0]
        self._lay(consumer, mishap)
        self.world.say(f"{child} exits with {code}")
        child.guard.finish(code)
        self._do(self.world.quiet())

    # ---- time and housekeeping

    @rule(steps=st.integers(1, 3), actor=st.sampled_from(CONSUMERS), mishap=_mishaps(*_LIVE))
    def wait(self, steps: int, actor: str, mishap: Mishap | None) -> None:
        async def pass_by() -> None:
            for _ in range(steps):
                await self.world.step()

        self._lay(actor, mishap)
        self._do(pass_by())

    @rule(keeper=st.sampled_from(KEEPERS), rounds=st.sampled_from([1, 3, 9]), mishap=_mishaps(*_RECOVER))
    def keep_house(self, keeper: str, rounds: int, mishap: Mishap | None) -> None:
        """Time passes, and a housekeeper makes its passes; nine rounds outlast a lease and two looks."""

        async def passes() -> None:
            for _ in range(rounds):
                await self.world.step()
                await self.world.keep_house(keeper, lambda keeper: keeper.sweep.run_once())
                await self.world.keep_house(keeper, lambda keeper: keeper.stuck[Status.IN_PROGRESS].run_once())

        self._lay(keeper, mishap)
        self._do(passes())

    @rule(keeper=st.sampled_from(KEEPERS), status=st.sampled_from([Status.ENQUEUED, Status.IN_PROGRESS, None]))
    def tidy_up(self, keeper: str, status: Status | None) -> None:
        """One single pass."""
        if status is None:
            self._do(self.world.keep_house(keeper, lambda keeper: keeper.sweep.run_once()))
        else:
            self._do(self.world.keep_house(keeper, lambda keeper: keeper.stuck[status].run_once()))

    # ---- faults

    def _lay(self, actor: str, mishap: Mishap | None) -> None:
        """Lay a fault where an actor is going to come by."""
        if mishap is not None:
            self.world.actor(actor).arm = Arm(*mishap)

    @precondition(lambda self: len(_unwell(self)) < _MOST_UNWELL)
    @rule(actor=_one_of(_living), how=st.sampled_from(Disturbance))
    def disturb(self, actor: str, how: Disturbance) -> None:
        world, victim = self.world, self.world.actor(actor)
        match how:
            case Disturbance.KILL | Disturbance.LOSE_HOST:
                self._do(world.kill(actor, host=how is Disturbance.LOSE_HOST))
            case Disturbance.PAUSE if not victim.paused:
                victim.pause()
            case Disturbance.CUT_OFF if not victim.cut_off:
                world.say(f"{actor} is cut off from Redis")
                victim.cut_off = True
            case Disturbance.DRAIN if actor in CONSUMERS:
                self._do(world.drain(actor))

    @precondition(_has_some(_unwell))
    @rule(actor=_one_of(_unwell))
    def mend(self, actor: str) -> None:
        """Bring a process back to work, whatever keeps it from it."""
        victim = self.world.actor(actor)
        if not victim.alive:
            self._do(self.world.start(actor))
            return
        self.world.say(f"{actor} is well again")
        victim.cut_off = False
        victim.resume()
        self._do(self.world.quiet())

    @precondition(lambda self: self.world.flushes < _MOST_FLUSHES)
    @rule()
    def flush(self) -> None:
        self._do(self.world.flush())

    @precondition(lambda self: not self.world.board.outage)
    @rule(requests=st.integers(1, 5))
    def outage(self, requests: int) -> None:
        """The tracker is away for so many requests."""
        self.world.say(f"the tracker goes away for {requests} requests")
        self.world.board.outage = requests

    @precondition(lambda self: self.world.board.late)
    @rule()
    def land(self) -> None:
        self._do(self.world.land())

    @precondition(lambda self: self.world.floor.releases)
    @rule()
    def release(self) -> None:
        self._do(self.world.release(self.world.floor.releases[0]))
