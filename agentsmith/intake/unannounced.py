"""Webhooks that fell silent are noticed: a poll finds what one of them should have announced."""

from __future__ import annotations

import time
from collections.abc import MutableMapping, Sequence
from typing import Final

import structlog

from agentsmith import metrics
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.domain.tracker import Tracker
from agentsmith.store import Store

log = structlog.get_logger()

_MOST_NAMED: Final = 10
_ON_ITS_WAY: Final = 10.0
"""A webhook about a change that is younger than this may still arrive."""
_CLOCKS_DIFFER: Final = 60.0
"""A platform's clock may be ahead of ours by as much."""


async def report_unannounced(
    store: Store, tracker: Tracker, found: Sequence[Ticket], named: MutableMapping[TicketId, str]
) -> None:
    """Count and name those of the tickets that no webhook announced; `named` has those that were, so that a ticket
    that nobody can take on is not named with every poll."""
    found = [ticket for ticket in found if named.get(ticket.id) != ticket.revision]
    if not found:
        return
    announced, now = await store.signals.announced([ticket.id for ticket in found]), time.time()
    silent = [
        ticket
        for ticket in found
        if (changed := ticket.updated_at.timestamp() if ticket.updated_at else 0.0) < now - _ON_ITS_WAY
        and announced.get(ticket.id, 0.0) < changed - _CLOCKS_DIFFER
    ]
    named.update((ticket.id, ticket.revision) for ticket in silent)
    if silent:
        metrics.UNANNOUNCED.labels(tracker.name).inc(len(silent))
        log.warning(
            "a poll found what no webhook announced; see: agentsmith webhooks check",
            tracker=tracker.name,
            count=len(silent),
            tickets=[ticket.id for ticket in silent[:_MOST_NAMED]],
        )
