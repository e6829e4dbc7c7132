"""The watch on the event loop sees who keeps it to himself."""

from __future__ import annotations

import asyncio
import asyncio.events
import json
import time
from pathlib import Path

import pytest

from tests.support.loop_watch import NOTICED, LoopWatch


async def test_a_turn_that_takes_long_is_written_down_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio.events.Handle, "_run", asyncio.events.Handle._run)  # put back afterwards
    watch = LoopWatch(tmp_path / "blocks.jsonl")
    watch.install()

    async def hog() -> None:
        until = time.thread_time() + 2 * NOTICED
        while time.thread_time() < until:
            pass

    await asyncio.create_task(asyncio.sleep(0))
    await asyncio.create_task(hog())
    await asyncio.sleep(0)
    watch.stop()
    [line] = map(json.loads, (tmp_path / "blocks.jsonl").read_text().splitlines())
    assert line["is"] == "blocked"
    assert line["seconds"] > NOTICED
