"""Two real processes race for the same tickets: each ticket runs exactly once.

The processes have every role and four slots each, as two replicas would. Each ticket is announced by two signals one
behind the other, so that hands of both processes look at the same ticket in the same moment; the poller of whichever
process leads adds its own.

The race is for the claim and for the request. A guard and a child per run take no part in it but would be two thirds of
the cost, so the thousand runs of the first test note their line without a process, and the forty of the second have
one. AGENTSMITH_CRASH_FULL=1 gives all of them a process.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from agentsmith.domain.signal import Signal
from tests.e2e.daemons import DaemonProcess, Daemons
from tests.e2e.faulty_daemon import Plan
from tests.e2e.place import Place
from tests.support.stores import all_queued
from tests.support.wait import slowly, wait_until

ANNOUNCED: Final = 2
ROUNDS: Final = 5
"""At most so many, until it was a race."""
FULL: Final = bool(os.environ.get("AGENTSMITH_CRASH_FULL"))


@pytest.mark.long
@pytest.mark.timeout(500)
@pytest.mark.parametrize(("tickets", "processes"), [(1000, FULL), (40, True)])
async def test_each_ticket_that_two_processes_race_for_runs_once(
    tmp_path: Path, redis_url: str, namespace: str, tickets: int, processes: bool
) -> None:
    ran = tmp_path / "ran"
    note = f'echo "$AGENTSMITH_TICKET_KEY $AGENTSMITH_RUN_ID $AGENTSMITH_ATTEMPT" >> {ran}'
    place = Place(tmp_path, redis_url, namespace, step={"run": note})
    config = place.config(
        # Not sped up: nothing here waits for a lease to lapse, and the machine is busy on purpose.
        lease={"ttl": "2m", "renew_every": "30s", "margin": "20s", "claim_lock": "30s", "leader": "30s"},
        housekeeping={"sweep_every": "5s", "stale_every": "1m", "reconcile_every": "10m"},
        trackers={"local": {"platform": "local", "poll_interval": "5s"}},
        consumer={"slots": 4},
    )
    plan = Plan(str(tmp_path), pretend="" if processes else str(ran))
    keys: list[str] = []
    async with place.store() as store, Daemons(tmp_path) as daemons:
        both = [await daemons.start(config, plan=plan) for _ in range(2)]

        def runs() -> list[str]:
            return ran.read_text().splitlines() if ran.exists() else []

        def all_ran() -> bool:
            return len(runs()) >= len(keys)

        for _ in range(ROUNDS):
            fresh = await place.open_tickets(tickets)
            keys.extend(fresh)
            signals = [Signal("local", key, place.ticket_id(key), cause="race").to_json() for key in fresh]
            await store.redis.rpush(store.keys.inbox, *(text for text in signals for _ in range(ANNOUNCED)))
            await wait_until(slowly(all_ran), what=f"{len(keys)} runs", within=400)
            await place.done(*fresh)
            if raced(both, len(keys)):
                break
        assert raced(both, len(keys)), f"no race in {ROUNDS} rounds: one did nearly everything, or no two hands met"
        for daemon in both:
            daemon.send(signal.SIGTERM)
        assert [await daemon.ended() for daemon in both] == [0, 0]
        # Nothing more came after the last, and no ticket came twice.
        assert Counter(line.split()[0] for line in runs()) == dict.fromkeys(keys, 1)
        assert {line.split()[2] for line in runs()} == {"1"}
        assert not await store.runs.running()
        assert not await all_queued(store)


def raced(both: list[DaemonProcess], tickets: int) -> bool:
    """Whether each had its share of claims and runs, and hands met: a busy machine may let one of them sleep."""
    shares = [
        sum(line["to"] == to for line in daemon.lines("transition")) for daemon in both for to in ("enqueued", "done")
    ]
    met = any(line["why"] == "somebody else is looking at it" for d in both for line in d.lines("deferred"))
    return met and min(shares) > tickets / 10
