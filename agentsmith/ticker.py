"""When periodic work is due, and that long work leaves others their turn.

APScheduler decides when it is due; whoever waits for the tick owns the work.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from apscheduler.executors.debug import DebugExecutor
from apscheduler.schedulers.asyncio import AsyncIOScheduler

T = TypeVar("T")

AT_ONCE: Final = 500
"""Tickets that are dealt with before the event loop has its turn."""


async def taking_turns(things: AsyncIterator[T]) -> AsyncIterator[T]:
    """The things, with a turn for everybody else now and then: some are remembered, and come without any waiting."""
    count = 0
    async for thing in things:
        yield thing
        count += 1
        if count % AT_ONCE == 0:
            await asyncio.sleep(0)


@dataclass(slots=True)
class Ticker:
    """Ticks at an interval. Ticks that nobody was ready for count as one."""

    every: float
    jitter: float = 0.0
    due: asyncio.Event = field(default_factory=asyncio.Event)
    """Set it to have the work done now."""

    async def next(self) -> None:
        """Wait for the next tick, but not much longer than the interval.

        The scheduler goes by the wall clock. When that is set back, it would tick again only once the clock has caught
        up, and whoever leads would keep everybody else from the work until then.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.5 * self.every + 2 * self.jitter):
                await self.due.wait()
        self.due.clear()


@dataclass(frozen=True, slots=True)
class Job:
    """Work that is done at every tick, one at a time."""

    name: str
    ticker: Ticker
    run: Callable[[], Awaitable[object]]

    async def repeat(self) -> None:
        """Do it at every tick, for ever."""
        while True:
            await self.ticker.next()
            await self.run()


@contextlib.asynccontextmanager
async def scheduled(jobs: Iterable[Job]) -> AsyncIterator[None]:
    """Let the ticker of every job tick at once, and then at its interval, until the block is left."""
    # This executor calls the job right here in the event loop. The usual one would set the event, which is not made
    # for that, from a thread, and complain about jobs that the shutdown cancels.
    scheduler = AsyncIOScheduler(timezone="UTC", executors={"default": DebugExecutor()})
    for job in jobs:
        job.ticker.due.set()
        scheduler.add_job(
            job.ticker.due.set,
            "interval",
            seconds=job.ticker.every,
            jitter=job.ticker.jitter or None,
            id=job.name,
            coalesce=True,
            max_instances=100,  # it only sets an event; on a busy machine two may meet
            misfire_grace_time=None,
        )
    scheduler.start()
    try:
        yield
    finally:
        scheduler.shutdown(wait=False)


async def run_jobs(*jobs: Job) -> None:
    """Do every job now and then at its ticks, for ever; the first that fails ends them all."""
    async with scheduled(jobs), asyncio.TaskGroup() as group:
        for job in jobs:
            group.create_task(job.repeat())
