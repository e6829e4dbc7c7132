"""Runs that nobody has any more: released by their guard, or silent together with their consumer in two looks."""

from __future__ import annotations

from functools import partial

from agentsmith.domain.facts import Life
from agentsmith.housekeeping.passes import PassTools, Result
from agentsmith.housekeeping.side_by_side import Task


async def recover_dead_runs(shared: PassTools, result: Result) -> None:
    """Bring their tickets back. A consumer that merely fell silent costs no request to a tracker."""
    store = shared.store
    found: dict[str, list[Task]] = {}
    # The marks first: what is marked later is found the next time, with its run.
    marked = (*await store.runs.released(), *await store.runs.suspects())
    running = {lease.ticket: lease for lease in await store.runs.running()}
    alive = {process.name for process in await store.presence.alive()}
    orphaned = [lease.ticket for lease in running.values() if lease.consumer not in alive]
    for ticket in dict.fromkeys((*marked, *orphaned)):
        lease = running.get(ticket)
        where = (lease.tracker, lease.key) if lease else await store.intents.where(ticket)
        if where is None:
            await store.runs.forget_suspicion(ticket)
        elif await store.runs.life(ticket, patient=True) is Life.DEAD:
            found.setdefault(where[0], []).append(partial(shared.recover, result, *where, ticket))
    await shared.at_once.do_each("sweep", found)
