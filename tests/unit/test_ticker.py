"""Tickers tick at their interval, whatever the wall clock does."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, tzinfo
from typing import Self

import apscheduler.schedulers.base
import apscheduler.triggers.interval
import pytest

from agentsmith.ticker import Job, Ticker, scheduled


@pytest.mark.parametrize("jump", [timedelta(minutes=-5), timedelta(minutes=5)])
async def test_a_clock_that_jumps_does_not_stop_the_ticker(monkeypatch: pytest.MonkeyPatch, jump: timedelta) -> None:
    off = timedelta()

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + off

    for module in (apscheduler.schedulers.base, apscheduler.triggers.interval):
        monkeypatch.setattr(module, "datetime", Shifted)
    ticks, enough = 0, asyncio.Event()

    async def count() -> None:
        nonlocal ticks, off
        ticks += 1
        if ticks == 3:
            off = jump
        elif ticks == 6:
            off = timedelta()  # set right again, which is a jump back if it had jumped forward
        elif ticks == 9:
            enough.set()

    job = Job("count", Ticker(0.02), count)
    async with scheduled([job]), asyncio.timeout(60):
        counting = asyncio.create_task(job.repeat())
        await enough.wait()
        counting.cancel()
