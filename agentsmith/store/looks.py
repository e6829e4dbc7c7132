"""Why a ticket did or did not run: what each look at it saw, kept for a while so that "why not last night" works.

Of a ticket that has ended the whole account is kept for an hour more; then how and when it ended is all that is known.
There may be millions of those, and nobody asks why they ran.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agentsmith.domain.gates import Gate, GateResult
from agentsmith.domain.outcomes import OutcomeName
from agentsmith.domain.ticket import TicketId
from agentsmith.store.keys import Keys
from agentsmith.store.redis_commands import Commands
from agentsmith.store.scripts import looks as scripts


@dataclass(frozen=True, slots=True)
class PastLook:
    """What one look at a ticket saw, when it first saw it and when last, and what came of it."""

    first: float
    last: float
    cause: str
    outcome: str
    """An `OutcomeName`, or the word of another release."""
    why: str
    gates: tuple[GateResult, ...]


class LookLedger:
    """A bounded ledger of looks, per ticket."""

    def __init__(self, redis: Commands, keys: Keys) -> None:
        self._redis, self._keys = redis, keys

    async def note(
        self, ticket: TicketId, *, at: float, cause: str, outcome: OutcomeName, why: str, gates: Sequence[GateResult]
    ) -> None:
        """Remember what a look saw."""
        seen_gates = [{name: value for name, value in asdict(result).items() if value != ""} for result in gates]
        # What was seen comes last, so that the script can compare it without a copy of its own.
        head, seen = (_part(cause=cause), _part(outcome=outcome, why=why, gates=seen_gates) + "}")
        claimed = outcome is OutcomeName.CLAIMED
        idle = not claimed and all(result.passed or result.gate is Gate.STATUS for result in gates)
        await scripts.Note(
            reasons=self._keys.reasons(ticket),
            word=self._keys.last_word(ticket),
            head=head,
            seen=seen,
            now=f"{at:.3f}",
            idle=idle,
            claimed=claimed,
        ).on(self._redis)

    async def of(self, ticket: TicketId) -> list[PastLook]:
        """What is remembered about the ticket, oldest first."""
        entries = [json.loads(entry) for entry in await self._redis.lrange(self._keys.reasons(ticket), 0, -1)]
        if not entries and (word := await self._redis.get(self._keys.last_word(ticket))):
            status, _, at = word.partition(" ")
            return [PastLook(float(at), float(at), cause="its end", outcome=OutcomeName.ENDED, why=status, gates=())]
        return [
            PastLook(
                first=entry.get("first", 0.0),
                last=entry.get("last", 0.0),
                cause=entry.get("cause", ""),
                outcome=entry.get("outcome", ""),
                why=entry.get("why", ""),
                # Of gates that only another release knows, nothing can be said.
                gates=tuple(_gate(gate) for gate in entry.get("gates", ()) if gate.get("gate") in list(Gate)),
            )
            for entry in entries
        ]

    async def ended_as(self, ticket: TicketId) -> str | None:
        """The status that the ticket ended with, if nobody has claimed it since and it is not long ago."""
        word = await self._redis.get(self._keys.last_word(ticket))
        return word.partition(" ")[0] if word else None


def _gate(fields: dict[str, Any]) -> GateResult:
    saw, remedy = str(fields.get("saw", "")), str(fields.get("remedy", ""))
    return GateResult(Gate(fields["gate"]), bool(fields.get("passed")), saw, remedy)


def _part(**fields: object) -> str:
    """Some fields of a JSON object, to stand behind others."""
    return "," + json.dumps(fields, separators=(",", ":"))[1:-1]
