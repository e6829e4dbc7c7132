"""The state machine: what people, processes and the weather can do, in any order."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentsmith.domain.lifecycle import Status
from tests.model.actors import Arm, Fault
from tests.model.tracker import TRIGGER, Flavour
from tests.model.world import CONSUMERS, EVERYBODY, INTAKES, KEEPERS, Bench, World

_MOST_TICKETS = 3
_TICKETS = st.integers(1, _MOST_TICKETS).map(str)
_EXITS = st.sampled_from([0, 0, 0, 1, 75, 79])

_POINTS = {
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

_ARMS = st.sampled_from(EVERYBODY).flatmap(
    lambda actor: st.tuples(st.just(actor), st.sampled_from((*_POINTS[actor[0]], "anything")))
)


class Lifecycle(RuleBasedStateMachine):
    """Label a ticket, work happens, the label tells how it went; whatever comes in between."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.world = World(bench)

    def _do(self, work: Coroutine[Any, Any, Any]) -> None:
        self.world.do(work)
        self.world.check()

    @invariant()
    def promises(self) -> None:
        """P1 to P6, as far as they can be told from one moment."""
        self._judge()

    def _judge(self) -> None:
        world = self.world
        assert not world.violations, "\n".join(["", *world.violations, "", *world.journal])

    def teardown(self) -> None:
        world = self.world
        try:
            if not world.violations:
                world.do(world.converge())
                self._judge()
        finally:
            world.close()

    # ---- people

    @initialize(flavour=st.sampled_from(Flavour))
    def first_ticket(self, flavour: Flavour) -> None:
        self.world.board.flavour = flavour
        key = self.world.open_ticket(triggered=True)
        self._do(self.world.store.signals.send([self.world.signal(key)]))

    @precondition(lambda self: len(self.world.stories) < _MOST_TICKETS)
    @rule(triggered=st.booleans())
    def open_ticket(self, triggered: bool) -> None:
        self.world.open_ticket(triggered=triggered)

    @rule(ticket=_TICKETS, label=st.sampled_from(["urgent", "agent-smith:bug", TRIGGER]))
    def tag(self, ticket: str, label: str) -> None:
        if ticket in self.world.stories:
            self.world.tag(ticket, label)

    @rule(ticket=_TICKETS, label=st.sampled_from(["urgent", TRIGGER]))
    def untag(self, ticket: str, label: str) -> None:
        if ticket in self.world.stories:
            self.world.untag(ticket, label)

    @rule(ticket=_TICKETS)
    def unlabel(self, ticket: str) -> None:
        if ticket in self.world.stories:
            self.world.unlabel(ticket)

    @rule(ticket=_TICKETS, reopen=st.booleans())
    def close(self, ticket: str, reopen: bool) -> None:
        if ticket in self.world.stories and self.world.board.pages[ticket].open is not reopen:
            self.world.set_open(ticket, open=reopen)

    @rule(ticket=_TICKETS)
    def retry(self, ticket: str) -> None:
        if ticket in self.world.stories:
            self._do(self.world.retry(ticket))

    @rule(ticket=_TICKETS)
    def cancel(self, ticket: str) -> None:
        world = self.world
        if ticket in world.stories and world.floor.alive(world.board.pages[ticket].id):
            self._do(world.store.runs.request_stop(world.board.pages[ticket].id, "cancelled by mona"))

    # ---- work

    @rule(ticket=_TICKETS)
    def webhook(self, ticket: str) -> None:
        if ticket in self.world.stories:
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

    @rule(ticket=_TICKETS, intake=st.sampled_from(INTAKES), consumer=st.sampled_from(CONSUMERS))
    def work(self, ticket: str, intake: str, consumer: str) -> None:
        """From signal to child, if nothing comes in between."""

        async def everything() -> None:
            await self.world.store.signals.send([self.world.signal(ticket)])
            await self.world.let_take(intake)
            await self.world.let_take(intake)
            await self.world.let_take(consumer)

        if ticket in self.world.stories:
            self._do(everything())

    @rule(consumer=st.sampled_from(CONSUMERS), code=_EXITS)
    def finish(self, consumer: str, code: int) -> None:
        """The oldest child of a consumer ends."""
        children = self.world.floor.of(self.world.actor(consumer))
        if children:
            self.world.say(f"{children[0]} exits with {code}")
            children[0].guard.finish(code)
            self._do(self.world.quiet())

    @rule(consumer=st.sampled_from(CONSUMERS))
    def drain(self, consumer: str) -> None:
        if self.world.actor(consumer).alive:
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

    @rule(where=_ARMS, skip=st.sampled_from([0, 0, 0, 1, 2, 5]), fault=st.sampled_from(Fault))
    def lay(self, where: tuple[str, str], skip: int, fault: Fault) -> None:
        """Lay a fault where an actor will come by."""
        self.world.actor(where[0]).arm = Arm(where[1], skip, fault)

    @rule(actor=st.sampled_from(EVERYBODY), host=st.booleans())
    def kill(self, actor: str, host: bool) -> None:
        """Kill -9; with the host its guards go too, and nobody says farewell."""
        victim = self.world.actor(actor)
        if victim.alive:
            victim.farewells = not host
            victim.kill()
            if host:
                self.world.floor.act(self.world.clock.now)
            self._do(self.world.quiet())

    @rule(actor=st.sampled_from(EVERYBODY))
    def restart(self, actor: str) -> None:
        if not self.world.actor(actor).alive:

            async def start() -> None:
                self.world.start(actor)

            self._do(start())

    @rule(actor=st.sampled_from(EVERYBODY))
    def pause(self, actor: str) -> None:
        if self.world.actor(actor).alive:
            self.world.actor(actor).pause()

    @rule(actor=st.sampled_from(EVERYBODY))
    def resume(self, actor: str) -> None:
        if self.world.actor(actor).paused:
            self.world.actor(actor).resume()
            self._do(self.world.quiet())

    @rule(actor=st.sampled_from(EVERYBODY), off=st.booleans())
    def cut(self, actor: str, off: bool) -> None:
        """A process loses its connection to Redis, or has it back."""
        self.world.actor(actor).cut_off = off

    @rule()
    def flush(self) -> None:
        self._do(self.world.flush())

    @rule(away=st.booleans())
    def outage(self, away: bool) -> None:
        """The tracker goes away, or comes back."""
        self.world.board.outage = away

    @precondition(lambda self: self.world.board.late)
    @rule()
    def land(self) -> None:
        self._do(self.world.land())

    @precondition(lambda self: self.world.floor.farewells)
    @rule()
    def farewell(self) -> None:
        self._do(self.world.farewell(self.world.floor.farewells[0]))
