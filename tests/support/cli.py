"""The command line in processes of its own, cut off from the settings of whoever runs the tests."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import structlog

from agentsmith.domain.ticket import Ticket
from agentsmith.trackers.local.tickets import LocalTickets
from tests.support import warm_cli
from tests.support.json_answers import parsed
from tests.support.wait import wait_until
from tests.support.warm_cli import Forked

SLOW = 60.0
"""Seconds; processes take long to start on a busy machine."""


class Cli:
    """`agentsmith` with a folder of its own: working directory, home and data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("AGENTSMITH_")}
        self.environ = clean | {
            "HOME": str(folder),
            "AGENTSMITH_DATA_DIR": str(self.data),
            "AGENTSMITH_SERVER__PORT": "0",
            "COLUMNS": "80",
        }

    def configure(self, text: str) -> Path:
        """Write ./agentsmith.yaml."""
        file = self.folder / "agentsmith.yaml"
        file.write_text(text)
        return file

    def run(
        self, *arguments: str, code: int = 0, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end; the exit code must be the expected one, and there is never a traceback."""
        env = {**self.environ, **(environ or {})}
        done = warm_cli.run(arguments, cwd=self.folder, env=env, timeout=SLOW)
        assert "Traceback" not in done.stderr + done.stdout, done.stderr
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The one document that `--json` answers with."""
        return parsed(arguments, self.run(*arguments, "--json", code=code).stdout, code=code)

    async def new(self, title: str, *labels: str) -> str:
        """Open a ticket, without the cost of a process; answers its key."""
        async with self.desk() as desk:
            return (await desk.new(title=title, labels=labels, actor="ann")).key

    async def comments(self, key: str) -> str:
        """All that was said on the ticket."""
        async with self.desk() as desk:
            return "\n".join(comment.body for comment in (await desk.show(key)).comments)

    async def ticket(self, key: str) -> Ticket:
        """The ticket, without the cost of a process."""
        async with self.desk() as desk:
            return (await desk.show(key)).ticket

    def desk(self) -> LocalTickets:
        """The local tracker's own side."""
        return LocalTickets(path=self.data / "tickets.sqlite3", project="tickets")

    async def wait_for_label(self, key: str, label: str) -> None:
        """Return once the ticket carries the label."""

        async def carries() -> bool:
            return label in (await self.ticket(key)).labels

        await wait_until(carries, what=f"ticket {key} is labelled {label}", within=SLOW)

    @contextmanager
    def up(self, *arguments: str) -> Iterator[Daemon]:
        """`agentsmith up` in the background, ended by its pid at the end."""
        log = self.folder / f"up-{len(list(self.folder.glob('up-*')))}.log"
        log.touch()
        with log.open("ab") as stream:
            to = stream.fileno()
            process = Forked(["up", *arguments], cwd=self.folder, env=self.environ, out=to, err=to)
        with process:
            try:
                yield Daemon(process, log)
            finally:
                process.send_signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(20)


class Daemon:
    """A running `agentsmith up`."""

    def __init__(self, process: Forked, log: Path) -> None:
        self.process, self.log = process, log

    async def ready(self) -> dict[str, Any]:
        """Return what it logged when it was up."""
        await wait_until(lambda: self.event("serving") is not None or self.ended, what="it is up", within=SLOW)
        found = self.event("serving")
        assert found is not None, self.log.read_text()
        return found

    def event(self, name: str) -> dict[str, Any] | None:
        """The first log line with this event."""
        for line in self.log.read_text().splitlines():
            if line.startswith("{") and json.loads(line)["event"] == name:
                return dict(json.loads(line))
        return None

    @property
    def ended(self) -> bool:
        """Whether the process is over."""
        return self.process.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    async def exit_code(self) -> int:
        """Wait for its end."""
        return await asyncio.to_thread(self.process.wait, SLOW)


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Undo what a command that runs in this very process does to logging."""
    handlers, level = logging.root.handlers[:], logging.root.level
    try:
        yield
    finally:
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
        structlog.reset_defaults()


@contextmanager
def run_here(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let commands run in this very process as they would in the folder of `cli`, in a tenth of the time."""
    monkeypatch.chdir(cli.folder)
    for name in [name for name in os.environ if name.startswith("AGENTSMITH_")]:
        monkeypatch.delenv(name)
    for name, value in cli.environ.items():
        monkeypatch.setenv(name, value)
    with quiet_logs():
        yield


def command(*arguments: str) -> list[str]:
    """The command line of `agentsmith`."""
    return [sys.executable, "-m", "agentsmith", *arguments]


def processes_with(text: str) -> list[str]:
    """The command lines of all processes that name `text`, also where only their environment does."""
    me, found = os.getpid(), []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes()
            # A zombie has neither of the two.
            if int(entry.name) != me and text.encode() in words + (entry / "environ").read_bytes():
                found.append(words.replace(b"\0", b" ").decode(errors="replace"))
    return found
