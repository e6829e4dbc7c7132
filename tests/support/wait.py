"""Waiting in tests: for something to become true, never for time to pass."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable


async def wait_until(predicate: Callable[[], bool | Awaitable[bool]], *, what: str, within: float = 10.0) -> None:
    """Return once the predicate holds; an AssertionError names what was waited for in vain."""
    give_up = time.monotonic() + within
    while True:
        holds = predicate()
        if inspect.isawaitable(holds):
            holds = await holds
        if holds:
            return
        assert time.monotonic() < give_up, f"waited {within} s in vain: {what}"
        await asyncio.sleep(0.005)


def slowly(predicate: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    """For `wait_until`: asks less often, where asking costs more than a look at a variable."""

    async def ask() -> bool:
        await asyncio.sleep(0.03)
        return predicate()

    return ask
