"""Intake: takes signals from the inbox and has each ticket looked at. Any replica may take any signal.

A tracker that does not answer holds up its own tickets alone: a hand that has waited for it long enough takes the next
signal, and while all looks that a tracker may have are waiting for it, its other signals are put off.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import structlog

from agentsmith import metrics
from agentsmith.boottime import boottime
from agentsmith.domain.outcomes import (
    Claimed,
    Deferred,
    Held,
    LookOutcome,
    NothingToDo,
    Rejected,
    WouldClaim,
    recorded_as,
)
from agentsmith.domain.signal import MalformedSignal, Signal, SignalKind, Taken
from agentsmith.intake.comment_commands import CommentCommands
from agentsmith.store import AWAY, Process, Store
from agentsmith.tickets.look import Looks
from agentsmith.trackers.http import spending_for

log = structlog.get_logger()

_LONGEST_WAIT: Final = 1.0
_AFTER_A_BUG: Final = 60.0
_SHORTEST_WAIT: Final = 0.01
"""Redis reads a wait of 0 as for ever."""
PATIENCE: Final = 5.0
"""Seconds for which a hand waits for a tracker, where others could use it."""
_WHILE_SILENT: Final = 5.0
"""Seconds for which signals of a tracker are put off, at least, that answers none of those before them."""
_APART: Final = 0.05
"""Seconds between two of those when they come back: there may be thousands."""


@dataclass(slots=True)
class Intake:
    """Deals with signals, several at a time."""

    store: Store
    looks: Looks
    process: Process
    hands: int = 4
    commands: CommentCommands | None = None
    """Carries out commands in comments."""
    patience: float | None = None
    """Seconds for which a hand waits for a look; without it as long as it takes."""
    _adopt: bool = False
    _under_way: Counter[str] = field(default_factory=Counter)
    """How many looks at its tickets are not over yet, by tracker."""
    _last_back: dict[str, float] = field(default_factory=dict)
    """When the last signal comes back that was put off, by tracker."""

    async def serve(self) -> None:
        """Deal with signals for ever."""
        async with asyncio.TaskGroup() as group:
            for number in range(self.hands):
                group.create_task(self._hand(number, group))

    def look_in_hand(self) -> None:
        """Redis lost its memory: what we acknowledged lately may stand in our list again, and nobody else looks there.

        A server that fails over behind a proxy does so without breaking a connection.
        """
        self._adopt = True

    async def _hand(self, number: int, group: asyncio.TaskGroup) -> None:
        while True:
            try:
                if self._adopt and number == 0:
                    self._adopt = False
                    for held in await self.store.signals.in_hand(self.process.name):
                        await self._begin(held, group)
                soon = await self.store.signals.ripen(self.looks.rules.capacity.limits)
                wait = min(_LONGEST_WAIT, max(_SHORTEST_WAIT, soon)) if soon is not None else _LONGEST_WAIT
                payload = await self.store.signals.take(self.process.name, wait=wait)
                self.store.outage.over()
                if payload is not None:
                    await self._begin(payload, group)
            except AWAY as error:
                # The answer to a take may be lost while the signal already stands in our list: the first hand
                # looks after those. Dealing with a signal twice is harmless.
                await self._away(error)

    async def _begin(self, payload: str, group: asyncio.TaskGroup) -> None:
        """Deal with it, and return when that is done, or goes on by itself because it takes too long."""

        async def deal() -> None:
            try:
                await self._deal_with(payload)
            except AWAY as error:
                await self._away(error)

        await asyncio.wait({group.create_task(deal())}, timeout=self.patience)

    async def _away(self, error: BaseException) -> None:
        self._adopt = True
        await asyncio.sleep(self.store.outage.noticed(error))

    async def _deal_with(self, payload: str) -> None:
        try:
            signal = Signal.from_json(payload)
        except MalformedSignal as error:
            log.error("a signal that nobody can read is dropped", reason=str(error))
            await self.store.signals.acknowledge(self.process.name, payload)
            return
        signal = await self.store.signals.opened(signal)
        try:
            with spending_for("claim"):
                outcome = await self._outcome(signal, payload)
        except AWAY:
            raise
        except Exception as error:
            # One ticket that breaks us must not stop the others, nor be lost.
            log.error("looking at a ticket failed", ticket=signal.ticket, exc_info=error)
            outcome = Deferred(f"internal error: {type(error).__name__}", _AFTER_A_BUG)
        _tell(signal, outcome)
        metrics.LOOKS.labels(signal.tracker, recorded_as(outcome)).inc()
        if not isinstance(outcome, Deferred) or outcome.looked:
            await self.store.looks.note(
                signal.ticket,
                at=time.time(),
                cause=signal.cause,
                outcome=recorded_as(outcome),
                why="" if isinstance(outcome, Claimed | Rejected) else outcome.why,
                gates=outcome.gates,
            )
        match outcome:
            case Deferred(wait=wait, failed=failed):
                again = signal.again() if failed else signal
                await self.store.signals.later(self.process.name, payload, again, wait=wait)
            case Held(places=places):
                await self.store.signals.hold(self.process.name, payload, signal, places=places)
            case _:
                await self.store.signals.acknowledge(self.process.name, payload)

    async def _outcome(self, signal: Signal, payload: str) -> LookOutcome:
        if self._under_way[signal.tracker] >= self.hands:
            why, now = "its tracker has not answered those before it", boottime()
            at = max(now + _WHILE_SILENT, self._last_back.get(signal.tracker, 0.0) + _APART)
            self._last_back[signal.tracker] = at
            return Deferred(why, at - now, failed=False, looked=False, warned=True)
        self._under_way[signal.tracker] += 1
        try:
            if signal.kind is not SignalKind.COMMAND:
                return await self.looks.on_signal(signal, taken=Taken(self.process.name, payload))
            return await self.commands.carry_out(signal) if self.commands else NothingToDo("no commands are taken here")
        finally:
            self._under_way[signal.tracker] -= 1


def _tell(signal: Signal, outcome: LookOutcome) -> None:
    known = log.bind(ticket=signal.ticket, cause=signal.cause)
    match outcome:
        case Claimed(run=run, fence=fence):
            known.debug("claimed", run=run, fence=fence)
        case Rejected(gates=gates):
            closed = gates[-1]
            known.info("rejected", gate=closed.gate.value, saw=closed.saw, remedy=closed.remedy)
        case Deferred(why=why, wait=wait, warned=warned):
            (known.debug if warned else known.info)("deferred", why=why, wait=round(wait, 3))
        case Held(why=why):
            known.info("held back", why=why)
        case WouldClaim(why=why):
            known.info("shadow", would=why)
        case _:
            known.debug("left alone", why=outcome.why)
