"""What the server says about itself and about all that it holds, see `agentsmith.store.store`."""

from __future__ import annotations

from collections.abc import Sequence

from agentsmith.store.keys import Key
from agentsmith.store.scripting import Script


class Depths(Script[list[int]]):
    """How many entries there are in each of the keys (P10)."""

    counted: Sequence[Key]
    counted_by: Sequence[str]
    """The command that counts each of them."""
    lua = """
local counts = {}
for i, key in ipairs(counted) do counts[i] = redis.call(counted_by[i], key) end
return counts
"""


class Now(Script[int]):
    """The server's time in microseconds, by which all processes judge what is due (P5)."""

    lua = "return text(now_us())"
