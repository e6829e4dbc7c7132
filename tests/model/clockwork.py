"""Virtual time for the model: one clock for trust windows, for asyncio's timers and, by ageing its keys, for Redis.

The server is real and so is its clock. Instead of waiting, `age` makes everything that Redis holds older: times to
live shrink, and moments in sorted sets move into the past. What real time passes meanwhile only adds to that, so the
model moves in steps of `STEP` seconds and keeps every threshold at least half a second away from a multiple of it.

Wall-clock readings that are only ever compared with moments in Redis (`intents.due`, `signals.ripen`, …) stay real,
because those moments are aged; only `Trust`, which lives in a process, reads the model's wall clock.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Final
from unittest.mock import patch

from agentsmith import boottime
from agentsmith.store import LeaseTimes, leases

STEP: Final = 8.0
TIMES: Final = LeaseTimes(ttl=46.0, renew_every=15.0, margin=11.0, lock=22.0, leader=22.0)
"""Proportions like the defaults. Two looks after a settling period end later than any trust window (26 + 15 > 35),
so that even a paused consumer and a FLUSHALL together do not overlap two runs of a ticket that says in-progress."""
WINDOW: Final = TIMES.ttl - TIMES.margin

AGE: Final = """
local ms = tonumber(ARGV[2])
local first = #ARGV[1] + 2
local in_ms = {released = 1, suspects = 1, intents = 1, due = 1, reservations = 1, ['signals:later'] = 1}
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. ':*')) do
  local name = string.sub(key, first)
  local scale = in_ms[name] or (string.sub(name, 1, 7) == 'claims:' and 1000)
  if scale then
    local found = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    for i = 1, #found, 2 do
      redis.call('ZADD', key, string.format('%.3f', tonumber(found[i + 1]) - ms * scale), found[i])
    end
  end
  if string.sub(name, 1, 7) == 'intent:' then
    local due = redis.call('HGET', key, 'due')
    if due and due ~= '' then redis.call('HSET', key, 'due', string.format('%.6f', tonumber(due) - ms / 1000)) end
  end
  local left = redis.call('PTTL', key)
  if left >= 0 and left <= ms then
    redis.call('DEL', key)
  elseif left >= 0 then
    redis.call('PEXPIRE', key, left - ms)
  end
end
"""
"""Namespace and milliseconds: everything in Redis becomes that much older."""

FLUSH: Final = "for _, key in ipairs(redis.call('KEYS', ARGV[1] .. ':*')) do redis.call('DEL', key) end"
"""FLUSHALL for one namespace: the epoch goes with the rest."""


class Clock:
    """The model's time in seconds; it stands still unless somebody moves it."""

    def __init__(self) -> None:
        self.now = 100_000.0

    @property
    def wall(self) -> float:
        """The same moment for people."""
        return 1_700_000_000.0 + self.now


class ModelLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers go by the model's clock, while its sockets are real."""

    def __init__(self, clock: Clock) -> None:
        self._model = clock
        super().__init__()

    def time(self) -> float:
        return self._model.now

    @property
    def busy(self) -> bool:
        """Whether anything can go on right now; what waits for a timer or for an answer does not count."""
        return bool(getattr(self, "_ready"))  # noqa: B009 - asyncio has no public word for it


@contextlib.contextmanager
def going_by(clock: Clock) -> Iterator[None]:
    """Let the code under test read the model's clock."""
    with (
        patch.object(boottime, "time", SimpleNamespace(clock_gettime=lambda _: clock.now)),
        patch.object(leases, "time", SimpleNamespace(time=lambda: clock.wall)),
    ):
        yield
