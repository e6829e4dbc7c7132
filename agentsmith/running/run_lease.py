"""Keeping a run's lease: renewed in the background, trusted no longer than Redis grants it, and asked before writes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import structlog

from agentsmith.boottime import boottime
from agentsmith.domain.errors import LeaseLost
from agentsmith.guard.client import Guard
from agentsmith.store import AWAY, Acquired, Store, Trust

log = structlog.get_logger()

_RETRY: Final = 0.2


class KeptLease:
    """The lease of one run in its owner's hands; `on_lost` is called once, when it is no longer."""

    def __init__(self, store: Store, acquired: Acquired, on_lost: Callable[[], None]) -> None:
        self.lease = acquired.lease
        self.lost: str | None = None
        self._store, self._on_lost = store, on_lost
        self._trust = Trust(store.times.ttl, store.times.margin)
        self._trust.renewed(sent_at=acquired.sent_at)
        self._guards: list[Guard] = []
        self._now = asyncio.Event()

    @property
    def until(self) -> float:
        """When the lease is trusted no more, on the boot-time clock: no write may last longer."""
        return self._trust.until

    def watch_over(self, guard: Guard) -> None:
        """Let the guard know how long the run may go on."""
        self._guards.append(guard)

    def renew_now(self) -> None:
        """Do not wait for the next renewal: Redis may have lost the lease."""
        self._now.set()

    def lose(self, why: str) -> None:
        """It is lost: nothing may be written any more (P6)."""
        if self.lost is None:
            self.lost = why
            self._trust.end()
            lease = self.lease
            log.warning(
                "the lease is lost, stopping the run", ticket=lease.ticket, run=lease.run, fence=lease.fence, why=why
            )
            self._on_lost()

    async def begin_write(self) -> None:
        """Called right before a write begins; LeaseLost when a newer fence stands or the trust window closed.

        While Redis is away this waits for it, and with it the write, until the window closes.
        """
        while self._trust.holds:
            try:
                async with asyncio.timeout(max(0.01, self._trust.until - boottime())):
                    granted = await self._store.runs.may_write(self.lease)
            except (*AWAY, TimeoutError) as error:
                self._store.outage.noticed(error)
                await asyncio.sleep(min(_RETRY, self._store.times.renew_every))
                continue
            if granted:
                return
            self.lose("somebody else has taken the ticket over")
        self.lose("the trust window closed before a write could begin")
        raise LeaseLost(f"the lease is lost: {self.lost}")

    async def keep(self) -> None:
        """Renew until cancelled, or until the lease is lost."""
        store, times = self._store, self._store.times
        wait = times.renew_every
        while self.lost is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(wait, max(0.0, self._trust.until - boottime()))):
                    await self._now.wait()
            self._now.clear()
            if not self._trust.holds:
                self.lose("the trust window closed before the lease could be renewed")
                return
            sent = boottime()
            try:
                async with asyncio.timeout(max(0.01, self._trust.until - sent)):
                    word = await store.runs.renew(self.lease, ttl=times.ttl)
            except (*AWAY, TimeoutError) as error:
                store.outage.noticed(error)
                wait = min(_RETRY, times.renew_every)
                continue
            store.outage.over()
            wait = times.renew_every
            if word == "lost":
                self.lose("somebody else has taken the ticket over")
                return
            if word == "restored":
                log.warning("redis had lost the lease; it is put back", ticket=self.lease.ticket, run=self.lease.run)
            self._trust.renewed(sent_at=sent)
            for guard in self._guards:
                guard.trust(self._trust.until)
