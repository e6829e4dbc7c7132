"""A file of variables beside the configuration: `KEY=VALUE` lines, as shells and service managers read them.

What stands in it is filled into the configuration, and is never part of the environment of anything that we start.
No value of it is ever part of a message (P8).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agentsmith.config.document import LARGEST_FILE
from agentsmith.domain.errors import ConfigError

DEFAULT_NAME: Final = "agentsmith.env"
_LINE: Final = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_QUOTED: Final = re.compile(r"""(?:'([^']*)'|"((?:[^"\\]|\\.)*)")[ \t]*(?:#.*)?""")
_COMMENT: Final = re.compile(r"(?:^|[ \t])#.*")
_ESCAPED: Final = re.compile(r"\\(.)")
_LETTERS: Final[Mapping[str, str]] = {"n": "\n", "t": "\t", "r": "\r"}
_OTHERS_READ: Final = 0o004


def read_env_file(file: Path) -> dict[str, str]:
    """The variables in the file; ConfigError names file and line, and never a value."""
    try:
        with file.open("rb") as stream:
            raw = stream.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise ConfigError(f"{file}: there is no such file; correct env_file, or make it") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a file name"
        raise ConfigError(f"{file}: cannot be read: {reason}; correct env_file, or its permissions") from None
    if len(raw) > LARGEST_FILE:
        raise ConfigError(f"{file}: is larger than {LARGEST_FILE // 1024} KiB; is this the right file?")
    found: dict[str, str] = {}
    lines: dict[str, int] = {}
    problems: list[str] = []
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            pair = _pair(line)
            if pair is None:
                continue
            name, value = pair
            if name in lines:
                raise ValueError(f"{name} stands twice (first on line {lines[name]}); keep one")
            found[name], lines[name] = value, number
        except ValueError as error:
            problems.append(f"{file}:{number}: {error}")
    if problems:
        raise ConfigError("\n".join(problems))
    return found


def readable_by_others(file: Path) -> bool:
    """Whether every user of the machine can read it."""
    try:
        return bool(file.stat().st_mode & _OTHERS_READ)
    except OSError:
        return False


def _pair(raw: bytes) -> tuple[str, str] | None:
    """Name and value; None for a line that says nothing. ValueError is what to tell people, without the value."""
    try:
        line = raw.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text; save the file as UTF-8") from None
    if not line or line.startswith("#"):
        return None
    if "\0" in line:
        raise ValueError("holds a character that no text file holds")
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError("is no variable; write NAME=value, the name of letters, digits and _, no space around the =")
    name, text = found[1], found[2]
    if text[:1] not in ("'", '"'):
        return name, _COMMENT.sub("", text).strip()
    quoted = _QUOTED.fullmatch(text)
    if quoted is None:
        raise ValueError(f"{name}: the quotation mark is not closed, or something stands behind it")
    if quoted[1] is not None:
        return name, quoted[1]
    return name, _ESCAPED.sub(lambda match: _LETTERS.get(match[1], match[1]), quoted[2])
