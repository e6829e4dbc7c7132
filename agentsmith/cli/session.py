"""What every command begins with: the configuration, quiet logs, and who is asking."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

import structlog

from agentsmith import logs, privacy, redaction
from agentsmith.config import Config, load
from agentsmith.config.env_file import readable_by_others
from agentsmith.config.loading import Secrets
from agentsmith.trackers import forges, registry

log = structlog.get_logger()


def begin(file: Path | None, *, secrets: Secrets = "as needed") -> Config:
    """The configuration; logs are kept to what a person at the terminal has to know.

    Of the secrets that it names, those that the command comes to use have to be there, or "all".
    """
    logs.configure("console", "debug" if os.environ.get("AGENTSMITH_DEBUG") else "warning")
    config = read(file, secrets=secrets)
    for secret in config.secrets():
        redaction.register_secret(secret)
    privacy.keep(config.variables)
    return config


def read(file: Path | None, *, secrets: Secrets = "all") -> Config:
    """The configuration as the file has it now."""
    config = load(file, platforms=registry.settings_models(), hosts=forges.settings_models(), secrets=secrets)
    if config.env_file is not None and readable_by_others(config.env_file):
        path = str(config.env_file)
        log.warning("every user of this machine can read the secrets in this file; run: chmod 600", file=path)
    return config


def whoever(actor: str | None) -> str:
    """The name given, else that of the user."""
    if actor is not None:
        return actor
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user need not have a name
        return f"uid-{os.getuid()}"
