"""What people say on tickets: one comment, or all since some moment (T19, T20, T22)."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any, Generic, TypeVar

from agentsmith.domain.conversation import CLOCKS_DIFFER, Acknowledged
from agentsmith.domain.errors import BadAnswer
from agentsmith.domain.webhook import Remark

C = TypeVar("C")
_log = logging.getLogger(__name__)


class Remarks(ABC, Generic[C]):
    """Reads what people say on the tickets of one project; `C` is a comment as the platform tells it."""

    @abstractmethod
    def comment(self, record: object) -> C:
        """A record from a list of comments; raises BadAnswer for a malformed one."""

    @abstractmethod
    async def heard(self, comment: C) -> Remark | None:
        """What a comment says; None where it is not a person's word."""

    @abstractmethod
    async def remark(self, key: str, ref: str) -> Remark | None:
        """The comment on this ticket that a webhook called `ref`; None where there is none (T19)."""

    async def since(self, records: AsyncIterator[Any], since: float) -> tuple[Remark, ...]:
        """What was said since then, oldest first (T22); what has no time could be anything."""
        said: list[tuple[float, Remark]] = []
        async for record in records:
            try:
                comment = self.comment(record)
            except BadAnswer as error:
                # One that cannot be read is no reason to hear nobody.
                _log.warning("skipped a malformed comment", extra={"error": str(error)})
                continue
            remark = await self.heard(comment)
            if remark is not None and remark.at is not None:
                said.append((remark.at.timestamp(), remark))
        ordered = sorted(said, key=lambda timed: timed[0])
        return tuple(remark for at, remark in ordered if at >= since - CLOCKS_DIFFER)

    async def acknowledge(self, key: str, ref: str, *, deadline: float) -> Acknowledged:  # noqa: ARG002
        """Let the writer see that the comment was read (T20); here there are no reactions."""
        return Acknowledged.NO_WAY
