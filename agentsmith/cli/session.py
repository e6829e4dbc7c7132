"""What every command begins with: the configuration, quiet logs, and who is asking."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

from agentsmith import logs
from agentsmith.config import Config, load
from agentsmith.trackers import forges, registry


def begin(file: Path | None) -> Config:
    """The configuration; logs are kept to what a person at the terminal has to know."""
    logs.configure("console", "debug" if os.environ.get("AGENTSMITH_DEBUG") else "warning")
    config = read(file)
    for secret in config.secrets():
        logs.register_secret(secret)
    return config


def read(file: Path | None) -> Config:
    """The configuration as the file has it now."""
    return load(file, platforms=registry.settings_models(), hosts=forges.settings_models())


def whoever(actor: str | None) -> str:
    """The name given, else that of the user."""
    if actor is not None:
        return actor
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user need not have a name
        return f"uid-{os.getuid()}"
