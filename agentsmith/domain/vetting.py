"""What was vetted is what runs: who asked for a run last, and who changed the text after that (P7).

Whoever sets the trigger has seen the ticket as it is then. What somebody else makes of its text afterwards, nobody who
may start work has seen. So it counts who asked last, when, and who changed title or body later. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.ticket import Actor

AT_REST: Final = frozenset({Status.WAITING, Status.DONE, Status.FAILED})
"""A person who takes one of these off asks for another run."""

OPENING: Final = datetime.min.replace(tzinfo=UTC)
"""When a ticket was opened, where the platform has no line about that in its history."""


class DeedKind(StrEnum):
    """What somebody did to a ticket, as far as it matters here."""

    LABELLED = "set"
    UNLABELLED = "removed"
    TITLE = "changed the title"
    BODY = "changed the text"
    RETRIED = "asked for a retry"
    """By a comment; no platform has a line about it, so it is put together from that."""

    @property
    def edit(self) -> bool:
        """Whether it changed what a run works on."""
        return self in (DeedKind.TITLE, DeedKind.BODY)


@dataclass(frozen=True, slots=True)
class Deed:
    """One line of a ticket's history."""

    kind: DeedKind
    actor: Actor | None
    """None where the platform does not tell (any more) who it was."""
    at: datetime
    event: str = ""
    """The platform's own name of it, which no other deed has."""
    label: str = ""
    doubt: str = ""
    """Why it is not known who it was, where there is more to say than that."""

    def __str__(self) -> str:
        return f"{self.kind.value} {self.label!r}" if self.label else self.kind.value

    @property
    def moment(self) -> str:
        """When it was, for people."""
        return "its opening" if self.at == OPENING else self.at.astimezone(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class History:
    """What happened to a ticket since a label was put on that still is: that deed first, and then in their order.

    Empty when nobody is known to have put it on. Of two deeds whose order the platform does not tell, because both
    carry the same second, a change of the text is the later one.
    """

    deeds: tuple[Deed, ...] = ()
    tells_edits: bool = True
    """Whether changes of the text are among them; not where the platform hides who made them, or when."""

    def __bool__(self) -> bool:
        return bool(self.deeds)


@dataclass(frozen=True, slots=True)
class Pin:
    """A text that was vetted: its hash, and by which deed. It counts until somebody who may asks anew."""

    text: str
    ask: str = ""
    """The event by which it was asked for; empty for a retry, which no platform records."""
    by: str = ""
    """Who asked for it by a retry."""

    def holds(self, ask: Deed, text: str) -> bool:
        """Whether this very text was vetted, and nobody asked for anything since."""
        return bool(self.text) and self.text == text and (self.ask == ask.event if self.ask else bool(self.by))


def in_order(deeds: Sequence[Deed]) -> tuple[Deed, ...]:
    """Deeds out of several lists of the platform's; each list is in its order already."""
    return tuple(sorted(deeds, key=lambda deed: (deed.at, deed.kind.edit)))


def since_set(deeds: Sequence[Deed], is_it: Callable[[str], bool]) -> tuple[Deed, ...] | None:
    """Of these deeds, oldest first, what happened since the label was put on; None when they do not reach so far back.

    Whether a label is meant `is_it` tells. If it was taken off last, nobody has put it on.
    """
    for index in range(len(deeds) - 1, -1, -1):
        deed = deeds[index]
        if not deed.kind.edit and is_it(deed.label):
            return tuple(deeds[index:]) if deed.kind is DeedKind.LABELLED else ()
    return None


def last_ask(history: History, labels: LabelSet, me: Actor | None) -> Deed | None:
    """Who asked for a run last: by setting the trigger, or by taking off the status of one that was over.

    What we ourselves (`me`) take off is how a ticket moves on, and nobody's wish.
    """
    for deed in reversed(history.deeds[1:]):
        if ends_rest(deed, labels) and not (me is not None and deed.actor is not None and deed.actor.id == me.id):
            return deed
    return history.deeds[0] if history.deeds else None


def ends_rest(deed: Deed, labels: LabelSet, *statuses: Status) -> bool:
    """Whether a status that waits for a person was taken off; one of these, if some are named."""
    return deed.kind is DeedKind.UNLABELLED and labels.status_of(deed.label) in (statuses or AT_REST)


def changes_since(history: History, ask: Deed) -> tuple[Deed, ...]:
    """The last change of the title and the last one of the body, if they came after `ask`.

    Whoever changes a text has it before their eyes as a whole; what others made of it before that does not count.
    """
    after = history.deeds[history.deeds.index(ask) + 1 :]
    last = {deed.kind: deed for deed in after if deed.kind.edit}
    return tuple(sorted(last.values(), key=lambda deed: deed.at))
