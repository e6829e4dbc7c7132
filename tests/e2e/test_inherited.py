"""Whatever a shell or a supervisor hands down, agentsmith works: closed files, ignored and blocked signals."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import SLOW, Cli, command
from tests.support.embedded import servers_of

CONFIG = """\
trackers:
  local: {platform: local, poll_interval: 50ms}
triggers:
  - {label: agent-smith, pipeline: bad}
pipelines:
  bad: {steps: [{run: "exit 3"}]}
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    cli.configure(CONFIG)
    yield cli
    assert servers_of(cli.data) == []


def start(cli: Cli, redirected: str, *arguments: str) -> subprocess.Popen[bytes]:
    """`agentsmith` with its files as a shell makes them, no child's end told of, and every signal blocked."""

    def hand_down() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())

    shell = ["/bin/sh", "-c", f'exec "$@" {redirected}', "sh"]
    return subprocess.Popen(
        [*shell, *command(*arguments)], cwd=cli.folder, env=cli.environ, stderr=subprocess.PIPE, preexec_fn=hand_down
    )


async def test_a_command_without_standard_output_does_its_work(cli: Cli) -> None:
    with start(cli, ">&-", "ticket", "new", "--title", "Unseen") as process:
        _, told = await asyncio.to_thread(process.communicate, timeout=SLOW)
    assert (process.returncode, told) == (0, b"")
    assert (await cli.ticket("1")).title == "Unseen"


async def test_a_daemon_with_nothing_open_and_every_signal_blocked_works_and_stops(cli: Cli) -> None:
    await cli.new("Break", "agent-smith")
    with start(cli, "<&- >&- 2>&-", "up") as process:
        try:
            await cli.wait_for_label("1", "agent-smith:failed")
            assert "exit code 3" in await cli.comments("1")
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, SLOW) == 0
        finally:
            process.kill()
