"""The configuration file while the daemon runs: read again when it changes. What cannot be read changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import structlog

from agentsmith.config import Config
from agentsmith.domain.errors import ConfigError

log = structlog.get_logger()

LOOK_EVERY: Final = 1.0

Apply = Callable[[Config], list[str]]
"""Puts a configuration in force; answers the settings that take effect only after a restart."""


class ConfigFile:
    """A file that may change. `load` reads it and everything that belongs to it, or raises ConfigError."""

    def __init__(self, path: Path, load: Callable[[], Config], *, every: float = LOOK_EVERY) -> None:
        self._path, self._load, self._every = path, load, every
        self._seen: object = self._mark()
        self._now = asyncio.Event()

    def look_now(self) -> None:
        """Read it again without waiting, whether it looks changed or not: somebody asked for it."""
        self._seen = "never"
        self._now.set()

    async def changes(self, apply: Apply) -> AsyncIterator[str]:
        """Apply the file each time that it changes, and tell what is wrong with it since; empty once it is right."""
        while True:
            try:
                async with asyncio.timeout(self._every):
                    await self._now.wait()
            except TimeoutError:
                pass
            self._now.clear()
            mark = self._mark()
            if mark == self._seen:
                continue
            self._seen = mark
            yield self._reload(apply)

    def _reload(self, apply: Apply) -> str:
        try:
            waiting = apply(self._load())
        except ConfigError as error:
            log.error("the configuration is wrong; the last good one stays in force", problem=str(error))
            return str(error)
        log.info("the configuration was read again", after_a_restart=waiting or None)
        return f"takes effect after a restart: {', '.join(waiting)}" if waiting else ""

    def _mark(self) -> tuple[int, int, int] | None:
        """What changes when the file does; following links, which is how whole folders of files are replaced."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
