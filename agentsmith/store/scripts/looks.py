"""What is kept of the looks at a ticket, see `agentsmith.store.looks`."""

from __future__ import annotations

from agentsmith.store.keys import REASONS_AFTER_END_MS, REASONS_MS, Key
from agentsmith.store.scripting import Script


class Note(Script[None]):
    """Remember what a look saw (P10); one that saw the same as the look before it only moves that one's time."""

    reasons: Key
    word: Key
    head: str
    seen: str
    now: str
    idle: bool
    claimed: bool
    kept = 30
    reasons_live_ms = REASONS_MS
    after_end_ms = REASONS_AFTER_END_MS
    lua = """
local last = redis.call('LINDEX', reasons, -1)
-- A look that saw the same as the one before only moves its time: a year of polls is one line.
if last and string.sub(last, -#seen) == seen then
  redis.call('LSET', reasons, -1, (string.gsub(last, '"last":[%d.]+', '"last":' .. now, 1)))
else
  redis.call('RPUSH', reasons, '{"last":' .. now .. ',"first":' .. now .. head .. seen)
  redis.call('LTRIM', reasons, -kept, -1)
end
if claimed then redis.call('DEL', word) end
-- A look that only saw that the ticket has ended is no reason to keep the account for longer.
local brief = idle and redis.call('EXISTS', word) == 1
redis.call('PEXPIRE', reasons, brief and after_end_ms or reasons_live_ms)
"""
