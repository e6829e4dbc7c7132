"""The program that a guard runs once its consumer is gone and nothing of the run is left: it releases the lease.

Reads one JSON document from standard input, so that no address with a password stands in a process list. Guards of the
release before this one write the same document.
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
from agentsmith.guard.client import LeaseRelease
from agentsmith.store import AWAY, Key, LeaseTimes, RunLease, Store

_KEEP_TRYING: Final = 100.0


def release_of(lease: RunLease, *, url: str, namespace: str, times: LeaseTimes, lock_key: str) -> LeaseRelease:
    """How a guard releases `lease`."""
    document = {
        "url": url,
        "namespace": namespace,
        "times": asdict(times),
        "ticket": lease.ticket,
        "lease": lease.value,
        "lock": lock_key,
    }
    return LeaseRelease(argv=(sys.executable, "-m", "agentsmith.running.release_lease"), input=json.dumps(document))


async def release(document: dict[str, object]) -> None:
    """Release the lease, by compare: one that somebody else has by now is left alone."""
    times = LeaseTimes(**document["times"])  # type: ignore[arg-type]  # written by release_of
    lease = RunLease.parse(TicketId(str(document["ticket"])), str(document["lease"]))
    give_up = boottime() + _KEEP_TRYING
    async with Store(str(document["url"]), times=times, namespace=str(document["namespace"])) as store:
        while boottime() < give_up:
            try:
                await store.runs.release_dead(lease, lock_key=Key(str(document["lock"])))
            except AWAY as error:
                await asyncio.sleep(store.outage.noticed(error))
            else:
                return


def main() -> None:
    """Release the lease that standard input describes."""
    privacy.keep_to_ourselves()
    asyncio.run(release(json.load(sys.stdin)))


if __name__ == "__main__":
    main()
