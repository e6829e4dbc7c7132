"""Two real processes race for the same tickets: each ticket runs exactly once.

The processes have every role and four slots each, as two replicas would. Each ticket is announced by three signals one
behind the other, so that several hands of both processes look at the same ticket in the same moment; the poller of
whichever process leads adds its own. The work is a shell that appends one line: a thousand guards with a child each are
most of what this test costs.
"""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from agentsmith.domain.signal import Signal
from tests.e2e.daemons import Daemons
from tests.e2e.place import FOREIGN, Place, slowly
from tests.support.wait import wait_until
from tests.support.world import TRIGGER

TICKETS: Final = 1000
ANNOUNCED: Final = 3


@pytest.mark.timeout(400)
async def test_two_processes_racing_for_a_thousand_tickets_make_a_thousand_runs(
    tmp_path: Path, redis_url: str, namespace: str
) -> None:
    ran = tmp_path / "ran"
    note = f'echo "$AGENTSMITH_TICKET_KEY $AGENTSMITH_RUN_ID $AGENTSMITH_ATTEMPT" >> {ran}'
    place = Place(tmp_path, redis_url, namespace, step={"run": note})
    # Not sped up: nothing here waits for a lease to lapse, and the machine is busy on purpose.
    patient = {"ttl": "2m", "renew_every": "30s", "margin": "20s", "claim_lock": "30s", "leader": "30s"}
    config = place.config(lease=patient, consumer={"slots": 4})
    keys = await place.open_tickets(TICKETS)
    async with place.store() as store, Daemons(tmp_path) as daemons:
        signals = [Signal("local", key, place.ticket_id(key), cause="race").to_json() for key in keys]
        await store.redis.rpush(store.keys.inbox, *(text for text in signals for _ in range(ANNOUNCED)))
        both = [await daemons.start(config) for _ in range(2)]

        def runs() -> list[str]:
            return ran.read_text().splitlines() if ran.exists() else []

        await wait_until(slowly(lambda: len(runs()) >= TICKETS), what="a thousand runs", within=300)
        done = dict.fromkeys(keys, FOREIGN | {TRIGGER, "agent-smith:done"})
        await wait_until(slowly(lambda: place.all_labels() == done), what="every ticket to be done", within=60)
        for daemon in both:
            daemon.send(signal.SIGTERM)
        assert [await daemon.ended() for daemon in both] == [0, 0]
        # Nothing more came after the thousandth, and no ticket came twice.
        assert Counter(line.split()[0] for line in runs()) == dict.fromkeys(keys, 1)
        assert {line.split()[2] for line in runs()} == {"1"}
        assert not await store.runs.running()
        assert not await store.queue.waiting()
        for daemon in both:
            claimed = [line for line in daemon.lines("transition") if line["to"] == "enqueued"]
            finished = [line for line in daemon.lines("transition") if line["to"] == "done"]
            assert min(len(claimed), len(finished)) > TICKETS / 10, "one of them did nearly everything: no race"
        busy = sum(line["why"] == "somebody else is looking at it" for d in both for line in d.lines("deferred"))
        assert busy > 0, "no two hands ever met at one ticket: no race"
