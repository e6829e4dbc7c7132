"""The lifecycle of a ticket: its statuses, the labels that show them, and who may move it where.

`EDGES` is the only table of legal moves, and an intent is made from one of them. The picture in docs/lifecycle.md is
compared with it by a test.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

DEFAULT_PREFIX: Final = "agent-smith"


class Status(StrEnum):
    """What a ticket's label says. The values are the label suffixes; the order is the rank of §repair."""

    PENDING = "pending"
    ENQUEUED = "enqueued"
    IN_PROGRESS = "in-progress"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"

    @property
    def rank(self) -> int:
        """Which of several labels wins when neither an intent nor a lease explains them."""
        return _RANK[self]

    @property
    def final(self) -> bool:
        """Whether only a person may leave this status (P4)."""
        return self in (Status.DONE, Status.FAILED)


_RANK: Final = {status: rank for rank, status in enumerate(Status)}


class Owner(StrEnum):
    """Who may take an edge."""

    CLAIM = "claim"
    RUN = "run"
    HOUSEKEEPING = "housekeeping"
    PERSON = "a person"


@dataclass(frozen=True, slots=True)
class Edge:
    """One legal move. `to` is None when the lifecycle label is taken off altogether."""

    source: Status
    to: Status | None
    owner: Owner
    why: str


EDGES: Final = frozenset(
    {
        Edge(Status.PENDING, Status.ENQUEUED, Owner.CLAIM, "claimed"),
        Edge(Status.PENDING, Status.WAITING, Owner.CLAIM, "parked: claimed too often, or its text was not vetted"),
        Edge(Status.ENQUEUED, Status.IN_PROGRESS, Owner.RUN, "started"),
        Edge(Status.IN_PROGRESS, Status.DONE, Owner.RUN, "all steps succeeded"),
        Edge(Status.IN_PROGRESS, Status.FAILED, Owner.RUN, "a step failed or the run was cancelled"),
        Edge(Status.IN_PROGRESS, Status.WAITING, Owner.RUN, "parked on a time or a person"),
        Edge(Status.IN_PROGRESS, Status.ENQUEUED, Owner.RUN, "given back by a drain, or by a machine in trouble"),
        Edge(Status.IN_PROGRESS, Status.PENDING, Owner.RUN, "asked for again while it was running"),
        Edge(Status.IN_PROGRESS, None, Owner.RUN, "trigger removed or ticket closed"),
        Edge(Status.ENQUEUED, None, Owner.RUN, "trigger removed or ticket closed"),
        Edge(Status.ENQUEUED, Status.FAILED, Owner.RUN, "cancelled before it started"),
        Edge(Status.ENQUEUED, Status.PENDING, Owner.RUN, "cancelled before it started, but asked for again"),
        Edge(Status.ENQUEUED, Status.ENQUEUED, Owner.RUN, "given back before it started"),
        Edge(Status.ENQUEUED, Status.WAITING, Owner.RUN, "our own trouble, again and again, before it started"),
        Edge(Status.ENQUEUED, Status.ENQUEUED, Owner.HOUSEKEEPING, "pushed again"),
        Edge(Status.IN_PROGRESS, Status.PENDING, Owner.HOUSEKEEPING, "the lease is gone"),
        Edge(Status.ENQUEUED, Status.FAILED, Owner.HOUSEKEEPING, "deliveries used up"),
        Edge(Status.IN_PROGRESS, Status.FAILED, Owner.HOUSEKEEPING, "attempts used up"),
        Edge(Status.ENQUEUED, None, Owner.HOUSEKEEPING, "trigger removed or ticket closed"),
        Edge(Status.IN_PROGRESS, None, Owner.HOUSEKEEPING, "trigger removed or ticket closed"),
        Edge(
            Status.ENQUEUED,
            Status.PENDING,
            Owner.HOUSEKEEPING,
            "its place is lost, and with it what was vetted, or what to run",
        ),
        Edge(Status.WAITING, Status.PENDING, Owner.HOUSEKEEPING, "what it waited for has come"),
        Edge(Status.WAITING, Status.PENDING, Owner.PERSON, "label removed, trigger set again, or retry"),
        Edge(Status.DONE, Status.PENDING, Owner.PERSON, "label removed, or retry"),
        Edge(Status.FAILED, Status.PENDING, Owner.PERSON, "label removed, or retry"),
    }
)


_BY_MOVE: Final = {(edge.source, edge.to, edge.owner): edge for edge in EDGES}


def edge(source: Status, to: Status | None, owner: Owner) -> Edge:
    """The edge by which `owner` moves a ticket from `source` to `to`; KeyError for a move that is not legal."""
    return _BY_MOVE[source, to, owner]


@dataclass(frozen=True, slots=True)
class LabelSet:
    """The closed set of labels that agentsmith may ever add or remove (P3), for one prefix.

    Labels under a former prefix still count as a status, else a new prefix would rerun every ticket; they are
    removed like our own when the ticket moves on, and never added. Comparison ignores case, because two of
    the four platforms do.
    """

    prefix: str = DEFAULT_PREFIX
    former_prefixes: tuple[str, ...] = ()
    _by_name: dict[str, Status] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for prefix in (self.prefix, *self.former_prefixes):
            for status in Status:
                self._by_name[f"{prefix}:{status.value}".casefold()] = status

    def label(self, status: Status) -> str:
        """The label that shows `status`."""
        return f"{self.prefix}:{status.value}"

    def spellings(self, status: Status) -> tuple[str, ...]:
        """Every label that counts as `status`, that of today first: what to look for to find all such tickets."""
        prefixes = dict.fromkeys((self.prefix, *self.former_prefixes))
        return tuple(f"{prefix}:{status.value}" for prefix in prefixes)

    def status_of(self, label: str) -> Status | None:
        """The status that `label` stands for, or None when the label is not ours to touch."""
        return self._by_name.get(label.strip().casefold())

    def statuses(self, labels: Iterable[str]) -> frozenset[Status]:
        """Every status that the labels show: none, one, or several after a half-applied move."""
        return frozenset(s for label in labels if (s := self.status_of(label)) is not None)

    def lifecycle(self, labels: Iterable[str]) -> frozenset[str]:
        """Those of `labels`, as spelled on the ticket, that are lifecycle labels."""
        return frozenset(label for label in labels if self.status_of(label) is not None)

    def surplus(self, labels: Iterable[str], keep: Status | None) -> frozenset[str]:
        """The lifecycle labels that must go for `keep` to be the only one left."""
        wanted = self.label(keep).casefold() if keep is not None else None
        return frozenset(label for label in self.lifecycle(labels) if label.strip().casefold() != wanted)


def resolve(statuses: frozenset[Status], *, intended: Status | None = None, leased: Status | None = None) -> Status:
    """The one status that a ticket has: intent first, then lease, then rank; no label means pending."""
    for preferred in (intended, leased):
        if preferred is not None and preferred in statuses:
            return preferred
    return max(statuses, key=lambda s: s.rank, default=Status.PENDING)
