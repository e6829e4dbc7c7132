"""The program that a guard runs once its consumer is gone and nothing of the run is left: it releases the lease.

Reads one JSON document from standard input, so that no address with a password stands in a process list. Guards of the
release before this one write the same document.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final
from urllib.parse import quote

from agentsmith import privacy
from agentsmith.boottime import boottime
from agentsmith.domain.ticket import TicketId
from agentsmith.guard.client import LeaseRelease
from agentsmith.store import AWAY, Key, LeaseTimes, RunLease, Store
from agentsmith.store.server.home import ServerHome

_KEEP_TRYING: Final = 100.0
_TAKEN_OVER_WITHIN: Final = 3.0
"""Seconds within which another process of ours would keep the server, if there were one; it takes milliseconds."""


def release_of(
    lease: RunLease, *, url: str, namespace: str, times: LeaseTimes, lock_key: str, data_dir: Path | None = None
) -> LeaseRelease:
    """How a guard releases `lease`; the server at `url` may be the one that is kept in `data_dir`."""
    own = data_dir is not None and url == f"unix://{quote(str(ServerHome(data_dir).published_socket()))}"
    document = {
        "url": url,
        "namespace": namespace,
        "times": asdict(times),
        "ticket": lease.ticket,
        "lease": lease.value,
        "lock": lock_key,
        "kept_in": str(data_dir) if own else "",
    }
    return LeaseRelease(argv=(sys.executable, "-m", "agentsmith.running.release_lease"), input=json.dumps(document))


async def release(document: dict[str, object]) -> None:
    """Release the lease, by compare: one that somebody else has by now is left alone."""
    times = LeaseTimes(**document["times"])  # type: ignore[arg-type]  # written by release_of
    lease = RunLease.parse(TicketId(str(document["ticket"])), str(document["lease"]))
    home = ServerHome(Path(str(document["kept_in"]))) if document.get("kept_in") else None
    kept, give_up = boottime(), boottime() + _KEEP_TRYING
    async with Store(str(document["url"]), times=times, namespace=str(document["namespace"])) as store:
        while boottime() < give_up:
            try:
                await store.runs.release_dead(lease, lock_key=Key(str(document["lock"])))
            except AWAY as error:
                if home is None or home.keeper() is not None:
                    kept = boottime()
                elif boottime() - kept > _TAKEN_OVER_WITHIN:
                    return  # everything was ended at once: the lease runs out, and whoever starts the server sees it
                await asyncio.sleep(min(store.outage.noticed(error), _TAKEN_OVER_WITHIN))
            else:
                return


def main() -> None:
    """Release the lease that standard input describes."""
    privacy.keep_to_ourselves()
    asyncio.run(release(json.load(sys.stdin)))


if __name__ == "__main__":
    main()
