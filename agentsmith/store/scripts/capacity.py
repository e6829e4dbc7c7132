"""Who takes up room, see `agentsmith.store.capacity`."""

from __future__ import annotations

from collections.abc import Sequence

from agentsmith.domain.ticket import TicketId
from agentsmith.store.keys import Key
from agentsmith.store.scripting import Script
from agentsmith.store.scripts.parts import CAPACITY


class Occupy(Script[None]):
    """Count a ticket among those that take up room; no promise rests on it, only limits that people set."""

    places: Sequence[Key]
    ticket: TicketId
    uses = (CAPACITY,)
    lua = "for _, place in ipairs(places) do occupy(place, ticket) end"
