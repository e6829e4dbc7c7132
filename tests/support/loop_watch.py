"""A watch on the event loop: who keeps it to himself for how long, and where.

What counts is the processor time of one turn, so that neither a busy machine nor a stopped process looks like a fault
of ours. While a turn lasts long, another thread writes down where it is.
"""

from __future__ import annotations

import asyncio.events
import json
import os
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

NOTICED: Final = 0.05
"""Seconds of processor time in one turn from which on it is written down."""
_MOST_LINES: Final = 200
_LOOKS_EVERY: Final = 0.02


@dataclass(slots=True)
class LoopWatch:
    """Watches every event loop of this thread; writes lines of a history to `file`."""

    file: Path
    _thread: int = field(default_factory=threading.get_ident)
    _since: float = 0.0
    """When the turn began that is going on, on the monotonic clock; 0 between turns."""
    _where: list[str] = field(default_factory=list)
    _lines: int = 0
    _stopped: threading.Event = field(default_factory=threading.Event)
    _looker: threading.Thread | None = None

    def install(self) -> None:
        """Watch from now on, until `stop`, or for as long as the process lives."""
        real, attribute = asyncio.events.Handle._run, "_run"

        def run(handle: asyncio.Handle) -> None:
            if threading.get_ident() != self._thread or self._since:
                real(handle)
                return
            began, self._since, self._where = time.thread_time(), time.monotonic(), []
            try:
                real(handle)
            finally:
                self._since = 0.0
                spent = time.thread_time() - began
                if spent > NOTICED:
                    self._note(spent, repr(handle))

        setattr(asyncio.events.Handle, attribute, run)
        self._looker = threading.Thread(target=self._look, name="loop-watch", daemon=True)
        self._looker.start()

    def stop(self) -> None:
        """End the thread that looks: whoever forks must be alone."""
        self._stopped.set()
        if self._looker is not None:
            self._looker.join()

    def _look(self) -> None:
        while not self._stopped.wait(_LOOKS_EVERY):
            since = self._since
            if since and time.monotonic() - since > NOTICED and (frame := sys._current_frames().get(self._thread)):
                self._where = [line.strip().splitlines()[0] for line in traceback.format_stack(frame)[-8:]]

    def _note(self, spent: float, what: str) -> None:
        self._lines += 1
        if self._lines > _MOST_LINES:
            return
        line = {"is": "blocked", "at": time.monotonic_ns(), "pid": os.getpid(), "seconds": round(spent, 3)}
        with self.file.open("a") as lines:
            lines.write(json.dumps({**line, "what": what[:300], "where": self._where}) + "\n")
