"""When periodic work is due. APScheduler decides when; whoever waits for the beat owns the work."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from apscheduler.executors.debug import DebugExecutor
from apscheduler.schedulers.asyncio import AsyncIOScheduler


@dataclass(slots=True)
class Beat:
    """An interval that rings. Rings that nobody was ready for count as one."""

    every: float
    jitter: float = 0.0
    ring: asyncio.Event = field(default_factory=asyncio.Event)

    async def next(self) -> None:
        """Wait for the next ring, but not much longer than the interval.

        The scheduler goes by the wall clock. When that is set back, it would ring again only once the clock has caught
        up, and whoever leads would keep everybody else from the work until then.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.5 * self.every + 2 * self.jitter):
                await self.ring.wait()
        self.ring.clear()


@contextlib.asynccontextmanager
async def beating(beats: Mapping[str, Beat]) -> AsyncIterator[None]:
    """Let every beat ring at once, and then at its interval, until the block is left."""
    # This executor calls the job right here in the event loop. The usual one would set the event, which is not made
    # for that, from a thread, and complain about jobs that the shutdown cancels.
    scheduler = AsyncIOScheduler(timezone="UTC", executors={"default": DebugExecutor()})
    for name, beat in beats.items():
        beat.ring.set()
        scheduler.add_job(
            beat.ring.set,
            "interval",
            seconds=beat.every,
            jitter=beat.jitter or None,
            id=name,
            coalesce=True,
            max_instances=100,  # it only sets an event; on a busy machine two may meet
            misfire_grace_time=None,
        )
    scheduler.start()
    try:
        yield
    finally:
        scheduler.shutdown(wait=False)


async def repeat(beat: Beat, work: Callable[[], Awaitable[object]]) -> None:
    """Do `work` at every ring, one at a time, for ever."""
    while True:
        await beat.next()
        await work()
