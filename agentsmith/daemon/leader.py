"""Leadership: do the work only while the lease is trusted, and await its end when it is not.

The lease is renewed by compare, and the renewal has a deadline: the end of the trust window, which closes well before
Redis would give the lease to anybody else. By then the work has ended. Leadership only saves requests: two leaders at
once are safe, because each action is fenced and re-read.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable

import structlog

from agentsmith.boottime import boottime
from agentsmith.domain.errors import causes_of
from agentsmith.store import AWAY, LeaderLease, Outage

log = structlog.get_logger()

Work = Callable[[], Awaitable[None]]


async def lead(role: str, lease: LeaderLease, work: Work, outage: Outage) -> None:
    """Run `work` whenever this process leads `role`; for ever. Work that fails gives the lease up."""
    while True:
        pause = lease.ttl / 6
        try:
            leading = await lease.take()
            outage.over()
        except AWAY as error:
            await asyncio.sleep(outage.noticed(error))
            continue
        if leading:
            log.info("leading", role=role, fence=lease.fence)
            try:
                await _while_trusted(lease, work, outage)
            except Exception as error:
                causes = causes_of(error)
                if all(isinstance(cause, AWAY) for cause in causes):
                    outage.noticed(causes[0])
                else:
                    log.error("the leader's work failed; the lease is given up", role=role, exc_info=error)
                    pause = lease.ttl / 2  # whoever stands by may do better, so let them be first
            finally:
                with contextlib.suppress(*AWAY, TimeoutError):
                    async with asyncio.timeout(lease.margin):
                        await lease.release()
                log.info("no longer leading", role=role, fence=lease.fence)
        # Spread out, so that followers do not all ask in the same moment.
        await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreads load, guards nothing


async def _while_trusted(lease: LeaderLease, work: Work, outage: Outage) -> None:
    working = asyncio.ensure_future(work())
    renewing = asyncio.create_task(_renew(lease, outage))
    try:
        await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, renewing):
            task.cancel()
        await asyncio.wait({working, renewing})
    if not working.cancelled():
        working.result()


async def _renew(lease: LeaderLease, outage: Outage) -> None:
    """Renew until the lease is lost; ends inside the trust window, so that the work can end there too."""
    every = lease.ttl / 3
    wait = every
    while True:
        await asyncio.sleep(max(0.0, min(wait, lease.trust.until - boottime())))
        if not lease.trust.holds:
            return
        try:
            async with asyncio.timeout(max(0.001, lease.trust.until - boottime())):
                if not await lease.renew():
                    return
            outage.over()
            wait = every
        except TimeoutError:
            return
        except AWAY as error:
            wait = min(every, outage.noticed(error))
