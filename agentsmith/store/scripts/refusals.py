"""What a tracker refuses us, see `agentsmith.store.refusals`."""

from __future__ import annotations

from collections.abc import Sequence

from agentsmith.store.keys import REFUSALS_MS, Key
from agentsmith.store.scripting import Script


class Note(Script[bool]):
    """Remember a refusal for people to read (P10); False when it was known."""

    refusals: Key
    field: str
    details: str
    refusals_live_ms = REFUSALS_MS
    lua = """
local new = redis.call('HSETNX', refusals, field, details)
redis.call('PEXPIRE', refusals, refusals_live_ms)
return new
"""


class Clear(Script[bool]):
    """Forget refusals of what works (P10); False when none of them was known."""

    refusals: Key
    fields: Sequence[str]
    lua = "return redis.call('HDEL', refusals, unpack(fields))"
