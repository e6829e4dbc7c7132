"""Why a ticket did or did not run: what each look at it saw, kept for a while so that "why not last night" works."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from agentsmith.domain.gates import Gate, GateResult
from agentsmith.domain.ticket import TicketId
from agentsmith.store.commands import Commands
from agentsmith.store.keys import REASONS_MS, Keys
from agentsmith.store.scripting import Script

_KEPT: Final = 30
_NOTE: Final = Script(f"""
local reasons = KEYS[1]
local entry, same, now = unpack(ARGV)
local last = redis.call('LINDEX', reasons, -1)
-- A look that saw the same as the one before only moves its time: a year of polls is one line.
if last then
  local known = cjson.decode(last)
  if known.same == same then
    redis.call('LSET', reasons, -1, (string.gsub(last, '"last":[%d.]+', '"last":' .. now, 1)))
    redis.call('PEXPIRE', reasons, {REASONS_MS})
    return
  end
end
redis.call('RPUSH', reasons, entry)
redis.call('LTRIM', reasons, -{_KEPT}, -1)
redis.call('PEXPIRE', reasons, {REASONS_MS})
""")


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a ticket saw, when it first saw it and when last, and what came of it."""

    first: float
    last: float
    cause: str
    outcome: str
    why: str
    gates: tuple[GateResult, ...]


class Reasons:
    """A bounded ledger of looks, per ticket."""

    def __init__(self, redis: Commands, keys: Keys) -> None:
        self._redis, self._keys = redis, keys

    async def note(
        self, ticket: TicketId, *, at: float, cause: str, outcome: str, why: str, gates: Sequence[GateResult]
    ) -> None:
        """Remember what a look saw."""
        told = [asdict(result) for result in gates]
        same = json.dumps([outcome, why, told])
        now = f"{at:.3f}"
        # Written by hand so that the script finds the time again; everything else is JSON as it comes.
        rest = json.dumps({"cause": cause, "outcome": outcome, "why": why, "gates": told, "same": same})
        entry = f'{{"last":{now},"first":{now},{rest[1:]}'
        await _NOTE(self._redis, [self._keys.reasons(ticket)], [entry, same, now])

    async def of(self, ticket: TicketId) -> list[Look]:
        """What is remembered about the ticket, oldest first."""
        entries = map(json.loads, await self._redis.lrange(self._keys.reasons(ticket), 0, -1))
        return [
            Look(
                first=entry["first"],
                last=entry["last"],
                cause=entry["cause"],
                outcome=entry["outcome"],
                why=entry["why"],
                gates=tuple(GateResult(**{**gate, "gate": Gate(gate["gate"])}) for gate in entry["gates"]),
            )
            for entry in entries
        ]
