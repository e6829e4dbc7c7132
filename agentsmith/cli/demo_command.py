"""`agentsmith demo`: the demo, shown live and summed up at the end."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rich.live import Live
from rich.text import Text

from agentsmith import logs
from agentsmith.cli import failing, output
from agentsmith.cli.demo_view import live_table, summary
from agentsmith.demo.actors import Program, Troupe, gathered
from agentsmith.demo.checks import as_data, check, error_of
from agentsmith.demo.stage import PROCESSES, StageFright, set_up
from agentsmith.demo.story import Played, Tell, play

_PATIENCE: Final = 40.0
"""Seconds before the demo gives up, on top of what the scaled intervals take; a busy machine is slow."""
_SLOWEST_RECOVERY: Final = 150.0
"""Seconds, unscaled: the settling period, a sweep, and a stale look on top."""


def demo(*, tracker: str, tickets: int, speed: float, keep: bool, as_json: bool, program: Program) -> bool:
    """Play the demo; False when something did not go as it should, ConfigError when there is no such tracker.

    `program` is the command line itself, which the demo's processes run.
    """
    began = time.monotonic()
    importlib.import_module("agentsmith.cli.up")  # here, once for all processes
    folder = Path(tempfile.mkdtemp(prefix="agentsmith-demo-"))
    try:
        with gathered(PROCESSES, program) as troupe, (folder / "demo.log").open("w") as log:
            logs.configure("json", "info", stream=log)
            with _shown(as_json=as_json) as tell:
                result = asyncio.run(_interruptible(folder, tracker, troupe, tickets=tickets, speed=speed, tell=tell))
            logs.configure("console", "warning")
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    except StageFright as error:
        failing.tell(replace(failing.failed(error), exit_code=failing.NO), as_json=as_json)
        return False
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    result |= {"seconds": round(time.monotonic() - began, 2), "folder": str(folder) if keep else None}
    if as_json:
        output.json_result(result)
    else:
        for part in summary(result):
            output.show(part)
    return bool(result["ok"])


async def _interruptible(
    folder: Path, tracker: str, troupe: Troupe, *, tickets: int, speed: float, tell: Tell
) -> dict[str, Any]:
    """The demo, ended in order by Ctrl-C, and by the signals of a supervisor or a closed terminal too."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - we are inside one

    def interrupt() -> None:
        # Once: a second Ctrl-C must not leave processes behind that the first is just about to end.
        if not task.cancelling():
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, interrupt)
    factor = 1 / speed
    async with set_up(folder, factor, tracker, troupe) as stage:
        played = await play(stage, tickets, tell, patience=_PATIENCE + _SLOWEST_RECOVERY * factor)
        result = as_data(stage, played, await check(stage, played))
        tell(played, "all tickets have ended; stopping the processes" if result["ok"] else "stopping the processes")
        return {**result, "factor": factor, "speed": speed, "error": await error_of(stage, played)}


@contextlib.contextmanager
def _shown(*, as_json: bool) -> Iterator[Tell]:
    """How the story is told while it plays: a table that changes on a terminal, else a line per headline."""
    if as_json or not output.fancy():

        def line(played: Played, headline: str) -> None:
            if headline:
                since = f"{round((time.time() - played.start) * 1000):>6} ms  " if played.start else ""
                print(f"{since}{headline}", file=sys.stderr, flush=True)

        yield line
        return
    headlines: list[str] = []
    with Live(Text("…"), console=output.console(), transient=True, refresh_per_second=20) as live:

        def redraw(played: Played, headline: str) -> None:
            if headline:
                headlines.append(headline)
            live.update(live_table(played, headlines[-3:]))

        yield redraw
