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
