"""What a worker may say beside its exit code: lines of output with the run's own prefix, or one status file.

    ${AGENTSMITH_SAY}progress compiled 3 of 7        ${AGENTSMITH_SAY}artifact report.html
    ${AGENTSMITH_SAY}question Which database?        ${AGENTSMITH_SAY}summary Fixed the parser.
    ${AGENTSMITH_SAY}session 5c0f…                   ${AGENTSMITH_SAY}usage {"input_tokens": 12, "cost_usd": 0.01}

Output is also where a worker prints what others wrote: the ticket, its prompt, files. They cannot know the prefix, so
they cannot speak for it. Only progress and summary, which decide nothing, count with a bare `::` as well.

The status file holds the same as lines, or as one JSON object: `{"question": "Which database?"}`. Nothing that a worker
says can break the run: what is not understood is left out.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import secrets
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from agentsmith.domain.errors import pass_over

_LONGEST: Final = 2_000
_LONGEST_TEXT: Final = 16_000
_MOST_ARTIFACTS: Final = 50
_LARGEST_STATUS: Final = 1024 * 1024
_LONGEST_NAME: Final = 200
"""In bytes; file systems take 255, some of them less."""
SAY: Final = "AGENTSMITH_SAY"
"""The variable in which a worker finds the prefix of lines that count."""
_BARE: Final = ("progress", "summary")
_LIKE_OURS: Final = re.compile("^::", re.MULTILINE)
_MOST: Final = 1e15
"""No run uses more of anything than this."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What work has cost so far."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            round(self.cost_usd + other.cost_usd, 9),
        )

    def __bool__(self) -> bool:
        return bool(self.input_tokens or self.output_tokens or self.cost_usd)

    @classmethod
    def of(cls, data: object) -> Usage:
        """The usage that a mapping tells; anything odd in it counts as nothing."""
        numbers: dict[str, Any] = data if isinstance(data, dict) else {}
        return cls(
            int(number(numbers.get("input_tokens"))),
            int(number(numbers.get("output_tokens"))),
            number(numbers.get("cost_usd")),
        )


def number(value: object) -> float:
    """A count or an amount, also one that is written as text (`4.5k`); 0 for anything else."""
    if isinstance(value, str):
        text = value.strip().replace(",", "").lower()
        factor = {"k": 1e3, "m": 1e6}.get(text[-1:], 1.0)
        try:
            value = float(text.rstrip("km")) * factor
        except ValueError:
            return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0.0
    return float(value) if 0 <= value <= _MOST else 0.0


@dataclass(slots=True)
class Said:
    """What the worker of one step has said so far; the last value counts, usage and artifacts add up."""

    progress: str = ""
    question: str = ""
    summary: str = ""
    session: str = ""
    usage: Usage = Usage()
    artifacts: list[str] = field(default_factory=list)
    say: str = ""
    """The prefix that only the worker knows."""
    ignored: bool = False
    """Whether a bare line was left out because anybody could have written it."""
    more_artifacts: int = 0
    """How many more were named than are kept."""
    unread: bool = False
    """Whether the status file went on where we stopped reading."""
    on_progress: Callable[[str], None] = lambda _: None

    def hear(self, line: str) -> None:
        """Take in one line of output that begins with `::`."""
        own = bool(self.say) and line.startswith(self.say)
        word, value = self._parsed(line)
        if own or word in _BARE:
            self._take(word, value)
        else:
            self.ignored = True

    def _parsed(self, line: str) -> tuple[str, str]:
        word, _, rest = line.removeprefix(self.say).removeprefix("::").partition(" ")
        return word.strip().rstrip(":").lower(), rest.strip()

    def read_status(self, file: Path) -> None:
        """Take in the status file, if the worker wrote one."""
        content = _read(file, _LARGEST_STATUS + 1)
        self.unread = len(content) > _LARGEST_STATUS
        text = _as_text(content)
        data = as_json(text)
        if isinstance(data, dict):
            for word, value in data.items():
                values = value if word in ("artifact", "artifacts") and isinstance(value, list) else [value]
                for one in values:
                    self._take(word.removesuffix("s") if word == "artifacts" else word, one)
            return
        for line in text.split("\n"):
            if line.startswith("::"):
                self._take(*self._parsed(line))

    def _take(self, word: str, value: object) -> None:
        if word == "usage":
            self.usage += Usage.of(_as_data(value))
            return
        if not isinstance(value, str) or not value.strip():
            return
        name = quoted(value, self.say)
        value = encodable(name)
        match word:
            case "progress":
                self.progress = one_line(value)
                self.on_progress(self.progress)
            case "question":
                self.question = value[:_LONGEST_TEXT]
            case "summary":
                self.summary = value[:_LONGEST_TEXT]
            case "session":
                self.session = one_line(value)
            case "artifact" if name not in self.artifacts:
                if len(self.artifacts) < _MOST_ARTIFACTS:
                    self.artifacts.append(name[:_LONGEST])
                else:
                    self.more_artifacts += 1


def _as_data(value: object) -> object:
    """JSON, or `input_tokens=12 cost_usd=0.3`."""
    if not isinstance(value, str):
        return value
    data = as_json(value)
    return data if data is not None else dict(part.split("=", 1) for part in value.split() if "=" in part)


def as_json(text: str | bytes) -> Any:
    """What the text says; None where it is no JSON. Numbers may be of any length."""
    try:
        return json.loads(text, parse_int=float)
    except (ValueError, RecursionError):
        return None


def encodable(text: str) -> str:
    """The text without the halves of characters that JSON can name and no encoding can write."""
    return text.encode("utf-8", "replace").decode()


def prefix() -> str:
    """What the lines of one run's workers begin with if they count; nobody can guess it."""
    return f"::{secrets.token_hex(8)}::"


def quoted(text: str, say: str = "") -> str:
    """Text to show again: it says nothing if a worker prints it. The prefix is out, and no line begins with `::`."""
    if say:
        text = text.replace(say.strip(":"), "…")
    return _LIKE_OURS.sub(" ::", text)


def one_line(text: str) -> str:
    """The text as one short line that only prints."""
    line = "".join(char if char.isprintable() else " " for char in text).strip()
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def read_text(file: Path, *, limit: int) -> str:
    """The beginning of a file that a worker could change; empty when there is no regular file."""
    return _as_text(_read(file, limit))


def _as_text(content: bytes) -> str:
    return content.decode("utf-8", "replace").replace("\0", "")


def _read(file: Path, limit: int) -> bytes:
    try:
        with _open_file(file) as stream:
            return stream.read(limit)
    except OSError as error:
        pass_over(error)
        return b""


def _open_file(path: Path) -> BinaryIO:
    """The file, if it is one: no link is followed, and nothing waits for a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no file")
    return open(descriptor, "rb")


def keep_artifacts(names: list[str], *, inside: Path, folder: Path, limit: int) -> tuple[list[str], list[str]]:
    """Copy files of the workspace into the run's folder; answers what was kept, and why the rest was not.

    Whatever a file is called, and whatever becomes of its copy, is no reason for the work to fail.
    """
    kept: list[str] = []
    left: list[str] = []
    room, root = limit, inside.resolve()
    for name in names:
        try:
            path = (root / name).resolve(strict=True)
            if not path.is_relative_to(root):
                left.append(f"{one_line(name)}: it is outside the workspace")
                continue
            source = _open_file(path)
        except (OSError, ValueError, RuntimeError) as error:
            pass_over(error)
            left.append(f"{one_line(name)}: {getattr(error, 'strerror', None) or 'not a file name'}")
            continue
        with source:
            size = os.fstat(source.fileno()).st_size
            if size > room:
                left.append(f"{one_line(name)}: it is larger than the room that is left (run.artifact_limit)")
                continue
            target = folder / _flat(str(path.relative_to(root)))
            try:
                folder.mkdir(mode=0o700, exist_ok=True)
                target.write_bytes(source.read(size))
            except OSError as error:
                left.append(f"{one_line(name)}: it could not be copied: {error.strerror}")
                continue
            room -= size
            kept.append(target.name)
    return kept, left


def _flat(path: str) -> str:
    """A file name for a path, its own: two paths never become one, and none is too long for a file system."""
    name = path.replace(os.sep, "__")
    if name == encodable(name) and name.replace("__", os.sep) == path and len(os.fsencode(name)) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    beginning = os.fsencode(name)[: _LONGEST_NAME - len(digest) - 1].decode("utf-8", "ignore")
    return f"{digest}-{beginning}"
