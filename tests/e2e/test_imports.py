"""What a short command imports: a person waits for each module, so what it does not use it must not load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import Cli, command

FOREIGN = ("httpx", "httpcore", "jinja2", "uvicorn", "starlette", "apscheduler", "jwt", "prometheus_client")
PLATFORMS = tuple(f"agentsmith.trackers.{name}" for name in ("github", "gitlab", "azuredevops", "jira", "http"))
OURS = ("agentsmith.daemon.process", "agentsmith.web", "agentsmith.simulators", "agentsmith.bench", "agentsmith.demo")


def imported(cli: Cli, *arguments: str) -> set[str]:
    """Every module that a command imports, by what Python itself says."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *command(*arguments)[1:]],
        cwd=cli.folder,
        env=cli.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


@pytest.mark.parametrize(
    ("arguments", "spared"),
    [
        (("ticket", "new", "--title", "x"), (*FOREIGN, *PLATFORMS, *OURS)),
        (("ticket", "list"), (*FOREIGN, *PLATFORMS, *OURS)),
        (("runs",), (*FOREIGN, *PLATFORMS, *OURS)),
        (("--version",), (*FOREIGN, *PLATFORMS, *OURS, "agentsmith.config", "redis", "structlog", "rich", "yaml")),
        (("ticket", "new", "--help"), (*FOREIGN, *PLATFORMS, *OURS, "agentsmith.config", "redis", "structlog", "yaml")),
    ],
    ids=lambda words: " ".join(words)[:20],
)
def test_a_short_command_imports_little(tmp_path: Path, arguments: tuple[str, ...], spared: tuple[str, ...]) -> None:
    modules = imported(Cli(tmp_path), *arguments)
    assert "agentsmith.cli.app" in modules
    assert sorted(modules & set(spared)) == []
