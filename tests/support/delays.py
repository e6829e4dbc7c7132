"""Delays in front of and behind every step in Redis, so that nobody can count on how soon one step follows another.

Off by default. `AGENTSMITH_TEST_DELAYS=0.02` puts up to 20 ms on each side of every script: a test that waits for the
first of two steps (a label) and counts on the second (the signal that follows it) fails then, and not once a month.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import pytest

from agentsmith.store.redis_commands import Commands
from agentsmith.store.scripting import Script


def delay_scripts(patch: pytest.MonkeyPatch) -> None:
    """Make every script of this process begin and end late, if the environment says by how much at most."""
    longest = float(os.environ.get("AGENTSMITH_TEST_DELAYS", "0"))
    if not longest:
        return
    carry_out = Script.on

    async def late(self: Script[Any], redis: Commands) -> Any:
        await asyncio.sleep(random.uniform(0, longest))  # time: this is what delays are
        answer = await carry_out(self, redis)
        await asyncio.sleep(random.uniform(0, longest))  # time: this is what delays are
        return answer

    patch.setattr(Script, "on", late)
