"""Which commands in comments were carried out, see `agentsmith.store.seen_commands`."""

from __future__ import annotations

from enum import StrEnum

from agentsmith.store.keys import COMMAND_MS, Key
from agentsmith.store.scripting import Script


class Seen(StrEnum):
    """What is known of a command."""

    NEW = "new"
    """Never heard of; it counts as begun now."""
    BEGUN = "begun"
    """Somebody began with it and did not come to its end."""
    DONE = "done"


class Begin(Script[Seen]):
    """What is known of a command, which is begun from now on (P2: nothing a person asks for is lost)."""

    command: Key
    command_lives_ms = COMMAND_MS
    lua = """
local known = redis.call('GET', command)
if known then return known end
redis.call('SET', command, 'begun', 'PX', command_lives_ms)
return 'new'
"""
