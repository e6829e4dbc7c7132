"""Beats ring at their interval, whatever the wall clock does."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, tzinfo
from typing import Self

import apscheduler.schedulers.base
import apscheduler.triggers.interval
import pytest

from agentsmith.ticker import Beat, beating, repeat


@pytest.mark.parametrize("jump", [timedelta(minutes=-5), timedelta(minutes=5)])
async def test_a_clock_that_jumps_does_not_stop_the_beat(monkeypatch: pytest.MonkeyPatch, jump: timedelta) -> None:
    off = timedelta()

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + off

    for module in (apscheduler.schedulers.base, apscheduler.triggers.interval):
        monkeypatch.setattr(module, "datetime", Shifted)
    rings, enough = 0, asyncio.Event()

    async def count() -> None:
        nonlocal rings, off
        rings += 1
        if rings == 3:
            off = jump
        elif rings == 6:
            off = timedelta()  # set right again, which is a jump back if it had jumped forward
        elif rings == 9:
            enough.set()

    beat = Beat(0.02)
    async with beating({"beat": beat}), asyncio.timeout(60):
        beats = asyncio.create_task(repeat(beat, count))
        await enough.wait()
        beats.cancel()
