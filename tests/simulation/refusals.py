"""Error replies: a server that is there, and answers anything with one of the codes that it knows, once or for a while.

They have a chance of their own, so that a seed without them tells the story that it told before there were any.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from redis._parsers.base import BaseParser
from redis.exceptions import RedisError

from agentsmith.store.error_replies import REPLIES, Means

CODES: Final = ("ERR max number of clients reached", *sorted(c for c in REPLIES if REPLIES[c].means is not Means.OURS))
_SHARE: Final = 0.3
"""Of the seeds."""
_SPELLS: Final = (0.0, 0.0, 0.5, 3.0, 11.0)
"""How long it goes on, in seconds; 0 is a single answer."""
_APPLIED: Final = 0.2
"""How often a single command is carried out all the same, as behind a proxy that lost the server."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a command is answered instead."""

    error: RedisError
    applied: bool
    unblocks: bool
    """Whether everybody who waits for something is sent away in this moment, as by a server that becomes a replica."""


@dataclass(slots=True)
class Refusals:
    """Decides which commands are refused."""

    seed: int
    now: Callable[[], float]
    rough: Callable[[], bool]
    tell: Callable[[str], None]
    _chance: random.Random = field(init=False)
    _per_command: float = field(init=False)
    _code: str = ""
    _until: float = 0.0

    def __post_init__(self) -> None:
        self._chance = random.Random(f"refusals of {self.seed}")
        self._per_command = self._chance.choice((0.003, 0.02, 0.08)) if self._chance.random() < _SHARE else 0.0

    def __call__(self) -> Refusal | None:
        """What the next command is answered instead; None: it is carried out."""
        if not self._per_command or not self.rough():
            return None
        if self.now() < self._until:
            return Refusal(_error(self._code), applied=False, unblocks=False)
        chance = self._chance
        if chance.random() >= self._per_command:
            return None
        self._code, spell = chance.choice(CODES), chance.choice(_SPELLS)
        self._until = self.now() + spell * (0.7 + 0.6 * chance.random())
        self.tell(f"*** {self._code} for {self._until - self.now():.1f} s")
        single = spell == 0.0
        return Refusal(
            _error(self._code), applied=single and chance.random() < _APPLIED, unblocks=chance.random() < 0.3
        )


def _error(reply: str) -> RedisError:
    """What redis-py makes of the reply."""
    rest = {"MOVED": "12 127.0.0.1:7000", "ASK": "12 127.0.0.1:7000"}.get(reply, "for some reason")
    error: RedisError = BaseParser.parse_error(  # type: ignore[no-untyped-call]
        reply if " " in reply else f"{reply} {rest}"
    )
    return error
