"""What a command prints: kept in its log, and searched for lines that count. A part of the guard's program."""

from __future__ import annotations

import os

from .processes import boottime

TYPE_CHECKING = False  # `typing` would cost a tenth of the start
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LINE_LIMIT = 8 * 1024
LINES_PER_STEP = 1000  # of each kind that adds up; nothing of one kind may use up what is left for another
ADDING_UP, NEWEST_COUNTS = (b"usage", b"artifact"), (b"progress", b"question", b"summary", b"session")
NEWEST_EVERY = 0.1  # the newest is always sent, so there is no limit to their number but this pace
CHUNK = 64 * 1024
LOG_END = 256 * 1024  # how much of the end of an output the log has, beside its beginning
PART, PARTS_KEPT = 16 * 1024 * 1024, 8  # all that an agent prints is kept in parts: the first one, and the last ones


def printable(data: bytes) -> str:
    """Bytes of any origin as text without NULs."""
    return data.decode("utf-8", "replace").replace("\0", "")


class Output:
    """What a command prints: a log of its beginning and its end, the last bytes, and lines that begin with `::`."""

    def __init__(self, order: dict[str, Any], send: Callable[[str, bool], bool]) -> None:
        """`send` passes a line on; False when it need not be at once and the reader is far behind."""
        self.truncated, self.printed, self.unheard = False, 0, 0
        self._report = order.get("report")
        self._log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._limit, self._tail_limit = int(order["log_limit"]), int(order["tail_limit"])
        self._end_limit = min(self._limit, LOG_END)
        self._tail, self._line = bytearray(), b""
        self._say = order["env"].get("AGENTSMITH_SAY", "::").encode()
        self._counts: dict[tuple[bool, bytes], int] = {}  # the worker's own lines; others must not use those up
        self._newest: dict[tuple[bool, bytes], bytes] = {}  # not sent yet
        self._newest_at, self._send = 0.0, send

    def feed(self, data: bytes) -> None:
        """Takes the next bytes, in time and memory that do not depend on how much came before."""
        self._tail += data
        needed = max(self._tail_limit, self._end_limit) + 1  # one more, to tell that it was cut
        if len(self._tail) > 2 * needed + CHUNK:
            del self._tail[:-needed]
        if not self.truncated:
            self._write(data[: self._limit - self.printed])
            if self.printed + len(data) > self._limit:
                self.truncated = True
                self.note(f"output truncated at {self._limit} bytes")
        self._read_lines(data)
        if self._report:
            self._keep(data)
        self.printed += len(data)

    def note(self, text: str) -> None:
        """Adds a line of the guard's own to the log."""
        self._write(f"\n[{text}]\n".encode())

    def close(self) -> str:
        """Closes the log and returns the tail."""
        self._read_lines(b"\n")
        self._send_newest(at_once=True)
        if (missing := min(self.printed - self._limit, self._end_limit)) > 0:
            end = self._tail[-missing:]
            del end[: end.find(b"\n", 0, -1) + 1]  # so that it begins with a line
            self.note(f"{self.printed - self._limit - len(end)} bytes left out; the end:")
            self._write(bytes(end))
        os.close(self._log)
        cut = max(0, len(self._tail) - self._tail_limit)
        while 0 < cut < len(self._tail) and self._tail[cut] & 0xC0 == 0x80:
            cut += 1  # the rest of a character whose beginning is lost
        return printable(bytes(self._tail[cut:]))

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._log, data) :]
        except OSError:  # a full disk must not end the guard
            self.truncated = True

    def _keep(self, data: bytes) -> None:
        part = self.printed // PART
        try:
            with open(f"{self._report}.{part}", "ab") as kept:
                begins = kept.tell() == 0
                kept.write(data)
            if begins and part > PARTS_KEPT:
                os.unlink(f"{self._report}.{part - PARTS_KEPT}")
        except OSError:  # as for the log; whoever reads it sees by its size that something is missing
            return

    def _read_lines(self, data: bytes) -> None:
        data = self._line + data
        if data.startswith(b"::") or b"\n::" in data:
            *lines, data = data.split(b"\n")
            for line in lines:
                if line.startswith(b"::"):
                    self._count_line(line[:LINE_LIMIT].rstrip(b"\r"))
        start = data.rfind(b"\n") + 1
        self._line = data[start : start + LINE_LIMIT]  # of a line that goes on, only the beginning matters

    def _count_line(self, line: bytes) -> None:
        own = line.startswith(self._say)
        word = line.removeprefix(self._say if own else b"::").partition(b" ")[0].rstrip(b":").lower()
        kind = (own, word if word in ADDING_UP + NEWEST_COUNTS else b"")
        if word in NEWEST_COUNTS:
            self._newest.pop(kind, None)  # so that they stay in order
            self._newest[kind] = line
            if boottime() >= self._newest_at:
                self._send_newest(at_once=False)
            return
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count > LINES_PER_STEP or not self._send(printable(line), False):
            self.unheard += own
        if count == LINES_PER_STEP + 1:
            self.note(f"more than {LINES_PER_STEP} such lines: {printable(line[:80])}; the rest do not count")

    def _send_newest(self, *, at_once: bool) -> None:
        self._newest = {kind: line for kind, line in self._newest.items() if not self._send(printable(line), at_once)}
        self._newest_at = boottime() + NEWEST_EVERY
