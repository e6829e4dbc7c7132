"""What the replicas of one installation share about a platform's API."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Final, TypeVar

import structlog

from agentsmith.domain.errors import StoreUnavailable
from agentsmith.trackers.http.etags import EtagCache, LocalEtags
from agentsmith.trackers.http.governor import Governor, LocalGovernor
from agentsmith.trackers.http.labellock import LabelLock, LocalLabelLock
from agentsmith.trackers.http.ledger import Ledger, LocalLedger

log = structlog.get_logger()

T = TypeVar("T")
_PATIENCE: Final = 2.0


@dataclass(frozen=True, slots=True)
class Shared:
    """Governor, ETag cache, ledger and label lock; the defaults serve one process, the store's serve all replicas.

    Implementations raise StoreUnavailable and nothing else when they cannot be reached.
    """

    governor: Governor = field(default_factory=LocalGovernor)
    etags: EtagCache = field(default_factory=LocalEtags)
    ledger: Ledger = field(default_factory=LocalLedger)
    label_lock: LabelLock = field(default_factory=LocalLabelLock)


async def if_possible(work: Awaitable[T]) -> T | None:
    """The result, or None when what is shared is away: what a request did must not be lost over its bookkeeping."""
    try:
        async with asyncio.timeout(_PATIENCE):
            return await work
    except (StoreUnavailable, TimeoutError) as error:
        log.warning("a request could not be booked", error=str(error) or type(error).__name__)
        return None
