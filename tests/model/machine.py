"""The state machine: what people, processes and the weather can do, in any order."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, precondition, rule

from agentsmith.domain.lifecycle import Status
from tests.model.actors import Actor, Arm, Fault
from tests.model.tracker import TRIGGER, Flavour
from tests.model.world import CONSUMERS, EVERYBODY, INTAKES, KEEPERS, Bench, World

_MOST_TICKETS: Final = 3

_POINTS: Final = {
    "i": (
        "lmove", "hdel", "leases.take", "tracker.get", "tracker.labelled_by", "intents.begin_claim", "tracker.add",
        "tracker.add answered", "tracker.remove", "tracker.write", "hget", "queue.push", "tracker.sticky", "set",
        "leases.release", "lrem", "signals.later", "intents.decide", "intents.published",
    ),
    "c": (
        "lmove", "runs.acquire", "guard.open", "get", "tracker.get", "runs.start", "leases.take_fenced", "tracker.add",
        "tracker.add answered", "tracker.remove", "tracker.write", "tracker.sticky", "leases.release",
        "queue.acknowledge_and_take", "runs.renew", "runs.settle", "intents.published", "runs.release_dead",
        "signals.send_later", "queue.push", "queue.restore",
    ),
    "h": (
        "queue.put_back", "signals.put_back", "leases.take", "tracker.get", "intents.adopt", "runs.look",
        "intents.decide", "tracker.add", "tracker.add answered", "tracker.remove", "tracker.write", "tracker.sticky",
        "queue.push", "intents.published", "leases.release", "tracker.find",
    ),
}  # fmt: skip
"""Where a fault can be laid, by role: the steps of claim, take, run, settle and recovery."""


def _one_of(choices: Callable[[Lifecycle], Sequence[str]]) -> st.SearchStrategy[str]:
    """One of what there is to choose from at that moment; the rule's precondition sees to it that there is any."""
    return st.runner().flatmap(lambda machine: st.sampled_from(choices(machine)))


def _actors(which: Callable[[Actor], bool], names: Sequence[str] = EVERYBODY) -> Callable[[Lifecycle], Sequence[str]]:
    return lambda machine: [name for name in names if which(machine.world.actor(name))]


_living = _actors(lambda actor: actor.alive)
_dead = _actors(lambda actor: not actor.alive)
_running = _actors(lambda actor: actor.alive and not actor.paused)
_paused = _actors(lambda actor: actor.paused)
_connected = _actors(lambda actor: actor.alive and not actor.cut_off)
_cut_off = _actors(lambda actor: actor.alive and actor.cut_off)
_living_consumers = _actors(lambda actor: actor.alive, CONSUMERS)


def _working(machine: Lifecycle) -> Sequence[str]:
    return [name for name in CONSUMERS if machine.world.floor.of(machine.world.actor(name))]


def _has_some(choices: Callable[[Lifecycle], Sequence[str]]) -> Callable[[Any], bool]:
    return lambda machine: bool(choices(machine))


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

    @rule(ticket=tickets, label=st.sampled_from(["urgent", "agent-smith:bug", TRIGGER]))
    def tag(self, ticket: str, label: str) -> None:
        self.world.tag(ticket, label)

    @rule(ticket=tickets, label=st.sampled_from([TRIGGER, "urgent"]))
    def untag(self, ticket: str, label: str) -> None:
        self.world.untag(ticket, label)

    @rule(ticket=tickets)
    def unlabel(self, ticket: str) -> None:
        """Take its lifecycle label off."""
        self.world.unlabel(ticket)

    @rule(ticket=tickets)
    def close_or_reopen(self, ticket: str) -> None:
        self.world.set_open(ticket, open=not self.world.board.pages[ticket].open)

    @rule(ticket=tickets)
    def retry(self, ticket: str) -> None:
        self._do(self.world.retry(ticket))

    @precondition(lambda self: any(child.alive for child in self.world.floor.children))
    @rule()
    def cancel(self) -> None:
        """Stop the oldest child that is alive."""
        child = next(child for child in self.world.floor.children if child.alive)
        self._do(self.world.store.runs.request_stop(child.ticket, "cancelled by mona"))

    # ---- work

    @rule(ticket=tickets)
    def webhook(self, ticket: str) -> None:
        self._do(self.world.store.signals.send([self.world.signal(ticket)]))

    @rule(intake=st.sampled_from(INTAKES))
    def poll(self, intake: str) -> None:
        self._do(self.world.poll(intake))

    @rule(intake=st.sampled_from(INTAKES))
    def look(self, intake: str) -> None:
        """An intake takes a signal and deals with it."""
        self._do(self.world.let_take(intake))

    @rule(consumer=st.sampled_from(CONSUMERS))
    def take(self, consumer: str) -> None:
        """A consumer takes a request and works on it."""
        self._do(self.world.let_take(consumer))

    @rule(ticket=tickets, intake=st.sampled_from(INTAKES), consumer=st.sampled_from(CONSUMERS))
    def work(self, ticket: str, intake: str, consumer: str) -> None:
        """From signal to child, if nothing comes in between."""

        async def everything() -> None:
            await self.world.store.signals.send([self.world.signal(ticket)])
            await self.world.let_take(intake)
            await self.world.let_take(intake)
            await self.world.let_take(consumer)

        self._do(everything())

    @precondition(_has_some(_working))
    @rule(consumer=_one_of(_working), code=st.sampled_from([0, 0, 0, 1, 75, 79]))
    def finish(self, consumer: str, code: int) -> None:
        """The oldest child of a consumer ends."""
        child = self.world.floor.of(self.world.actor(consumer))[0]
        self.world.say(f"{child} exits with {code}")
        child.guard.finish(code)
        self._do(self.world.quiet())

    @precondition(_has_some(_living_consumers))
    @rule(consumer=_one_of(_living_consumers))
    def drain(self, consumer: str) -> None:
        self._do(self.world.drain(consumer))

    # ---- time and housekeeping

    @rule(steps=st.integers(1, 3))
    def wait(self, steps: int) -> None:
        async def pass_by() -> None:
            for _ in range(steps):
                await self.world.step()

        self._do(pass_by())

    @rule(keeper=st.sampled_from(KEEPERS), rounds=st.sampled_from([1, 4, 9]))
    def keep_house(self, keeper: str, rounds: int) -> None:
        """Time passes, and a housekeeper makes all its passes; nine rounds outlast a lease and two looks."""

        async def passes() -> None:
            for _ in range(rounds):
                await self.world.step()
                await self.world.keep_house(keeper, lambda keeper: keeper.sweep())
                await self.world.keep_house(keeper, lambda keeper: keeper.look_at(Status.IN_PROGRESS))

        self._do(passes())

    @rule(keeper=st.sampled_from(KEEPERS))
    def sweep(self, keeper: str) -> None:
        self._do(self.world.keep_house(keeper, lambda keeper: keeper.sweep()))

    @rule(keeper=st.sampled_from(KEEPERS), status=st.sampled_from([Status.ENQUEUED, Status.IN_PROGRESS]))
    def look_at(self, keeper: str, status: Status) -> None:
        self._do(self.world.keep_house(keeper, lambda keeper: keeper.look_at(status)))

    # ---- faults

    @rule(
        where=st.sampled_from([(actor, at) for actor in EVERYBODY for at in (*_POINTS[actor[0]], "anything")]),
        skip=st.sampled_from([0, 0, 0, 1, 2, 5]),
        fault=st.sampled_from(Fault),
    )
    def lay(self, where: tuple[str, str], skip: int, fault: Fault) -> None:
        """Lay a fault where an actor will come by."""
        self.world.actor(where[0]).arm = Arm(where[1], skip, fault)

    @precondition(_has_some(_living))
    @rule(actor=_one_of(_living), host=st.booleans())
    def kill(self, actor: str, host: bool) -> None:
        """Kill -9; with the host its guards go too, and nobody says farewell."""
        self._do(self.world.kill(actor, host=host))

    @precondition(_has_some(_dead))
    @rule(actor=_one_of(_dead))
    def restart(self, actor: str) -> None:
        self._do(self.world.start(actor))

    @precondition(_has_some(_running))
    @rule(actor=_one_of(_running))
    def pause(self, actor: str) -> None:
        self.world.actor(actor).pause()

    @precondition(_has_some(_paused))
    @rule(actor=_one_of(_paused))
    def resume(self, actor: str) -> None:
        self.world.actor(actor).resume()
        self._do(self.world.quiet())

    @precondition(_has_some(_connected))
    @rule(actor=_one_of(_connected))
    def cut(self, actor: str) -> None:
        """A process loses its connection to Redis."""
        self.world.say(f"{actor} is cut off from Redis")
        self.world.actor(actor).cut_off = True

    @precondition(_has_some(_cut_off))
    @rule(actor=_one_of(_cut_off))
    def mend(self, actor: str) -> None:
        self.world.say(f"{actor} can reach Redis again")
        self.world.actor(actor).cut_off = False

    @rule()
    def flush(self) -> None:
        self._do(self.world.flush())

    @rule()
    def outage(self) -> None:
        """The tracker goes away, or comes back."""
        self.world.board.outage = not self.world.board.outage
        self.world.say(f"the tracker {'goes away' if self.world.board.outage else 'is back'}")

    @precondition(lambda self: self.world.board.late)
    @rule()
    def land(self) -> None:
        self._do(self.world.land())

    @precondition(lambda self: self.world.floor.farewells)
    @rule()
    def farewell(self) -> None:
        self._do(self.world.farewell(self.world.floor.farewells[0]))
