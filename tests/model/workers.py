"""Workers in place of processes: a guard that keeps its word, and children that live until the model ends them.

A guard is a process of its own. It goes on while its consumer is paused or dead, ends the children when the trust
window closes or the consumer is gone, and says farewell to Redis afterwards: at once, late, or never.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from agentsmith.domain.ticket import TicketId
from agentsmith.guard.client import Exit, Farewell, Guard, GuardDied
from agentsmith.store import RunLease
from tests.model.actors import Actor


@dataclass(slots=True)
class Child:
    """The process that works on a ticket."""

    ticket: TicketId
    run: str
    fence: int
    guard: Any
    """The model's, or the simulation's; either says whose run it is."""
    done: asyncio.Future[int]
    title: str = ""
    """What the ticket was called in the text that it works on."""
    alive: bool = True

    def __str__(self) -> str:
        return f"child of {self.ticket} under {self.guard.actor}"


class ModelGuard:
    """Stands in for `Guard`; `Floor` knows them all."""

    def __init__(self, floor: Floor, actor: Actor, trusted_until: float, farewell: Farewell) -> None:
        told = json.loads(farewell.input)
        self.actor = actor
        self.lease = RunLease.parse(TicketId(told["ticket"]), told["lease"])
        self.lock_key = str(told["lock"])
        self.trusted_until = trusted_until
        self.child: Child | None = None
        self.over = False
        self._floor = floor

    async def run(self, _argv: object, *, env: dict[str, str], **_: object) -> Exit:
        """Work until the model says how it ended."""
        if self.over:
            raise GuardDied("the guard is gone")
        ticket = TicketId(env["AGENTSMITH_TICKET_ID"])
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        run, title = env["AGENTSMITH_RUN_ID"], env["AGENTSMITH_TICKET_TITLE"]
        child = self.child = Child(ticket, run, self.lease.fence, self, done, title)
        self._floor.starts(child)
        try:
            code = await done
        except asyncio.CancelledError:
            if self.actor.alive:
                self._end("stopped")
            raise
        return Exit(code, None, timed_out=False, stopped=None, tail="", truncated=False, duration=0.0)

    def trust(self, until: float) -> None:
        """The consumer renewed its lease."""
        if not self.over:
            self.trusted_until = until

    async def close(self) -> None:
        """The consumer is done with us."""
        if self.actor.alive:
            self._end("closed")
            self.over = True

    def finish(self, code: int) -> None:
        """The child ends by itself."""
        assert self.child is not None
        self.child.alive = False
        if not self.child.done.done():
            self.child.done.set_result(code)

    def leave(self, why: str) -> None:
        """End the children, and ourselves."""
        self._end(why)
        self.over = True
        if self.child is not None and not self.child.done.done():
            self.child.done.set_exception(GuardDied(f"the guard is gone: {why}"))

    def _end(self, why: str) -> None:
        if self.child is not None and self.child.alive:
            self.child.alive = False
            self._floor.say(f"{self.child} ends: {why}")


class Floor:
    """Where everybody works: all guards and children, dead or alive."""

    def __init__(self, say: Callable[[str], None], on_start: Callable[[Child], None]) -> None:
        self.say, self._on_start = say, on_start
        self.guards: list[ModelGuard] = []
        self.children: list[Child] = []
        self.farewells: list[ModelGuard] = []
        """Guards that have ended their children and not yet told Redis."""
        self.asleep: Callable[[Child], bool] = lambda _: False

    def open_for(self, actor: Actor) -> Callable[..., Any]:
        """What `RunContext.open_guard` is for this process."""

        async def open_guard(*, trusted_until: float, grace: float, farewell: Farewell | None) -> Guard:
            del grace
            assert farewell is not None
            await actor.checkpoint("guard.open")
            guard = ModelGuard(self, actor, trusted_until, farewell)
            self.guards.append(guard)
            return cast(Guard, guard)

        return open_guard

    def starts(self, child: Child) -> None:
        """A child begins to work."""
        self.say(f"{child} starts")
        self._on_start(child)
        self.children.append(child)

    def alive(self, ticket: TicketId) -> list[Child]:
        """The living children of the ticket."""
        return [child for child in self.children if child.alive and child.ticket == ticket]

    def working(self, ticket: TicketId) -> list[Child]:
        """The same, without those on a machine that sleeps: they do nothing until it wakes."""
        return [child for child in self.alive(ticket) if not self.asleep(child)]

    def of(self, actor: Actor) -> list[Child]:
        """The living children of a process."""
        return [child for child in self.children if child.alive and child.guard.actor is actor]

    def act(self, now: float) -> None:
        """Let every guard do its duty: the consumer is gone, or the trust window has closed."""
        for guard in self.guards:
            if guard.over:
                continue
            if not guard.actor.alive:
                guard.leave("the consumer is gone")
            elif now >= guard.trusted_until:
                guard.leave("the trust window closed")
            else:
                continue
            if guard.actor.farewells:
                self.farewells.append(guard)
