"""`make chaos` itself: a hundred tickets under every kind of fault, what it tells, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from tests.chaos.checker import check, read
from tests.chaos.disk import FULL_DISK
from tests.chaos.faults import KINDS
from tests.chaos.older import OTHER_RELEASE
from tests.support.folders import files_below
from tests.support.wait import slowly, wait_until

ROOT: Final = Path(__file__).parents[2]
FEW: Final = ("--tickets", "3", "--faults", "webhook-late")
"""Enough to be interrupted."""
PROMISED: Final = ("overlapping", "lost", "foreign", "fenced_writes", "unrepaired")


@asynccontextmanager
async def chaos(tmp_path: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`make chaos` without make, in a temporary folder of its own; ended in order if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.chaos", *arguments),
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            await process.communicate()


def folders(tmp_path: Path) -> list[Path]:
    """Where histories and logs are kept."""
    return list(tmp_path.glob("agentsmith-chaos-*"))


def left_behind(folder: Path) -> list[str]:
    """Every process whose command line names the folder, or that a run in it has started."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(folder) in command:
                found.append(command)
    return found


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_a_hundred_tickets_survive_every_kind_of_fault(tmp_path: Path) -> None:
    # A busy machine may take long; what is promised does not depend on how long it takes.
    async with chaos(tmp_path, "--tickets", "100", "--seed", "1", "--limit", "600", "--keep") as process:
        told, progress = await process.communicate()
    shown = progress.decode()
    assert process.returncode == 0, shown
    result = json.loads(told.splitlines()[-1])
    assert {name: result[name] for name in PROMISED} == dict.fromkeys(PROMISED, 0)
    assert result["tickets"] >= 100, "a fault that found nothing to hurt has opened a ticket more"
    assert result["runs"] >= 100
    skipped = {name for name in (FULL_DISK, OTHER_RELEASE) if f"({name})" in shown}
    assert result["faults"].keys() == KINDS.keys() - skipped
    assert min(result["faults"].values()) >= 1
    assert result["recovery_s"].keys() == {"p50", "p99", "max"}
    assert "every interval is multiplied by" in shown
    assert "tickets ended" in shown, "progress is shown while it runs"
    assert left_behind(tmp_path) == []
    # The histories are all that the verdict rests on: anybody can judge them again.
    (folder,) = folders(tmp_path)
    again = check(read(folder / "history"))
    assert {name: getattr(again, name) for name in PROMISED} == dict.fromkeys(PROMISED, 0)
    assert again.runs == result["runs"]


@pytest.mark.timeout(240)
async def test_interrupted_it_ends_every_process(tmp_path: Path) -> None:
    async with chaos(tmp_path, *FEW) as process:
        await wait_until(slowly(lambda: bool(files_below(tmp_path, "work-*.jsonl"))), what="work to begin", within=120)
        assert left_behind(tmp_path)
        process.send_signal(signal.SIGINT)
        told, shown = await process.communicate()
    assert process.returncode == 130, shown.decode()
    assert told == b""
    assert left_behind(tmp_path) == []
    assert folders(tmp_path) == []


@pytest.mark.timeout(240)
async def test_killed_it_leaves_no_process_behind_either(tmp_path: Path) -> None:
    async with chaos(tmp_path, *FEW) as process:
        await wait_until(slowly(lambda: bool(files_below(tmp_path, "work-*.jsonl"))), what="work to begin", within=120)
        process.kill()
        await process.communicate()
    # Nobody is left to end them: daemons die with their parent, and their guards end the work.
    await wait_until(slowly(lambda: not left_behind(tmp_path)), what="everything to end by itself", within=60)


@pytest.mark.parametrize("arguments", [("--tickets", "0"), ("--tickets", "many"), ("--speed", "-1"), ("--what",)])
async def test_bad_input_is_told_in_one_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    async with chaos(tmp_path, *arguments) as process:
        told, shown = await process.communicate()
    assert process.returncode == 2
    assert told == b""
    assert shown.decode().splitlines()[-1].startswith("make chaos: error: ")
    assert "Traceback" not in shown.decode()
    assert folders(tmp_path) == []
