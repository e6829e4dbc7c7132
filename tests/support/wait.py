"""Waiting in tests: for something to become true, never for time to pass.

A machine may be busy with anything else, so bounds are far beyond what is needed: they cost nothing but in a test that
fails. Where a promise names a time, `quickest` measures it.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable


async def wait_until(predicate: Callable[[], bool | Awaitable[bool]], *, what: str, within: float = 60.0) -> None:
    """Return once the predicate holds; an AssertionError names what was waited for in vain."""
    give_up = time.monotonic() + within
    while True:
        holds = predicate()
        if inspect.isawaitable(holds):
            holds = await holds
        if holds:
            return
        assert time.monotonic() < give_up, f"waited {within} s in vain: {what}"
        await asyncio.sleep(0.005)  # time: between two looks


async def quickest(measured: Callable[[], Awaitable[float]], *, than: float) -> float:
    """What the quickest of a few tries took, in seconds; no more of them are made once one took less than `than`.

    A machine that is busy makes a try slow, now and then even several; a product that is slow makes all of them slow.
    """
    took = await measured()
    for _ in range(4):
        if took < than:
            break
        took = min(took, await measured())
    return took


def slowly(predicate: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    """For `wait_until`: asks less often, where asking costs more than a look at a variable."""

    async def ask() -> bool:
        await asyncio.sleep(0.03)  # time: between two looks
        return predicate()

    return ask
