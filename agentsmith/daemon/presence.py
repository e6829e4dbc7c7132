"""How a process says that it lives, hears which of its runs are to stop, and leaves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from agentsmith.config import Config
from agentsmith.intake.signals import Intake
from agentsmith.running.consumer import Consumer
from agentsmith.store import AWAY, Process, Store

log = structlog.get_logger()


async def report(
    config: Config,
    store: Store,
    process: Callable[[], Process],
    consumer: Consumer | None,
    intake: Intake | None = None,
) -> None:
    """Say that we live, hear what is to stop, and notice when Redis lost its memory; until cancelled."""
    every, ttl = config.consumer.stop_poll, config.lease.renew_every
    epoch: str | None = None
    while True:
        running = consumer.running if consumer is not None else {}
        try:
            heard = await store.presence.tick(process(), ttl=ttl, running=running)
            if epoch not in (None, heard.epoch):
                log.warning("redis lost its memory, putting back what we hold", runs=len(running))
                if intake is not None:
                    intake.look_in_hand()
                if consumer is not None:
                    await consumer.restore()
            if consumer is not None:
                await consumer.settle_again()
                consumer.stop_runs(heard.stops, asked=running)
            epoch = heard.epoch
            store.outage.over()
        except AWAY as error:
            await asyncio.sleep(store.outage.noticed(error))
            continue
        await asyncio.sleep(every)


async def leave(store: Store, process: Process) -> None:
    """Put back what is left in our lists, so that others need not wait until we are missed."""
    with contextlib.suppress(*AWAY, TimeoutError):
        async with asyncio.timeout(2):
            await store.presence.leave(process.name)
            await store.queue.put_back(process.name)
            await store.signals.put_back(process.name)
