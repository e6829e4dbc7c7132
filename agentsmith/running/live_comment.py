"""The ticket's comment while a run goes on: brought up to date now and then, never so often that a platform minds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from agentsmith.boottime import boottime
from agentsmith.domain.errors import LeaseLost, TrackerError
from agentsmith.pipelines.outcome import Outcome
from agentsmith.running.account import text_changed
from agentsmith.running.endings import STARTED
from agentsmith.running.intents import intent_of
from agentsmith.running.stages import LeasedRun, Started
from agentsmith.store import AWAY
from agentsmith.tickets.lock import LockBusy

log = structlog.get_logger()


class LiveComment:
    """Writes the comment again, at most once in `run.comment_every`, when something changed. A short run writes none.

    Each look also reads the ticket, so that people learn if they changed its text under a run.
    """

    def __init__(self, run: LeasedRun, started: Started) -> None:
        self._run, self._started = run, started
        self._every = run.context.settings.comment_every
        self._changed = asyncio.Event()
        self._written_at = boottime()
        self._last = ""
        self.text_changed = text_changed(started.ticket, started.at.request)

    def changed(self) -> None:
        """There is something new to tell."""
        self._changed.set()

    async def keep(self, account: Callable[[Outcome], str]) -> None:
        """Write until cancelled; whatever fails is left for the next time, or for the end of the run."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(max(0.0, self._written_at + self._every - boottime()))
            self._changed.clear()
            try:
                await self._write(account)
            except (LockBusy, LeaseLost, *AWAY) as error:
                log.debug("the comment is not brought up to date", why=str(error))
            except TrackerError as error:
                log.info("the comment is not brought up to date", why=str(error))
                await asyncio.sleep(max(0.0, error.retry_at - time.time()) if error.retry_at else 0.0)
            self._written_at = boottime()

    async def _write(self, account: Callable[[Outcome], str]) -> None:
        run, at, tracker = self._run, self._started.at, self._started.tracker
        async with run.lock(tracker) as lock:
            ticket = await tracker.get(at.request.key)
            self.text_changed = text_changed(ticket, at.request)
            intent = intent_of(run, at, STARTED, account(STARTED))
            if intent.note != self._last:
                await run.context.publisher.comment(tracker, ticket, intent, lock=lock, passing=True)
                self._last = intent.note
