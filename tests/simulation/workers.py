"""The children that work on tickets, dead or alive, whoever started them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentsmith.domain.ticket import TicketId


@dataclass(slots=True)
class Child:
    """The process that works on a ticket."""

    ticket: TicketId
    run: str
    fence: int
    guard: Any
    """It says whose run it is."""
    done: asyncio.Future[int]
    title: str = ""
    """What the ticket was called in the text that it works on."""
    alive: bool = True

    def __str__(self) -> str:
        return f"child of {self.ticket} under {self.guard.actor}"


class Floor:
    """Where everybody works: all children, dead or alive."""

    def __init__(self, say: Callable[[str], None], on_start: Callable[[Child], None]) -> None:
        self.say, self._on_start = say, on_start
        self.children: list[Child] = []
        self.asleep: Callable[[Child], bool] = lambda _: False

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
