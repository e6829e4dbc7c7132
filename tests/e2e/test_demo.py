"""The demo: it shows what it promises, and leaves nothing behind, however it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentsmith.demo.code import TITLE
from agentsmith.simulators.playgrounds import PLAYGROUNDS
from tests.support.cli import SLOW, command, processes_with
from tests.support.wait import wait_until


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where the demo makes its own folder; as short a path as people have."""
    with tempfile.TemporaryDirectory(prefix="as-") as made:
        yield Path(made)
        assert list(Path(made).iterdir()) == []


def environ(folder: Path) -> dict[str, str]:
    # The second one must not reach into the demo.
    return {**os.environ, "TMPDIR": str(folder), "AGENTSMITH_DATA_DIR": "/absent", "XDG_RUNTIME_DIR": str(folder)}


async def none_left(folder: Path) -> None:
    """Return once no process knows the folder any more."""
    await wait_until(lambda: processes_with(str(folder)) == [], what="no process is left", within=SLOW)


@pytest.mark.parametrize("tracker", ["local", *PLAYGROUNDS])
async def test_the_demo_succeeds_and_says_so_as_data(folder: Path, tracker: str) -> None:
    # As many tickets as by default on two of them; they are no different on the others.
    tickets = 6 if tracker in ("local", "github") else 3
    arguments = [] if tracker == "local" else ["--tracker", tracker]
    arguments += [] if tickets == 6 else ["--tickets", str(tickets)]
    done = await asyncio.to_thread(
        subprocess.run,
        command("demo", "--json", *arguments),
        env=environ(folder),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    told: dict[str, Any] = json.loads(done.stdout)
    assert (told["ok"], told["tracker"]) == (True, tracker)
    assert told["factor"] == 0.05
    assert [check["ok"] for check in told["checks"]] == [True] * len(told["checks"])
    statuses = [ticket["status"] for ticket in told["tickets"]]
    assert (len(statuses), statuses.count("done"), statuses.count("failed")) == (tickets, tickets - 1, 1)
    for key, labels in told["labels"].items():
        assert {"team-blue", "agent-smith:bug"} < set(labels), key
    victim = next(ticket["key"] for ticket in told["tickets"] if ticket["killed"])
    moves = [(m["from"], m["to"]) for m in told["timeline"] if m["ticket"] == victim and m["to"]]
    assert moves == [
        ("pending", "enqueued"),
        ("enqueued", "in-progress"),
        ("in-progress", "pending"),
        ("pending", "enqueued"),
        ("enqueued", "in-progress"),
        ("in-progress", "done"),
    ]
    assert [m["ms"] for m in told["timeline"]] == sorted(m["ms"] for m in told["timeline"])
    assert "is killed (kill -9)" in done.stderr
    if tracker in ("local", "jira"):  # tickets only
        assert told["pull_requests"] == []
    else:
        (proposal,) = told["pull_requests"]
        assert (proposal["title"], proposal["base"], proposal["open"], proposal["draft"]) == (
            TITLE,
            "main",
            True,
            False,
        )
        assert proposal["head"] == f"agent-smith/{victim}"
        assert f"#{victim}" in proposal["body"]
        assert "attempt 2" in proposal["body"]
        told_of = [m["what"] for m in told["timeline"] if m["ticket"] == victim]
        half, kill = (
            told_of.index(f"half of the work is on agent-smith/{victim}"),
            told_of.index("killed (kill -9) in mid-run"),
        )
        assert half < kill < told_of.index(f"pull request {proposal['url']}")
        assert "its second run went on from the branch of the first" in {check["name"] for check in told["checks"]}
    await none_left(folder)


async def test_the_demo_reads_well_when_piped(folder: Path) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        command("demo", "--tickets", "3", "--speed", "30"),
        env=environ(folder),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    for part in ("Tickets", "Timeline, in milliseconds", "Checks", "30 times shorter", "What to try next"):
        assert part in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert "FAILED" not in done.stdout
    await none_left(folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
async def test_an_interrupted_demo_leaves_nothing_behind(folder: Path, number: signal.Signals) -> None:
    process = await asyncio.create_subprocess_exec(
        *command("demo", "--json", "--tickets", "3"),
        env=environ(folder),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    assert process.stdout is not None
    async with asyncio.timeout(SLOW):
        while b"labelled" not in (line := await process.stderr.readline()):
            assert line, "it ended before the tickets were labelled"
        process.send_signal(number)
        process.send_signal(signal.SIGINT)  # people press it again
        said, errors = await process.stdout.read(), await process.stderr.read()
    assert await process.wait() == 130
    assert said == b""
    assert b"Traceback" not in errors
    await none_left(folder)
