"""Sentinel with a primary, two replicas and real daemons: failovers, planned and not, while tickets are in every state.

`AGENTSMITH_FAILOVERS=20` (`make failovers`) makes so many of each kind.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.daemons import Daemons
from tests.e2e.place import Place
from tests.e2e.test_daemon import STEADY
from tests.support.sentinels import Deployment, deployed

FAILOVERS: Final = int(os.environ.get("AGENTSMITH_FAILOVERS", "1"))


@pytest.fixture
async def daemons(tmp_path: Path) -> AsyncIterator[Daemons]:
    async with Daemons(tmp_path) as daemons:
        yield daemons


@pytest.fixture
def deployment() -> Iterator[Deployment]:
    with deployed("--appendonly", "no", replicas=2, min_replicas=1) as deployment:
        yield deployment


@pytest.mark.timeout(60 + 60 * FAILOVERS)
@pytest.mark.parametrize("how", ["planned", "by kill"])
async def test_a_failover_ends_no_process_and_overlaps_no_run(
    tmp_path: Path, daemons: Daemons, deployment: Deployment, how: str
) -> None:
    place = Place(tmp_path, deployment.url)
    config = place.config(lease=STEADY)
    crew = [await daemons.start(config) for _ in range(2)]
    keys: list[str] = []
    for _ in range(FAILOVERS):
        # Some run, some end just then, some begin just then.
        place.hold()
        keys += await place.open_tickets(2)
        await place.works(runs=len(keys))
        place.let_go()
        keys += await place.open_tickets(2)
        before = deployment.primary
        place.finish()
        await asyncio.to_thread(deployment.fail_over if how == "planned" else deployment.kill_primary)
        if how == "by kill":
            await asyncio.to_thread(before.start)
        await place.done(*keys)
        (tmp_path / "finish").unlink()
    assert place.count("overlap") == 0
    for daemon in crew:
        daemon.send(signal.SIGTERM)
        assert await daemon.ended() == 0
