"""What a trigger may ask of a ticket beside its label: state, type, people, component, words. Pure.

Values are compared without regard to case: they are words of the platform (`Bug`, `In Progress`) that people type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from agentsmith.domain.ticket import Ticket

NOBODY: Final = "none"
ANYBODY: Final = "*"
"""Both as in GitHub's own search: an assignee of `none` is nobody, `*` is whoever."""

_WORD: Final = re.compile(r'(-?)(?:"([^"]*)"|(\S+))')
_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Query:
    """Words that the title or the text must hold, `"phrases"` likewise; with `-` in front, must not."""

    wanted: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> Query:
        """Read what a person typed; ValueError when it asks for nothing."""
        found = [(minus, (phrase or word).casefold()) for minus, phrase, word in _WORD.findall(text)]
        parts = [(minus, part) for minus, part in found if part.strip()]
        if not parts:
            raise ValueError("asks for nothing; write words that the title or the text must hold")
        return cls(
            tuple(part for minus, part in parts if not minus),
            tuple(part for minus, part in parts if minus),
        )

    def misfit(self, ticket: Ticket) -> str:
        """Why the ticket's words are not these; empty when they are."""
        text = f"{ticket.title}\n{ticket.body}".casefold()
        for part in self.wanted:
            if part not in text:
                return f"its title and text do not hold {part[:_SHOWN]!r}"
        for part in self.unwanted:
            if part in text:
                return f"its title or text holds {part[:_SHOWN]!r}"
        return ""


@dataclass(frozen=True, slots=True)
class Filters:
    """Several values of one filter are alternatives, several filters must all fit; an empty one does not ask."""

    state: tuple[str, ...] = ()
    type: tuple[str, ...] = ()
    assignee: tuple[str, ...] = ()
    author: tuple[str, ...] = ()
    component: tuple[str, ...] = ()
    """Components, or paths; a path stands for what lies below it, too."""
    query: Query = Query()

    def __bool__(self) -> bool:
        return self != Filters()

    def misfit(self, ticket: Ticket) -> str:
        """The first thing about the ticket that does not fit, in words; empty when all does."""
        return (
            _misfit("state", self.state, [ticket.state])
            or _misfit("type", self.type, [ticket.type])
            or self._assigned(ticket)
            or _misfit("author", self.author, [ticket.author])
            or self._placed(ticket)
            or self.query.misfit(ticket)
        )

    def _assigned(self, ticket: Ticket) -> str:
        wanted = {name.casefold() for name in self.assignee}
        if not wanted or (NOBODY in wanted and not ticket.assignees) or (ANYBODY in wanted and ticket.assignees):
            return ""
        return _misfit("assignee", self.assignee, ticket.assignees)

    def _placed(self, ticket: Ticket) -> str:
        if not self.component:
            return ""
        there = [_path(place) for place in ticket.components]
        for wanted in map(_path, self.component):
            if any(place == wanted or place.startswith(f"{wanted}/") for place in there):
                return ""
        return _misfit("component", self.component, ticket.components)


def _path(text: str) -> str:
    return text.casefold().replace("\\", "/").strip("/ ")


def _misfit(what: str, wanted: tuple[str, ...], there: Iterable[str]) -> str:
    found = [value for value in there if value]
    if not wanted or {value.casefold() for value in wanted} & {value.casefold() for value in found}:
        return ""
    shown = ", ".join(repr(value[:_SHOWN]) for value in sorted(found)) or "nothing"
    return f"its {what} is {shown}, not {' or '.join(repr(value) for value in wanted)}"
