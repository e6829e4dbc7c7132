"""Reading the ticket that a person named."""

from __future__ import annotations

from agentsmith.domain.errors import ConfigError, TicketNotFound
from agentsmith.domain.naming import NAMING, find
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Tracker

__all__ = ["find", "read", "unknown"]


async def read(tracker: Tracker, key: str) -> Ticket:
    """The ticket; one that is not there is the asker's mistake."""
    try:
        return await tracker.get(key)
    except TicketNotFound as error:
        raise unknown(error) from None


def unknown(error: TicketNotFound) -> ConfigError:
    """The error with how tickets are named."""
    return ConfigError(f"{error}; {NAMING}")
