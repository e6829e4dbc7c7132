"""The ticket's comment while a run goes on: brought up to date now and then, never so often that a platform minds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import structlog

from agentsmith import logs
from agentsmith.boottime import boottime
from agentsmith.domain.errors import LeaseLost, TrackerError
from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.request import PipelineRequest, text_hash
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Tracker
from agentsmith.store import AWAY, Lease
from agentsmith.tickets.lock import LockBusy
from agentsmith.tickets.publish import Publisher

log = structlog.get_logger()


class LiveComment:
    """Writes the comment again, at most every `every` seconds, when something changed. A short run costs no write.

    Each look also reads the ticket, so that people learn if they changed its text under a run.
    """

    def __init__(
        self,
        publisher: Publisher,
        tracker: Tracker,
        *,
        every: float,
        lock: Callable[[], AbstractAsyncContextManager[Lease]],
        intent: Callable[[], Intent],
    ) -> None:
        self._publisher, self._tracker, self._every = publisher, tracker, every
        self._lock, self._intent = lock, intent
        self._changed = asyncio.Event()
        self._written_at = boottime()
        self._last = ""
        self.text_changed = False

    def changed(self) -> None:
        """There is something new to tell."""
        self._changed.set()

    def noticed(self, ticket: Ticket, pinned: str) -> None:
        """Compare the ticket's text with what the run works on."""
        self.text_changed = text_hash(ticket.title, ticket.body) != pinned

    async def keep(self) -> None:
        """Write until cancelled; whatever fails is left for the next time, or for the end of the run."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(max(0.0, self._written_at + self._every - boottime()))
            self._changed.clear()
            try:
                await self._write()
            except (LockBusy, LeaseLost, *AWAY) as error:
                log.debug("the comment is not brought up to date", why=str(error))
            except TrackerError as error:
                log.info("the comment is not brought up to date", why=str(error))
                await asyncio.sleep(max(0.0, error.retry_at - time.time()) if error.retry_at else 0.0)
            self._written_at = boottime()

    async def _write(self) -> None:
        async with self._lock() as lock:
            intent = self._intent()
            ticket = await self._tracker.get(intent.key)
            self.noticed(ticket, intent.text)
            intent = self._intent()
            if intent.note != self._last:
                await self._publisher.comment(
                    self._tracker, ticket, Status.IN_PROGRESS, intent, lock=lock, passing=True
                )
                self._last = intent.note


def note_start(request: PipelineRequest, platform: str, fence: int) -> None:
    """The line in the log that says: from now on it is in progress."""
    logs.transition(
        log,
        ticket=request.ticket,
        platform=platform,
        run=request.run,
        fence=fence,
        from_=Status.ENQUEUED,
        to=Status.IN_PROGRESS,
        outcome="started",
    )
