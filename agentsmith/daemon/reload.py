"""The configuration file while the daemon runs, and the file of variables beside it: read again when one changes.

What cannot be read changes nothing.

Whoever writes the file may be in the middle of it: it counts once two looks have found the same text.
"""

from __future__ import annotations

import asyncio
import hashlib
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import structlog

from agentsmith.config import Config
from agentsmith.config.document import LARGEST_FILE
from agentsmith.config.env_file import DEFAULT_NAME
from agentsmith.config.loading import env_file_of
from agentsmith.domain.errors import ConfigError

log = structlog.get_logger()

LOOK_EVERY: Final = 1.0
_SECOND_LOOK: Final = 0.2
"""How soon after somebody asked for it the file is looked at once more."""
_SAYS_NOTHING: Final = (b"", b"---", b"...", b"{}")

Apply = Callable[[Config], list[str]]
"""Puts a configuration in force; answers the settings that take effect only after a restart."""


class ConfigFile:
    """A file that may change. `load` reads it and everything that belongs to it, or raises ConfigError."""

    def __init__(self, path: Path, load: Callable[[], Config], *, every: float = LOOK_EVERY) -> None:
        self._path, self._load, self._every = path, load, every
        self._beside: tuple[object, Path | None] = ("never", None)
        """Where the variables are, according to the file as it looked then."""
        self._known: object = self._mark()
        self._first_look: object = "never"
        self._now = asyncio.Event()

    def look_now(self) -> None:
        """Read it again without waiting, whether it looks changed or not: somebody asked for it."""
        self._known = "never"
        self._now.set()

    async def changes(self, apply: Apply) -> AsyncIterator[str]:
        """Apply the file each time that it changes, and tell what is wrong with it since; empty once it is right."""
        pause = self._every
        while True:
            try:
                async with asyncio.timeout(pause):
                    await self._now.wait()
            except TimeoutError:
                pass
            pause = min(_SECOND_LOOK, self._every) if self._now.is_set() else self._every
            self._now.clear()
            mark = self._mark()
            if mark == self._known:
                self._first_look = "never"
            elif mark != self._first_look:
                self._first_look = mark
            elif (problem := self._reload(apply, mark)) is not None:
                self._known = mark
                yield problem

    def _reload(self, apply: Apply, mark: object) -> str | None:
        """What is wrong with the file, or with a part of it until a restart; None when it is being changed just now."""
        try:
            self._refuse_nothing()
            config = self._load()
            if self._mark() != mark:
                return None
            waiting = apply(config)
        except ConfigError as error:
            log.error("the configuration is wrong; the last good one stays in force", problem=str(error))
            return str(error)
        log.info("the configuration was read again", after_a_restart=waiting or None)
        return f"takes effect after a restart: {', '.join(waiting)}" if waiting else ""

    def _refuse_nothing(self) -> None:
        """At the start an empty file asks for the defaults; of a daemon at work it would take everything."""
        try:
            lines = [line.strip() for line in self._read().split(b"\n")]
        except OSError:
            return  # whoever loads it says so
        if all(line in _SAYS_NOTHING or line.startswith(b"#") for line in lines):
            raise ConfigError(f"{self._path}: is empty; to go back to the defaults, start agentsmith anew")

    def _mark(self) -> tuple[object, object]:
        """What changes when the file, or that of its variables, does."""
        mine, variables = _mark_of(self._path), self._path.with_name(DEFAULT_NAME)
        # The default file may come and go by itself; any other name stands in this one.
        seen = mine, variables.is_file()
        if self._beside[0] != seen:
            self._beside = seen, env_file_of(self._path) if self._path.is_file() else None
        return mine, _mark_of(self._beside[1]) if self._beside[1] is not None else None

    def _read(self) -> bytes:
        return _read(self._path)


def _mark_of(path: Path) -> tuple[int, int, int, str] | None:
    """What changes when the file does; following links, which is how whole folders of files are replaced."""
    try:
        found = path.stat()
        # Of a pipe, what is read here would be missing there.
        content = _read(path) if stat.S_ISREG(found.st_mode) else b""
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, hashlib.sha256(content).hexdigest()


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LARGEST_FILE + 1)
