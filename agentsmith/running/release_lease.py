"""What a guard runs once its consumer is gone and nothing of the run is left: give the lease back, by compare.

Reads one JSON document from standard input, so that no address with a password stands in a process list.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from typing import Final

from agentsmith import privacy
from agentsmith.boottime import boottime
from agentsmith.domain.ticket import TicketId
from agentsmith.guard.client import Farewell
from agentsmith.store import AWAY, LeaseTimes, RunLease, Store

_KEEP_TRYING: Final = 100.0


def farewell_for(lease: RunLease, *, url: str, namespace: str, times: LeaseTimes, lock_key: str) -> Farewell:
    """The farewell that gives up `lease`."""
    told = {
        "url": url,
        "namespace": namespace,
        "times": asdict(times),
        "ticket": lease.ticket,
        "lease": lease.value,
        "lock": lock_key,
    }
    return Farewell(argv=(sys.executable, "-m", "agentsmith.running.release_lease"), input=json.dumps(told))


async def _release(told: dict[str, object]) -> None:
    times = LeaseTimes(**told["times"])  # type: ignore[arg-type]  # written by farewell_for
    lease = RunLease.parse(TicketId(str(told["ticket"])), str(told["lease"]))
    give_up = boottime() + _KEEP_TRYING
    async with Store(str(told["url"]), times=times, namespace=str(told["namespace"])) as store:
        while boottime() < give_up:
            try:
                await store.runs.release_dead(lease, lock_key=str(told["lock"]))
            except AWAY as error:
                await asyncio.sleep(store.outage.noticed(error))
            else:
                return


def main() -> None:
    """Give back the lease that standard input describes."""
    privacy.keep_to_ourselves()
    asyncio.run(_release(json.load(sys.stdin)))


if __name__ == "__main__":
    main()
