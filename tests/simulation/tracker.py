"""The model's tracker: a board of tickets in memory, and one handle on it per process.

Three flavours of `move`, from the kindest platform to the roughest:
  CAS    one write under a revision test, like `local` and Azure DevOps
  STEPS  read, then add, then remove: three requests, and anything can happen in between; nothing is conditional
  BLIND  like STEPS, but edges after the claim start from what the caller saw last and not from a fresh read; only the
         answer to the first write shows what is there (GitHub while it trusts its notes)
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, Generic, Protocol, TypeVar

from agentsmith.boottime import boottime
from agentsmith.domain.errors import RateLimited, TicketNotFound, TrackerUnavailable
from agentsmith.domain.foreign import foreign
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.memo import Memo
from agentsmith.domain.ticket import Actor as Account
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.domain.tracker import (
    Access,
    AlreadySo,
    Applied,
    Blocker,
    Gone,
    Labelling,
    Limited,
    LostRace,
    Move,
    MoveOutcome,
    Sticky,
    Unknown,
)
from agentsmith.domain.vetting import OPENING, Deed, DeedKind, History, since_set
from tests.simulation.faults import PERSONS, Fault

TRIGGER: Final = "agent-smith"
NAME: Final = "local"
PROJECT: Final = "model/board"
PERSON: Final = "a person"
BODY: Final = "please " * 200
"""So long that requests stand in their lists without it."""
OURSELVES: Final = Account("0", "agentsmith", bot=True)
MONA: Final = Account("1", "mona")
STRANGER: Final = Account("2", "mallory")
_LIMIT: Final = 20.0
_BEGINNING: Final = datetime(2026, 1, 1, tzinfo=UTC)
T = TypeVar("T")


class Flavour(StrEnum):
    """How the platform writes labels."""

    CAS = "compare and set"
    STEPS = "read, add, remove"
    BLIND = "add, remove"


@dataclass(slots=True)
class Page:
    """One ticket as the tracker keeps it."""

    key: str
    labels: set[str]
    open: bool = True
    revision: int = 0
    title: str = ""
    deeds: list[Deed] = field(default_factory=list)
    sticky: Sticky | None = None
    before: tuple[frozenset[str], int] | None = None
    """Labels and revision before the latest write, for those who read from a copy that lags behind."""

    def __post_init__(self) -> None:
        self.title = self.title or f"Ticket {self.key}"

    @property
    def id(self) -> TicketId:
        return TicketId(f"{PROJECT}#{self.key}")

    def note(self, kind: DeedKind, by: Account, label: str = "") -> None:
        """Write a line of the ticket's history; time is the order of things."""
        at = _BEGINNING + timedelta(seconds=len(self.deeds))
        self.deeds.append(Deed(kind, by, at, str(len(self.deeds) + 1), label))


@dataclass(frozen=True, slots=True)
class Write:
    """One request that changes a ticket, and on whose behalf it is made. No fence: it only tidies up."""

    key: str
    by: str
    add: str | None = None
    remove: tuple[str, ...] = ()
    fence: int | None = None
    revision: int | None = None
    """The revision that it is conditional on, where the platform can do that."""
    begun: int = 0
    """When it was sent, in the order of things."""

    def __str__(self) -> str:
        parts = [f"+{self.add}"] if self.add else []
        return " ".join([*parts, *(f"-{label}" for label in self.remove)]) or "nothing"


class Caller(Protocol):
    """A process that asks something of the tracker."""

    async def checkpoint(self, point: str) -> Fault | None:
        """Come by `point`; answers a fault that the tracker has to bring about."""

    async def carry(self, request: Callable[[], T], *, deadline: float | None = None) -> T:
        """Have a request carried out on the other side, and wait for what it answers."""


C = TypeVar("C", bound=Caller)
C_contra = TypeVar("C_contra", bound=Caller, contravariant=True)


class Watcher(Protocol[C_contra]):
    """Sees every write: when it begins, and when it lands."""

    async def begins(self, actor: C_contra, what: str, key: str, fence: int | None) -> None: ...

    def moves(self, actor: C_contra, key: str, move: Move) -> None: ...

    def lands(self, write: Write) -> None: ...


@dataclass(slots=True)
class Board:
    """Every ticket, the requests that are still on the wire, and the people's hands."""

    labels: LabelSet
    say: Callable[[str], None]
    flavour: Flavour = Flavour.STEPS
    pages: dict[str, Page] = field(default_factory=dict)
    late: list[Write] = field(default_factory=list)
    outage: int = 0
    """How many requests more will not be answered."""

    def statuses(self, key: str) -> frozenset[Status]:
        """What the ticket's lifecycle labels say now."""
        return self.labels.statuses(self.pages[key].labels)

    def write(self, write: Write) -> bool:
        """Carry a request out; False when its condition does not hold."""
        page = self.pages[write.key]
        if write.revision is not None and write.revision != page.revision:
            self.say(f"{write.by}: {write} on {page.key} is refused, the revision changed")
            return False
        before = set(page.labels)
        page.labels.difference_update(write.remove)
        if write.add:
            page.labels.add(write.add)
        if page.labels != before:
            page.before = frozenset(before), page.revision
            by = MONA if write.by == PERSON else OURSELVES
            for label in sorted(before - page.labels):
                page.note(DeedKind.UNLABELLED, by, label)
            for label in sorted(page.labels - before):
                page.note(DeedKind.LABELLED, by, label)
            page.revision += 1
        self.say(f"{write.by}: {write} on {page.key} -> {self.shown(page.key)}")
        return True

    def delay(self, write: Write) -> None:
        """Carry a request out at some later time."""
        self.late.append(write)

    def comment(self, key: str, sticky: Sticky) -> None:
        """Our comment now says this."""
        self.pages[key].sticky = sticky

    def shown(self, key: str) -> str:
        """The ticket's statuses, for the trace."""
        return "{" + ", ".join(sorted(self.statuses(key))) + "}"

    def by_person(self, key: str, *, add: str | None = None, remove: frozenset[str] = frozenset()) -> None:
        """A person changes labels."""
        self.write(Write(key, PERSON, add, tuple(sorted(remove))))

    def edited(self, key: str, title: str, by: Account) -> None:
        """Somebody changes the text."""
        page = self.pages[key]
        page.title = title
        page.revision += 1
        page.note(DeedKind.TITLE, by)
        self.say(f"{by.name} calls {key} {title!r}")

    def set_open(self, key: str, *, open: bool) -> None:
        """A person closes or reopens the ticket."""
        page = self.pages[key]
        page.open = open
        page.revision += 1
        self.say(f"a person {'reopens' if open else 'closes'} {key}")


class BoardTracker(Generic[C]):
    """One process's handle on the board; see `domain.tracker` for what each method owes."""

    name: Final = NAME
    platform: Final = "model"
    project: Final = PROJECT

    def __init__(self, board: Board, actor: C, watcher: Watcher[C], person: Callable[[Fault, str], None]) -> None:
        self.labels = board.labels
        self._board, self._actor, self._watcher, self._person = board, actor, watcher, person

    def ticket_id(self, key: str) -> TicketId:
        return TicketId(f"{PROJECT}#{key}")

    def identify(self, text: str) -> str | None:
        return text if text in self._board.pages else None

    def filter_hint(self, status: Status) -> str:
        return self.labels.label(status)

    async def get(self, key: str) -> Ticket:
        fault = await self._reach("tracker.get", key)
        return await self._actor.carry(lambda: self._ticket(key, stale=fault is Fault.STALE))

    async def find(self, *labels: str) -> AsyncIterator[Ticket]:
        await self._reach("tracker.find", "")
        for ticket in await self._actor.carry(lambda: self._with(labels)):
            yield ticket

    async def move(self, ticket: Ticket, move: Move) -> MoveOutcome:
        self._watcher.moves(self._actor, ticket.key, move)
        try:
            if self._board.flavour is Flavour.CAS:
                return await self._move_at_once(ticket, move)
            return await self._move_in_steps(ticket, move)
        except TicketNotFound as error:
            return Gone(str(error))
        except RateLimited as error:
            return Limited(error.retry_at or 0.0, str(error))
        except TrackerUnavailable as error:
            return Unknown(str(error))

    async def _move_at_once(self, ticket: Ticket, move: Move) -> MoveOutcome:
        while True:
            seen = await self.get(ticket.key)
            plan = _plan(self.labels, seen.labels, move)
            if isinstance(plan, type):
                return plan(seen)
            write = replace(self._write_for(ticket, move), add=plan.add, remove=plan.remove)
            write = replace(write, revision=int(seen.revision))
            if written := await self._send("tracker.write", write, move.deadline):
                return Applied(written)

    async def _move_in_steps(self, ticket: Ticket, move: Move) -> MoveOutcome:
        claim = (move.expect, move.to) == (Status.PENDING, Status.ENQUEUED)
        seen = ticket if self._board.flavour is Flavour.BLIND and not claim else await self.get(ticket.key)
        plan = _plan(self.labels, seen.labels, move)
        if isinstance(plan, type):
            return plan(await self.get(ticket.key)) if seen is ticket else plan(seen)
        write, written = self._write_for(ticket, move), seen
        if plan.add:
            written = await self._sent("tracker.add", replace(write, add=plan.add), move.deadline)
            if self._overtaken(written, move):
                return LostRace(written)
        for label in plan.remove:
            written = await self._sent("tracker.remove", replace(write, remove=(label,)), move.deadline)
            if self.labels.statuses(written.labels) - {move.expect, move.to}:
                return LostRace(written)
        return Applied(written)

    def _overtaken(self, written: Ticket, move: Move) -> bool:
        """Whether the answer to the first write shows that somebody else moved the ticket."""
        shown = self.labels.statuses(written.labels)
        return (move.expect is not Status.PENDING and move.expect not in shown) or bool(shown - {move.expect, move.to})

    async def tidy(self, ticket: Ticket, *, keep: Status | None, deadline: float) -> Ticket:
        seen = await self.get(ticket.key)
        if self.labels.lifecycle(seen.labels) != self.labels.lifecycle(ticket.labels):
            return seen
        plan = _only(self.labels, seen.labels, keep)
        write, written = Write(ticket.key, f"{self._actor} (tidying)"), seen
        if self._board.flavour is Flavour.CAS:
            whole = replace(write, add=plan.add, remove=plan.remove, revision=int(seen.revision))
            if plan.add or plan.remove:
                written = await self._send("tracker.write", whole, deadline) or await self.get(ticket.key)
            return written
        if plan.add:
            written = await self._sent("tracker.add", replace(write, add=plan.add), deadline)
        for label in plan.remove:
            written = await self._sent("tracker.remove", replace(write, remove=(label,)), deadline)
        return written

    async def read_sticky(self, ticket: Ticket) -> Sticky | None:
        await self._reach("tracker.read_sticky", ticket.key)
        return await self._actor.carry(lambda: self._board.pages[ticket.key].sticky)

    async def write_sticky(
        self, ticket: Ticket, text: str, memo: Memo, *, known: Sticky | None, deadline: float
    ) -> Sticky:
        del known
        fault = await self._begin("tracker.sticky", ticket.key, memo.fence, deadline)
        sticky = Sticky(ref="1", text=text, memo=memo)
        if fault is not Fault.LATE:  # a comment that lands late is overwritten by the next one
            await self._actor.carry(lambda: self._board.comment(ticket.key, sticky), deadline=deadline)
        self._answer(fault)
        return sticky

    async def say(self, ticket: Ticket, text: str, *, deadline: float) -> None:  # noqa: ARG002 - no run reads it
        self._answer(await self._begin("tracker.say", ticket.key, None, deadline))

    async def relabel(
        self, ticket: Ticket, *, add: Collection[str] = (), remove: Collection[str] = (), deadline: float
    ) -> Ticket:
        wanted = foreign(self.labels.lifecycle, add, remove)
        for label in wanted.add:
            await self._send("tracker.add", Write(ticket.key, f"{self._actor} (a step)", add=label), deadline)
        for label in wanted.remove:
            await self._send("tracker.remove", Write(ticket.key, f"{self._actor} (a step)", remove=(label,)), deadline)
        return self._ticket(ticket.key)

    async def me(self) -> Account:
        return OURSELVES

    async def labelled_by(self, ticket: Ticket, label: str) -> Labelling | None:
        deeds = (await self.history(ticket, label)).deeds
        actor = deeds[0].actor if deeds else None
        return None if actor is None else Labelling(actor, await self.access_of(actor), deeds[0].event)

    async def history(self, ticket: Ticket, label: str) -> History:
        await self._reach("tracker.history", ticket.key)
        return await self._actor.carry(lambda: self._since(ticket.key, label))

    def _since(self, key: str, label: str) -> History:
        page = self._board.pages[key]
        deeds = since_set(page.deeds, lambda name: name == label)
        if deeds is None and label in page.labels:  # mona opened it like that
            deeds = (Deed(DeedKind.LABELLED, MONA, OPENING, "opening", label), *page.deeds)
        return History(deeds or ())

    async def access_of(self, actor: Account) -> Access:
        return {MONA: Access.WRITE, STRANGER: Access.READ}.get(actor, Access.NONE)

    async def blockers(self, ticket: Ticket) -> tuple[Blocker, ...]:  # noqa: ARG002 - the contract's
        return ()

    async def aclose(self) -> None:
        """Nothing to let go of."""

    def _with(self, labels: Collection[str]) -> list[Ticket]:
        pages = self._board.pages.values()
        return [self._ticket(page.key) for page in pages if page.open and page.labels & set(labels)]

    def _ticket(self, key: str, *, stale: bool = False) -> Ticket:
        page = self._board.pages.get(key)
        if page is None:
            raise TicketNotFound(f"there is no ticket {key}")
        labels, revision = frozenset(page.labels), page.revision
        if stale and page.before is not None:
            labels, revision = page.before
        return Ticket(
            id=page.id,
            key=key,
            tracker=NAME,
            title=page.title,
            body=BODY,
            url=f"https://model.example/{key}",
            labels=labels,
            open=page.open,
            revision=str(revision),
        )

    def _write_for(self, ticket: Ticket, move: Move) -> Write:
        return Write(ticket.key, f"{self._actor}", fence=move.fence)

    async def _reach(self, point: str, key: str) -> Fault | None:
        """Get through to the tracker, or not."""
        fault = await self._actor.checkpoint(point)
        if fault in PERSONS and key:
            self._person(fault, key)
        away = self._board.outage > 0
        self._board.outage -= away
        if away or fault is Fault.FAIL or (fault is Fault.LOSE and point == "tracker.get"):
            raise TrackerUnavailable("the tracker does not answer")
        if fault is Fault.LIMIT:
            raise RateLimited("too many requests", retry_at=time.time() + _LIMIT)
        return fault

    async def _begin(self, point: str, key: str, fence: int | None, deadline: float) -> Fault | None:
        """Begin a write, unless its deadline has passed (T11)."""
        fault = await self._reach(point, key)
        if boottime() >= deadline:
            raise TrackerUnavailable("the deadline passed before the write began")
        await self._watcher.begins(self._actor, point, key, fence)
        return fault

    async def _send(self, point: str, write: Write, deadline: float) -> Ticket | None:
        """The ticket as the write left it; None when its condition did not hold."""
        fault = await self._begin(point, write.key, write.fence, deadline)
        written = None
        if fault is Fault.LATE:
            self._board.delay(write)
        else:
            written = await self._actor.carry(lambda: self._land(write), deadline=deadline)
        self._answer(fault)
        # The answer comes over the same wire: the process may end, or stand still, before it is read.
        await self._actor.checkpoint(f"{point} answered")
        return written

    async def _sent(self, point: str, write: Write, deadline: float) -> Ticket:
        """The same for a write without a condition."""
        written = await self._send(point, write, deadline)
        assert written is not None
        return written

    def _land(self, write: Write) -> Ticket | None:
        if not self._board.write(write):
            return None
        self._watcher.lands(write)
        return self._ticket(write.key)

    @staticmethod
    def _answer(fault: Fault | None) -> None:
        if fault in (Fault.LOSE, Fault.LATE):
            raise TrackerUnavailable("the answer did not get through")


@dataclass(frozen=True, slots=True)
class _Relabel:
    add: str | None
    remove: tuple[str, ...]


def _plan(labels: LabelSet, shown: frozenset[str], move: Move) -> _Relabel | type[AlreadySo] | type[LostRace]:
    present = labels.statuses(shown)
    status = present or frozenset({Status.PENDING})
    if status == {move.to} or (move.to is None and not present):
        return AlreadySo
    if move.expect not in status or status - {move.expect, move.to}:
        return LostRace
    return _only(labels, shown, move.to)


def _only(labels: LabelSet, shown: frozenset[str], status: Status | None) -> _Relabel:
    wanted = None if status is None else labels.label(status)
    surplus = tuple(sorted(label for label in labels.lifecycle(shown) if label != wanted))
    return _Relabel(add=wanted if wanted not in shown else None, remove=surplus)
