"""An intent: a move that was decided in Redis and may not be published on the tracker yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from agentsmith.domain.lifecycle import EDGES, Edge, Owner, Status, edge
from agentsmith.domain.ticket import TicketId

NO_RUN: Final = "none"
"""What stands in the place of a run's name where a ticket is moved by no run."""


@dataclass(frozen=True, slots=True)
class Intent:
    """What was decided about a ticket, and everything needed to publish it, again if need be.

    It goes along an edge of the lifecycle: there is no other way to move a ticket. With an `outcome` it is always
    finished, never rolled back. Without one it only marks a claim in flight.
    """

    ticket: TicketId
    tracker: str
    key: str
    fence: int
    edge: Edge
    run: str = NO_RUN
    outcome: str = ""
    note: str = ""
    due: float | None = None
    request: str = ""
    """The request to push once the label says enqueued (a run given back)."""
    attempt: int = 0
    text: str = ""
    """Hash of the pinned text, for the memo."""
    by_person: bool = False
    """A person asked for it, so attempts are counted afresh."""
    trigger: str = ""
    """The label that started the run, for the memo."""
    question: str = ""
    """What a person was asked, now or before, in the form of `asking.Question`; for the memo, and for later runs."""
    before: int = 0
    """Attempts up to the last question, which people are told of and which count for nothing else."""

    @property
    def source(self) -> Status:
        """Where the ticket comes from."""
        return self.edge.source

    @property
    def to(self) -> Status | None:
        """Where it goes; None: our label is taken off."""
        return self.edge.to

    def diverted(self, to: Status, **changes: Any) -> Self:
        """The same, but it goes elsewhere, by whom it was decided."""
        return replace(self, edge=edge(self.source, to, self.edge.owner), **changes)

    @property
    def decided(self) -> bool:
        """Whether this must be published, whatever happens."""
        return bool(self.outcome)

    def to_fields(self) -> dict[str, str]:
        """The form in which Redis keeps it; the fence is filled in by whoever records it."""
        return {
            "tracker": self.tracker,
            "key": self.key,
            "source": self.source.value,
            "to": self.to.value if self.to else "",
            "owner": self.edge.owner.value,
            "run": self.run,
            "outcome": self.outcome,
            "note": self.note,
            "due": repr(self.due) if self.due is not None else "",
            "request": self.request,
            "attempt": str(self.attempt),
            "text": self.text,
            "by_person": "1" if self.by_person else "",
            "trigger": self.trigger,
            "question": self.question,
            "before": str(self.before),
        }

    @classmethod
    def from_fields(cls, ticket: TicketId, fields: Mapping[str, str]) -> Intent | None:
        """Read back what `to_fields` wrote, here or in another release; None where we cannot tell what to publish.

        It is then left for a process that can: nothing is decided about a ticket while its intent stands.
        """
        try:
            return cls(
                ticket=ticket,
                tracker=fields["tracker"],
                key=fields["key"],
                fence=int(fields["fence"]),
                edge=_edge_of(fields),
                run=fields.get("run", "unknown"),
                outcome=fields.get("outcome", ""),
                note=fields.get("note", ""),
                due=float(fields["due"]) if fields.get("due") else None,
                request=fields.get("request", ""),
                attempt=int(fields.get("attempt", "0")),
                text=fields.get("text", ""),
                by_person=bool(fields.get("by_person")),
                trigger=fields.get("trigger", ""),
                question=fields.get("question", ""),
                before=int(fields.get("before", "0")),
            )
        except (KeyError, ValueError):
            return None


def _edge_of(fields: Mapping[str, str]) -> Edge:
    """The edge that was decided on. What another release decided is finished, also where our table has no such edge."""
    source, to = Status(fields.get("source", Status.PENDING)), Status(fields["to"]) if fields["to"] else None
    owner = fields.get("owner", "")
    same = sorted((e for e in EDGES if (e.source, e.to) == (source, to)), key=lambda e: (e.owner != owner, e.owner))
    return same[0] if same else Edge(source, to, Owner.RUN, "decided by another release")
