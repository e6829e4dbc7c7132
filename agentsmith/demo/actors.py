"""The demo's processes. Where it can, the demo forks them early, from all that it has imported itself: four times the
start of a Python program is most of what the demo would take.

A forked process is `agentsmith up` like any other from then on: with a configuration of its own, ended by its pid.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Final, Protocol

Program = Callable[[Sequence[str]], int]
"""`agentsmith` with these arguments, in this process; answers the exit code."""
_MINE: Final = "AGENTSMITH_"
"""The settings of whoever runs the demo must not reach into it."""
_DISMISSED_WITHIN: Final = 5.0
_SHORT: Final = 70
"""Bytes; sockets are made in temporary folders, and their paths must not be long."""


def _environ(folder: str) -> dict[str, str]:
    """What a process of the demo gets: nobody's settings, and the demo's folder for all that is temporary.

    A killed process cannot clean up after itself; the demo can.
    """
    environ = {key: value for key, value in os.environ.items() if not key.startswith(_MINE)}
    return environ | {"TMPDIR": folder} if len(os.fsencode(folder)) <= _SHORT else environ


class Process(Protocol):
    """A process of ours, known by its pid."""

    @property
    def pid(self) -> int:
        """Its number."""

    def poll(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None while it lives."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it is over; subprocess.TimeoutExpired when that takes too long."""

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it still lives."""

    def kill(self) -> None:
        """Kill -9."""


class Actor:
    """A process that was forked early, and waits for its part."""

    def __init__(self, program: Program) -> None:
        context = multiprocessing.get_context("fork")
        waiting, self._cue = context.Pipe(duplex=False)
        self._process: ForkProcess = context.Process(target=_wait_and_run, args=(waiting, self._cue, program))
        self._process.start()
        waiting.close()

    @property
    def pid(self) -> int:
        """See Process."""
        return self._process.pid or 0

    def poll(self) -> int | None:
        """See Process."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """See Process."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired("agentsmith up", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """See Process."""
        if self.poll() is None:  # not collected yet, so it is still the one that is meant
            os.kill(self.pid, number)

    def kill(self) -> None:
        """See Process."""
        self._process.kill()

    def play(self, arguments: Sequence[str], folder: Path, log: Path) -> None:
        """Its part: `agentsmith` with these arguments, in the folder, with its output in the log."""
        self._cue.send((list(arguments), str(folder), str(log)))

    def dismiss(self) -> None:
        """If it was given no part it ends; one that plays is its stage's to end."""
        self._cue.close()


def _wait_and_run(waiting: Connection, cue: Connection, program: Program) -> None:
    os.setpgid(0, 0)  # Ctrl-C is for the demo, which ends its processes in order
    cue.close()  # or the end of the demo would not be heard
    try:
        arguments, folder, log = waiting.recv()
    except EOFError:
        return
    waiting.close()
    random.seed()
    os.chdir(folder)
    environ = _environ(folder)
    os.environ.clear()
    os.environ.update(environ)
    tempfile.tempdir = None  # what was looked up before the fork does not hold any more
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream in (1, 2):
        os.dup2(output, stream)
    sys.exit(program(arguments))


class Troupe:
    """Starts the demo's processes."""

    def __init__(self, actors: Sequence[Actor] = ()) -> None:
        self._free = list(actors)

    def start(self, arguments: Sequence[str], folder: Path, log: Path) -> Process:
        """`agentsmith` with these arguments, in the folder, with its output in the log."""
        if self._free:
            actor = self._free.pop()
            actor.play(arguments, folder, log)
            return actor
        with log.open("wb") as stream:
            return subprocess.Popen(
                [sys.executable, "-m", "agentsmith", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                cwd=folder,
                env=_environ(str(folder)),
                process_group=0,
            )


@contextlib.contextmanager
def gathered(count: int, program: Program) -> Iterator[Troupe]:
    """A troupe of that many, forked now, or none where a fork is not safe: then processes are started afresh."""
    if sys.platform != "linux" or threading.active_count() > 1:
        yield Troupe()
        return
    actors = [Actor(program) for _ in range(count)]
    try:
        yield Troupe(actors)
    finally:
        for actor in actors:
            actor.dismiss()
        for actor in actors:
            try:
                actor.wait(_DISMISSED_WITHIN)
            except subprocess.TimeoutExpired:
                actor.kill()
                actor.wait()
