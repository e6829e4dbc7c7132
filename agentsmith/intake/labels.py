"""The lifecycle labels are made, with their colours, where a platform wants that."""

from __future__ import annotations

import structlog

from agentsmith.domain.errors import Refused, TicketNotFound
from agentsmith.domain.tracker import DefinesLabels, Tracker

log = structlog.get_logger()


async def prepare_labels(tracker: Tracker) -> None:
    """Make the labels that are missing; who may not make labels is told so."""
    if not isinstance(tracker, DefinesLabels):
        return
    try:
        if made := await tracker.ensure_labels():
            log.info("labels made", tracker=tracker.name, labels=list(made))
    except (Refused, TicketNotFound) as error:
        log.warning("the labels could not be prepared", tracker=tracker.name, error=str(error))
