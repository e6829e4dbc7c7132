"""A rolling update, in either direction: daemons of this release and of an older one work on the same tickets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.daemons import Daemons
from tests.e2e.place import Place
from tests.support.older_release import unpack
from tests.support.wait import slowly, wait_until


@pytest.fixture
async def daemons(tmp_path: Path) -> AsyncIterator[Daemons]:
    async with Daemons(tmp_path) as daemons:
        yield daemons


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The product as it was then; skipped, loudly, where history does not reach so far."""
    folder = tmp_path_factory.mktemp("older")  # once, because it has to be compiled
    if why := unpack(folder):
        warnings.warn(f"NOT TESTED: daemons of different releases; {why}", stacklevel=1)
        pytest.skip(why)
    return folder


@contextmanager
def older_daemon(older: Path, config: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`agentsmith up` of the older release."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTSMITH_", "COV"))}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "agentsmith", "up", "--config", str(config)],
            cwd=older, env={**environ, "PYTHONPATH": str(older)}, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("leaves", ["the older one", "the newer one"])
async def test_P2_neither_release_stops_or_buries_what_the_other_one_runs(
    tmp_path: Path, redis_url: str, namespace: str, daemons: Daemons, older: Path, leaves: str
) -> None:
    place = Place(tmp_path, redis_url, namespace)
    async with place.store():
        config = place.config(consumer={"slots": 2})
    log = tmp_path / "older.log"
    with older_daemon(older, config, log) as old:
        await wait_until(slowly(lambda: b'"up"' in log.read_bytes()), what="the older one to be up", within=60)
        new = await daemons.start(config)
        await new.said("up")
        place.hold()
        keys = await place.open_tickets(6)
        await place.works(runs=4)  # two of each: both are full, and two tickets wait
        if leaves == "the older one":
            old.send_signal(signal.SIGTERM)
        else:
            new.send(signal.SIGTERM)
        place.finish()
        await place.done(*keys)
        assert place.count("overlap") == 0
        async with place.store() as store:
            assert await store.queue.count_dead_letters() == 0
        assert b"Traceback" not in log.read_bytes()
