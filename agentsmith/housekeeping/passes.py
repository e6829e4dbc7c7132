"""What all passes have in common: what they need, how they try a ticket, and what they count."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from agentsmith.bounded import Bounded
from agentsmith.domain.actions import Nothing, NotOurs
from agentsmith.domain.errors import AgentSmithError, LeaseLost
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.domain.tracker import Tracker
from agentsmith.housekeeping.side_by_side import SideBySide, Task
from agentsmith.store import Store
from agentsmith.tickets.lock import LockBusy
from agentsmith.tickets.look import Looks
from agentsmith.tickets.refusals import FAILS_ALL

log = structlog.get_logger()


@dataclass(slots=True)
class Result:
    """What one pass did, how often, and what went wrong."""

    put_back: int = 0
    finished: int = 0
    recovered: int = 0
    recalled: int = 0
    woken: int = 0
    troubles: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """What was done at all."""
        names = ("put_back", "finished", "recovered", "recalled", "woken")
        return {name: count for name in names if (count := getattr(self, name))}

    def log(self, name: str) -> None:
        """Say so if there was something to do."""
        if self.counts or self.troubles:
            log.info(name, **self.counts, troubles=self.troubles or None)


@dataclass(slots=True)
class PassTools:
    """What the passes of one leader share."""

    store: Store
    trackers: Mapping[str, Tracker]
    looks: Looks
    at_once: SideBySide = field(default_factory=SideBySide)
    foreign: Bounded[TicketId, str] = field(default_factory=lambda: Bounded(10_000))
    """Revisions of tickets that turned out to be another installation's: until they change, they stay so."""

    def is_foreign(self, ticket: Ticket) -> bool:
        """Whether a ticket is another installation's, as far as we know."""
        return not self.looks.remembered.routes(ticket) and self.foreign.get(ticket.id) == ticket.revision

    async def on_every_tracker(
        self, what: str, result: Result, look: Callable[[Tracker], Coroutine[Any, Any, None]]
    ) -> None:
        """Do it for all trackers at once; one that fails is noted, and nothing is concluded from it (P9)."""

        async def on(tracker: Tracker) -> None:
            try:
                await look(tracker)
            except FAILS_ALL:
                raise
            except Exception as error:
                result.troubles.append(_trouble(tracker.name, error))

        await self.at_once.do(what, {tracker.name: partial(on, tracker) for tracker in self.trackers.values()})

    async def attempt(self, result: Result, ticket: TicketId, task: Task) -> None:
        """Do something with a ticket, unless somebody else is at it; a tracker that fails is noted."""
        try:
            await task()
        except (LockBusy, LeaseLost):
            return
        except FAILS_ALL:
            raise
        except Exception as error:
            result.troubles.append(_trouble(ticket, error))

    async def recover(
        self, result: Result, tracker: str, key: str, ticket: TicketId, listed: Ticket | None = None
    ) -> None:
        """Bring a ticket back if nobody has it; `listed` is how it looked on the tracker."""

        async def recover() -> None:
            action = await self.looks.repair(tracker, key, ticket)
            if isinstance(action, NotOurs) and listed is not None:
                self.foreign[ticket] = listed.revision
            elif not isinstance(action, Nothing | NotOurs):
                result.recovered += 1
                log.info("recovered", ticket=ticket, action=type(action).__name__)

        await self.attempt(result, ticket, recover)


def _trouble(about: str, error: Exception) -> str:
    """What goes wrong with one must not stop the others, a mistake of ours or of a plug-in included."""
    if not isinstance(error, AgentSmithError):
        log.error("housekeeping broke", about=about, exc_info=error)
    return f"{about}: {error}"


async def labelled(tracker: Tracker, status: Status) -> list[Ticket]:
    """Every open ticket that shows `status`, also under a former prefix."""
    return [ticket async for ticket in tracker.find(*tracker.labels.spellings(status))]
