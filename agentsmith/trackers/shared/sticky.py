"""Our one comment per ticket: how it is found, and how it stays one (T13). The same on every platform.

A platform says how comments are read, which of them has our form, and how one is made and edited; when to do which is
decided here. A comment that may or may not have been made is looked for, never sent twice.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from agentsmith.domain.errors import TicketNotFound, TrackerError
from agentsmith.domain.memo import Memo
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Sticky
from agentsmith.trackers.http import OutcomeUnknown
from agentsmith.trackers.shared.api import OnProject, ProjectApi, S
from agentsmith.trackers.shared.memory import Snapshot, TicketMemory
from agentsmith.trackers.shared.people import Accounts

_REF: Final = re.compile(r"([0-9]{1,18})(?:[.@](.{1,200}))?")
"""The number of a comment, and who wrote it."""


class StickyComments(OnProject[S], ABC):
    """Reads and writes our comments on the tickets of one project."""

    uncertain: tuple[type[TrackerError], ...] = (OutcomeUnknown,)
    """After which errors of `create` the comment may be there and has to be looked for."""

    def __init__(
        self, api: ProjectApi[S], *, key: Callable[[str], str], people: Accounts, memory: TicketMemory[Any]
    ) -> None:
        """`key` is a ticket's key as the platform has it; it raises TicketNotFound for what cannot be one."""
        super().__init__(api)
        self.key = key
        self._people = people
        self._memory = memory

    # --- what a platform says of its comments ---------------------------------------------------------------------

    @abstractmethod
    def fit(self, text: str, memo: Memo) -> str:
        """The text as it will stand in the comment: harmless, and cut to the platform's limit."""

    @abstractmethod
    def records(self, key: str, *, deadline: float | None = None) -> AsyncIterator[Any]:
        """Every comment on the ticket, as the platform tells it."""

    @abstractmethod
    async def recognise(self, record: object, *, deadline: float | None) -> Sticky | None:
        """The comment as our own, if it has our form and our account wrote it."""

    @abstractmethod
    async def create(self, key: str, fitted: str, memo: Memo, *, deadline: float) -> Sticky:
        """Make our comment."""

    @abstractmethod
    async def edit(self, key: str, comment: str, fitted: str, memo: Memo, *, deadline: float) -> Sticky:
        """Replace our comment's text and memo; raises TicketNotFound where the comment is gone."""

    @abstractmethod
    async def post(self, key: str, text: str, *, deadline: float) -> None:
        """Make a comment that is never taken for the sticky one (T16)."""

    # --- what follows from it -------------------------------------------------------------------------------------

    async def read(self, ticket: Ticket, *, deadline: float | None = None) -> Sticky | None:
        """Our comment on the ticket, if there is one and we wrote it."""
        key = self.key(ticket.key)
        found: Sticky | None = None
        async for record in self.records(key, deadline=deadline):
            sticky = await self.recognise(record, deadline=deadline)
            # Two of ours can only come from a lost answer; the one that the newest run wrote is the one.
            if sticky is not None and (found is None or _fence(sticky) > _fence(found)):
                found = sticky
        if found is not None:
            self._memory.of(key).comment = comment_id(found.ref)
        return found

    async def write(self, ticket: Ticket, text: str, memo: Memo, *, known: Sticky | None, deadline: float) -> Sticky:
        """Make our comment or edit it in place; what stands there already is not written again."""
        key, snapshot = self.key(ticket.key), ticket.native if isinstance(ticket.native, Snapshot) else None
        async with self._memory.lock(key):
            known = known or self.just_said(snapshot)
            fitted = self.fit(text, memo)
            if known is not None:
                if (known.text, known.memo) == (fitted, memo):
                    return known
                if await self._is_ours(key, known, deadline):
                    edited = await self._edit(key, known, fitted, memo, deadline)
                    if edited is not None:
                        return edited
            elif self._memory.has_no_comment(snapshot, self._now()):
                return await self._create(ticket, fitted, memo, deadline)
            there = await self.read(ticket, deadline=deadline)
            self._memory.of(key).in_doubt = False
            if there is not None and (there.text, there.memo) == (fitted, memo):
                return there
            edited = None if there is None else await self._edit(key, there, fitted, memo, deadline)
            return edited or await self._create(ticket, fitted, memo, deadline)

    async def say(self, ticket: Ticket, text: str, *, deadline: float) -> None:
        """Post a comment of its own (T16)."""
        key = self.key(ticket.key)
        async with self._memory.lock(key):
            await self.post(key, text, deadline=deadline)

    def just_said(self, snapshot: Snapshot | None) -> Sticky | None:  # noqa: ARG002
        """Our comment, where a move can carry it (T18) and the move that left the ticket like this did so."""
        return None

    async def _is_ours(self, key: str, known: Sticky, deadline: float) -> bool:
        """Whether the comment behind `known` is really ours; the reference itself says who wrote it."""
        found = _REF.fullmatch(known.ref)
        if found is None:
            return False
        if self._memory.of(key).comment == found[1]:
            return True
        # Without an author in it the reference is not one of ours: the search by form decides then.
        return found[2] is not None and found[2] == await self._people.my_id(deadline=deadline)

    async def _edit(self, key: str, sticky: Sticky, fitted: str, memo: Memo, deadline: float) -> Sticky | None:
        """Bring our comment up to date; None when it is gone."""
        try:
            edited = await self.edit(key, comment_id(sticky.ref), fitted, memo, deadline=deadline)
        except TicketNotFound:
            self._memory.comment_gone(key)
            return None
        self._memory.commented(key, comment_id(edited.ref))
        return edited

    async def _create(self, ticket: Ticket, fitted: str, memo: Memo, deadline: float) -> Sticky:
        key = self.key(ticket.key)
        remembered = self._memory.of(key)
        remembered.in_doubt = True  # until an answer says otherwise; a garbled one or a cancelled call says nothing
        try:
            created = await self.create(key, fitted, memo, deadline=deadline)
        except self.uncertain:
            there = await self.read(ticket, deadline=deadline)
            if there is None:
                raise
            remembered.in_doubt = False
            return there
        self._memory.commented(key, comment_id(created.ref))
        return created


def comment_id(ref: str) -> str:
    """The number of the comment behind the reference of a sticky comment."""
    found = _REF.fullmatch(ref)
    return found[1] if found else "0"


def _fence(sticky: Sticky) -> int:
    return sticky.memo.fence if sticky.memo else -1
