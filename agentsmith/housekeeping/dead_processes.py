"""What is left in the lists of processes that are gone, or beside entries that are gone."""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog

from agentsmith.housekeeping.passes import Result
from agentsmith.store import Store

log = structlog.get_logger()


async def put_back(store: Store, result: Result) -> None:
    """Put back the requests and signals that dead processes had in hand."""
    alive = {process.name for process in await store.presence.alive()}
    for name in await store.presence.known():
        if name in alive:
            continue
        requests, signals = await store.queue.put_back(name), await store.signals.put_back(name)
        result.put_back += max(0, requests) + max(0, signals)


@dataclass(slots=True)
class Leftovers:
    """Lets nothing that is kept beside something else outlive it: it would keep a ticket out for ever."""

    store: Store
    _lost: dict[str, str] = field(default_factory=dict)
    """Requests that were in no list when we last looked."""

    async def run_once(self) -> int:
        """Put right what disagrees; answers how many entries."""
        store, owners = self.store, await self.store.presence.known()
        lost = await store.queue.lost(owners)
        twice = {ticket: request for ticket, request in lost.items() if self._lost.get(ticket) == request}
        self._lost = lost
        entries = await store.queue.forget_lost(owners, twice) + await store.signals.heal(owners)
        if entries := entries + await store.intents.align():
            log.warning("entries in redis that contradicted each other were put right", entries=entries)
        return entries
