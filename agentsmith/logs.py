"""Logging: one line per event, on standard error, without a secret in it (P8).

Ticket titles, labels and error texts are written by strangers: nothing in them may start a new line, move the
cursor or pose as another field. Everything, also what libraries log, passes through the same three steps:
flatten to plain data, redact, render.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final, Literal, NamedTuple, Protocol, TextIO

import structlog
from structlog.typing import EventDict, Processor

from agentsmith.domain.lifecycle import Status
from agentsmith.redaction import MASK, redact

_DEEPEST: Final = 8

_NOISY: Final = ("uvicorn", "uvicorn.access", "uvicorn.error", "httpx", "httpcore", "apscheduler", "asyncio")
MOST_ALIKE: Final = 60
"""Lines of one kind in a minute. Strangers can make us write lines; a log that they fill tells nothing else."""
_MINUTE: Final = 60.0
_ABOUT: Final = ("tracker", "ticket", "run")
"""The fields that tell what a line is about."""
_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

_SENSITIVE_KEY: Final = re.compile(
    r"(?:^|[._-])(?:authorization|token|secrets?|password|passwd|api[_-]?key|private[_-]?key|cookie|credentials?)$",
    re.IGNORECASE,
)


class Log(Protocol):
    """What `transition` needs of a logger; any structlog logger will do."""

    def info(self, event: str, **fields: Any) -> Any:
        """Write one event."""


def transition(
    log: Log,
    *,
    ticket: str,
    platform: str,
    run: str | None,
    fence: int | None,
    from_: Status | None,
    to: Status | None,
    outcome: str,
) -> None:
    """The one line that every change of a ticket's state leaves; `none` stands for no label."""
    moved = {"from": from_.value if from_ else "none", "to": to.value if to else "none"}
    log.info("transition", ticket=ticket, platform=platform, run=run, fence=fence, **moved, outcome=outcome)


def configure(
    format: Literal["auto", "console", "json"] = "auto",
    level: Literal["debug", "info", "warning", "error"] = "info",
    stream: TextIO | None = None,
) -> None:
    """Send every log line of the process to the stream (standard error); may be called again to change it."""
    out = stream if stream is not None else sys.stderr
    terminal = out.isatty()
    console = format == "console" or (format == "auto" and terminal)
    colours = console and terminal and "NO_COLOR" not in os.environ
    before: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        _timestamp,
        _short_exception if console else _whole_exception,
        # Before anything leaves us: another handler on the root logger sees no secret either.
        _redacted,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *before,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        # A logger made before this call, at import time, must follow it too.
        cache_logger_on_first_use=False,
    )
    handler = _Handler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=before,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _Console(colours=colours) if console else _as_json,
            ],
        )
    )
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if isinstance(handler, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(_LEVELS[level])
    for name in _NOISY:
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
        library.setLevel(logging.INFO if level == "debug" else max(logging.WARNING, _LEVELS[level]))


class _Handler(logging.StreamHandler[TextIO]):
    """Ours, so that `configure` takes away only what it put there. Writes no more than so many lines of one kind."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._since = time.monotonic()
        self._lines: Counter[_Kind] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line, unless there were enough like it in this minute: their number is told at its end."""
        if time.monotonic() - self._since >= _MINUTE:
            self._tell_of_the_rest()
        kind = _kind(record)
        self._lines[kind] += 1
        if self._lines[kind] <= MOST_ALIKE:
            super().emit(record)

    def close(self) -> None:
        """Tell of what was left out before it is too late."""
        self._tell_of_the_rest()
        super().close()

    def _tell_of_the_rest(self) -> None:
        lines, self._lines, self._since = self._lines, Counter(), time.monotonic()
        for kind, count in lines.items():
            if count > MOST_ALIKE:
                text = f"{kind.event} … and {count - MOST_ALIKE:,} more like it"
                super().emit(logging.LogRecord(kind.logger, kind.level, "", 0, text, None, None))


class _Kind(NamedTuple):
    """What lines have in common that say the same; what happens to two tickets is not the same."""

    logger: str
    level: int
    event: str
    about: tuple[str, ...]


def _kind(record: logging.LogRecord) -> _Kind:
    fields = record.msg if isinstance(record.msg, Mapping) else {}
    event = fields.get("event", record.msg)
    return _Kind(record.name, record.levelno, str(event), tuple(str(fields.get(name, "")) for name in _ABOUT))


def _timestamp(_logger: Any, _method: str, event: EventDict) -> EventDict:
    event["timestamp"] = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return event


def _exception_in(event: EventDict) -> BaseException | None:
    found = event.pop("exc_info", None)
    if isinstance(found, BaseException):
        return found
    if isinstance(found, tuple):
        return found[1] if len(found) == 3 and isinstance(found[1], BaseException) else None
    return sys.exc_info()[1] if found else None


def _whole_exception(_logger: Any, _method: str, event: EventDict) -> EventDict:
    if (error := _exception_in(event)) is not None:
        event["exception"] = "".join(traceback.format_exception(error))
    return event


def _short_exception(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """On a terminal an exception is one line too: what happened, and the way there, innermost last."""
    if (error := _exception_in(event)) is not None:
        frames = traceback.extract_tb(error.__traceback__)[-5:]
        way = " > ".join(f"{os.path.basename(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames)
        cause = error.__cause__ or error.__context__
        because = f"; because of {type(cause).__name__}: {cause}" if cause is not None else ""
        event["exception"] = f"{type(error).__name__}: {error}{because}" + (f" [{way}]" if way else "")
    return event


_META: Final = ("_record", "_from_structlog")
"""What the formatter needs itself and takes out before a line is made."""


def _redacted(_logger: Any, _method: str, event: EventDict) -> EventDict:
    return {key: value if key in _META else _clean(value, key=key) for key, value in event.items()}


def _clean(value: object, *, key: str = "", depth: int = 0) -> Any:
    """The value as plain data (text, numbers, lists, mappings) with every secret replaced."""
    if value is None or isinstance(value, bool):
        return value
    if _SENSITIVE_KEY.search(key):
        return MASK
    if isinstance(value, str):
        return redact(str(value))
    if isinstance(value, int | float):
        shown = redact(str(value))
        return value if shown == str(value) and isfinite(value) else shown
    try:
        return _flattened(value, depth) if depth < _DEEPEST else "…"
    except Exception:  # an object that cannot be shown must not cost the log line
        return f"<{type(value).__name__}>"


def _flattened(value: object, depth: int) -> Any:
    if isinstance(value, Mapping):
        return {redact(str(k)): _clean(v, key=str(k), depth=depth + 1) for k, v in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((_clean(item, depth=depth + 1) for item in value), key=str)
    if isinstance(value, list | tuple):
        if len(value) == 2 and isinstance(value[0], str) and _SENSITIVE_KEY.search(value[0]):
            return [value[0], MASK]  # a header as a pair
        return [_clean(item, depth=depth + 1) for item in value]
    return redact(repr(value))


_FIRST: Final = ("timestamp", "level", "event")


def _as_json(_logger: Any, _method: str, event: EventDict) -> str:
    ordered = {key: event[key] for key in _FIRST if key in event} | dict(event)
    # ASCII only, so that no separator or direction mark of Unicode survives unescaped.
    return json.dumps(ordered, ensure_ascii=True, default=str).replace("\x7f", "\\u007f")


class _Console:
    """Lines for people: time, level, event, then `key=value`; colours only where there is a terminal."""

    _COLOURS: Final = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "1;31"}

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours

    def __call__(self, _logger: Any, _method: str, event: EventDict) -> str:
        stamp, level = event.pop("timestamp", ""), str(event.pop("level", "info"))
        what = _escaped(str(event.pop("event", "")))
        fields = [f"{_escaped(str(key))}={_shown(value)}" for key, value in event.items() if key != "logger"]
        head = self._painted(f"{level:<8}", self._COLOURS.get(level, "0"))
        return " ".join([self._painted(str(stamp), "2"), head, self._painted(what, "1"), *fields])

    def _painted(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colours else text


def _shown(value: object) -> str:
    if isinstance(value, str):
        # Quoted wherever it could be taken for something else, so that no text can pose as a second field.
        plain = value.isprintable() and value != "" and not any(char in value for char in " =\"'")
        return value if plain else f'"{_escaped(value, quotes=True)}"'
    if isinstance(value, Mapping | list):
        return _escaped(json.dumps(value, ensure_ascii=False, default=str))
    return str(value)


def _escaped(text: str, *, quotes: bool = False) -> str:
    if quotes:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
