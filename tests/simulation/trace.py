"""The story of one seed, line by line: virtual time, who, and what they did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from structlog import DropEvent
from structlog.typing import EventDict, WrappedLogger

from tests.simulation.loop import OWNER, Clock
from tests.simulation.processes import Process

_START: Final = 100_000.0
_CHATTER: Final = frozenset(
    {
        "blmove", "presence.tick", "presence.settling", "signals.ripen", "leader", "zrange", "mget", "hgetall", "hget",
        "zrangebyscore", "looks.note", "get", "set", "hexists", "lrange",
    }
)  # fmt: skip
"""What changes nothing of interest; told only if it moved something."""


class Trace:
    """Lines as they come. Redis calls and log lines are told only if somebody wants to read the trace."""

    def __init__(self, clock: Clock, *, whole: bool) -> None:
        self.lines: list[str] = []
        self.whole = whole
        self._clock = clock

    def say(self, what: str, who: str = "") -> None:
        """Add a line."""
        self.lines.append(f"{self._clock.now - _START:9.4f}  {who:<10} {what}".rstrip())

    def redis(self, process: Process, point: str, words: tuple[bytes, ...], reply: Any) -> None:
        """Redis carried a command out."""
        moved = point == "blmove" and reply is not None
        if point in _CHATTER and not moved:
            return
        if point == "queue.acknowledge_and_take" and reply == [] and len(words) < 8:
            return
        self.say(f"Redis {point} {_about(words)} -> {_short(reply)}", process.name)

    def log(self, _: WrappedLogger, level: str, event: EventDict) -> EventDict:
        """A processor for structlog: what the product itself says."""
        owner = OWNER.get()
        told = " ".join(f"{name}={value}" for name, value in event.items() if name != "event")
        self.say(f"log {level}: {event.get('event')} {told}", str(owner or ""))
        raise DropEvent


def _about(words: tuple[bytes, ...]) -> str:
    """Which tickets a command is about."""
    found = dict.fromkeys(
        "#" + text.partition("#")[2].split('"')[0]
        for text in (word.decode("utf-8", "replace") for word in words)
        if "#" in text and len(text) < 200
    )
    return " ".join(found)


def _short(reply: Any) -> str:
    text = repr(reply) if not isinstance(reply, bytes) else reply.decode("utf-8", "replace")
    return text if len(text) <= 100 else text[:97] + "..."


Say = Callable[[str], None]
