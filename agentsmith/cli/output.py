"""What commands say: results on standard output, everything else on standard error.

Rich is imported where something is drawn: help, completion and one plain line should not wait for it.

Tables and colours only on a terminal; piped, the same content is plain text. Ticket text is written by strangers:
nothing in it may move the cursor or pose as markup.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Coroutine, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

from agentsmith import redaction

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

T = TypeVar("T")
_STYLES: Final = {
    "pending": "dim",
    "enqueued": "cyan",
    "in-progress": "yellow",
    "waiting": "magenta",
    "done": "green",
    "failed": "red",
}
_AFTER: Final = 1.0
"""Seconds after which a wait is explained."""


def fancy(stream: IO[str] | None = None) -> bool:
    """Whether there is a terminal that can show more than plain lines."""
    found: IO[str] | None = stream or sys.stdout  # none at all where it was closed before we began
    return found is not None and found.isatty() and os.environ.get("TERM") != "dumb"


def console(*, stderr: bool = False) -> Console:
    """A Rich console that takes text as it is: no markup, no guessed highlights. It respects NO_COLOR."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, markup=False, highlight=False, emoji=False, force_terminal=fancy(stream))


def clean(text: str, *, lines: bool = False) -> str:
    """The text without anything that a terminal would not simply print; `lines` keeps line breaks and tabs."""
    kept = "\n\t" if lines else ""
    return "".join(char if char.isprintable() or char in kept else "\N{REPLACEMENT CHARACTER}" for char in text)


def say(text: str = "") -> None:
    """One line of the result."""
    print(text)


def note(text: str) -> None:
    """One line beside the result, on standard error."""
    print(text, file=sys.stderr, flush=True)


def json_result(data: Any) -> None:
    """The whole result as one JSON document."""
    print(json.dumps(data, indent=2, ensure_ascii=not _speaks_utf8(), default=str))


def redacted(value: Any) -> Any:
    """The value without secrets (P8): a text, or a list of them."""
    if isinstance(value, list):
        return [redacted(item) for item in value]
    return redaction.redact(value) if isinstance(value, str) else value


def show(renderable: RenderableType) -> None:
    """Something that Rich made: folded to the width of a terminal, and left alone where there is none."""
    console().print(renderable, soft_wrap=not fancy())


def status_text(status: str, shown: str | None = None) -> Text:
    """A status in its colour."""
    from rich.text import Text

    return Text(shown or status, style=_STYLES.get(status, ""))


def rows(head: Sequence[str], body: Sequence[Sequence[str | Text]]) -> None:
    """A table: folded to the terminal's width by Rich, or plain aligned columns where there is none."""
    if fancy():
        show(table(head, body))
        return
    for line in aligned(head, body):
        say(line)


def aligned(head: Sequence[str], body: Sequence[Sequence[str | Text]]) -> Iterator[str]:
    """Lines with columns under each other; nothing is cut, so that programs can read them too."""
    cells = [[clean(part) if isinstance(part, str) else part.plain for part in row] for row in (head, *body) if row]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(part.ljust(width) for part, width in zip(row, widths, strict=True)).rstrip()


def table(head: Sequence[str], body: Sequence[Sequence[str | Text]]) -> Table:
    """The same as something that Rich can show; columns fold where the terminal is narrow. No head is fine too."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=bool(head))
    for title in head or [""] * max(map(len, body), default=0):
        made.add_column(title, overflow="fold")
    for row in body:
        made.add_row(*(Text(clean(part)) if isinstance(part, str) else part for part in row))
    return made


def title(text: str) -> None:
    """A heading above a part of the result."""
    say()
    heading(text)


def heading(text: str) -> None:
    """The same without a line between it and what stands above."""
    if fancy():
        from rich.text import Text

        show(Text(text, style="bold"))
    else:
        say(text)


def error(message: str) -> None:
    """What went wrong, each line of it marked, with no secret in it (P8)."""
    from rich.text import Text

    out = console(stderr=True)
    for line in redacted(message).splitlines() or [""]:
        # One line stays one line, however narrow the terminal: people paste and search it.
        out.print(Text.assemble(("error:", "bold red"), " ", clean(line)), soft_wrap=True)


def ago(seconds: float) -> str:
    """A span as people say it: `3 s`, `5 min`, `2 h`."""
    seconds = max(0.0, seconds)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


async def patiently(work: Coroutine[Any, Any, T], text: str) -> T:
    """Do the work; on a terminal, say what is waited for once it takes longer than a second."""
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=_AFTER)
        if not done and fancy(sys.stderr):
            note(f"{text} …")
        return await task
    finally:
        task.cancel()


class WaitingNote:
    """Says what is being waited for, once it takes longer than a second."""

    def __init__(self, text: str) -> None:
        self._text, self._since, self._shown = text, time.monotonic(), False

    def tick(self) -> None:
        """Call this while waiting."""
        if not self._shown and time.monotonic() - self._since > _AFTER:
            self._shown = True
            note(f"{self._text} …")


@contextlib.contextmanager
def quiet_pipe() -> Iterator[None]:
    """A reader that left (`… | head`) is no trouble of ours."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more when it ends, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None


def _speaks_utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
