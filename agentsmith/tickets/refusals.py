"""When a tracker does not let us: said once, with the permission that is missing, and again when it works."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Final

import structlog

from agentsmith import redaction
from agentsmith.domain.errors import MachineTrouble, NotPermitted, TrackerError, Unauthorized
from agentsmith.domain.ticket import TicketId
from agentsmith.domain.tracker import Forbidden, NamesPermissions, NamesPermissionToAsk, Tracker
from agentsmith.store import AWAY, Refusal, Store

log = structlog.get_logger()

LACKING: Final = (NotPermitted, Unauthorized)
"""The errors that only a person can do something about, on the platform."""
FAILS_ALL: Final = (*AWAY, OSError, MachineTrouble)
"""What ends the work on all tickets: Redis is away, or this machine fails us where another one may do better. Whatever
else goes wrong with one tracker or one ticket is about that one alone."""

_ALL: Final = TicketId("")
"""It was about no one ticket."""


class Doing(StrEnum):
    """What we may be refused: each works or fails by itself."""

    FINDING = "finding tickets"
    READING = "reading a ticket"
    LABELLING = "setting labels"
    COMMENTING = "writing comments"
    ASKING = "asking what people may"
    ASKING_CIRCLES = "asking who is in a team or has a role"


def remedy(tracker: Tracker, doing: Doing | None = None, *, signed_in: bool = True) -> str:
    """What a person can do about it."""
    if not signed_in:
        return f"make a new token and set trackers.{tracker.name}.token"
    if doing in (Doing.ASKING, Doing.ASKING_CIRCLES):
        needs = tracker.needs_to_ask if isinstance(tracker, NamesPermissionToAsk) else "the right to read its members"
        elsewhere = "; or name people in allow.users"
    else:
        needs = tracker.needs if isinstance(tracker, NamesPermissions) else "the right to read and write its tickets"
        elsewhere = ""
    return f"give the account of trackers.{tracker.name} what it needs: {needs}{elsewhere}"


async def refused(
    store: Store, tracker: Tracker, doing: Doing, why: TrackerError | Forbidden, *, ticket: TicketId = _ALL
) -> str:
    """The tracker said no, and will again until somebody acts: warn once. Answers what it said with the remedy."""
    said = redaction.redact(why.reason if isinstance(why, Forbidden) else str(why))
    signed_in = why.signed_in if isinstance(why, Forbidden) else not isinstance(why, Unauthorized)
    todo = remedy(tracker, doing, signed_in=signed_in)
    if await store.refusals.noted(Refusal(tracker.name, doing.value, time.time(), said, todo, ticket)):
        log.warning("the tracker refuses", tracker=tracker.name, doing=doing.value, why=said, remedy=todo)
    return f"{said}; {todo}"


async def works(store: Store, tracker: Tracker, *doings: Doing, ticket: TicketId = _ALL) -> None:
    """The tracker let us."""
    if await store.refusals.clear(tracker.name, *(doing.value for doing in doings), ticket=ticket):
        log.info("the tracker allows it again", tracker=tracker.name, doing=" and ".join(doings))
