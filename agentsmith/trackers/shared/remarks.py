"""What was said on a ticket since some moment, of all comments that a platform tells (T22)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, TypeVar

from agentsmith.domain.conversation import CLOCKS_DIFFER
from agentsmith.domain.errors import BadAnswer
from agentsmith.domain.webhook import Remark

_log = logging.getLogger(__name__)
Record = TypeVar("Record")


async def readable(records: AsyncIterator[Any], kind: type[Record], read: Callable[..., Any]) -> AsyncIterator[Record]:
    """The records that can be read; one that cannot is no reason to hear nobody."""
    async for record in records:
        try:
            comment: Record = read(kind, record, "a comment")
        except BadAnswer as error:
            _log.warning("skipped a malformed comment", extra={"error": str(error)})
        else:
            yield comment


def told_since(said: Iterable[Remark | None], since: float) -> tuple[Remark, ...]:
    """What was written since then, oldest first; what has no time could be anything."""
    timed = [(remark.at.timestamp(), remark) for remark in said if remark is not None and remark.at is not None]
    return tuple(remark for at, remark in sorted(timed, key=lambda each: each[0]) if at >= since - CLOCKS_DIFFER)
