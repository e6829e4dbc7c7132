"""Stopping a run: everything that it started is gone within two seconds of the word, plus the grace. Measured."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentsmith.config import Consumer as ConsumerSettings
from agentsmith.config import Grace, Pipeline
from agentsmith.daemon.process import tick
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.signal import Signal
from agentsmith.store import Store
from tests.support.processes import is_alive
from tests.support.wait import quickest, wait_until
from tests.support.world import TRIGGER, World, open_world, world_config

GRACE = 1.0
BOUND = 2.0 + GRACE

STUBBORN = """
import os, signal, sys, time
def note():
    with open(sys.argv[1], "a") as file:
        file.write(f"{os.getpid()}\\n")
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    if os.fork() == 0:   # a grandchild whose parent is gone
        os.setsid()      # in a session of its own
        note()
        time.sleep(600)
    os._exit(0)
os.wait()
if os.fork() == 0:
    os.setpgid(0, 0)     # a child in a group of its own
    note()
    time.sleep(600)
note()
print("::progress busy", flush=True)
time.sleep(600)
"""


def living(pids: Path) -> list[int]:
    """Those of the noted processes that still run."""
    return [pid for pid in map(int, pids.read_text().split()) if is_alive(pid)]


@pytest.fixture
async def world(tmp_path: Path, store: Store, redis_url: str) -> AsyncIterator[World]:
    """A world at work, with a consumer that hears what is to stop as a daemon does, at the default pace."""
    program = tmp_path / "stubborn.py"
    program.write_text(STUBBORN)
    steps = [{"run": ["python3", str(program), str(tmp_path / "pids")]}]
    config = world_config(
        tmp_path / "data",
        pipelines={"work": Pipeline.model_validate({"steps": steps})},
        consumer=ConsumerSettings(kill_grace=Grace(GRACE)),
    )
    async with open_world(tmp_path, store, redis_url, config=config) as made:
        serving = asyncio.create_task(made.consumer.serve())
        ticking = asyncio.create_task(tick(config, store, lambda: made.process, made.consumer))
        yield made
        await made.consumer.drain(timeout=0)
        ticking.cancel()
        await asyncio.wait({serving, ticking})


@pytest.mark.parametrize("way", ["cancel", "unlabel", "close"])
async def test_everything_is_gone_within_two_seconds_and_the_grace(world: World, tmp_path: Path, way: str) -> None:
    assert await quickest(lambda: stopped(world, tmp_path / "pids", way), than=BOUND) < BOUND


async def stopped(world: World, pids: Path, way: str) -> float:
    """Stop the run of a new ticket; answers after how many seconds nothing of it was left."""
    key = await world.open_ticket()
    await world.claim(key)
    await wait_until(lambda: pids.exists() and len(living(pids)) == 3, what="all three processes")
    said = time.monotonic()
    if way == "cancel":
        await world.store.runs.request_stop(world.ticket_id(key), "cancelled by mona")
    else:
        await (
            world.desk.unlabel(key, TRIGGER, actor="mona") if way == "unlabel" else world.desk.close(key, actor="mona")
        )
        await world.parts.looks.on_signal(Signal("local", key, world.ticket_id(key), cause="a person changed it"))
    await wait_until(lambda: not living(pids), what="everything to be gone")
    took = time.monotonic() - said
    expected = frozenset({Status.FAILED} if way == "cancel" else ())

    async def told() -> bool:
        return await world.statuses(key) == expected

    await wait_until(told, what="the label to say so")
    if way == "cancel":
        assert "cancelled by mona" in (await world.comments(key))[0]
    return took
