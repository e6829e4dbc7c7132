"""The guard as its consumer sees it: one per run, for all of its commands, one after another."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from agentsmith.domain.errors import MachineTrouble
from agentsmith.guard import processes, program
from agentsmith.guard.spawn import GuardProcess, NotSpawned

_START_LIMIT = 30.0  # a loaded machine is slow, but a guard that takes longer is broken
_SLACK = 5.0
TAIL: Final = 16 * 1024
_REASONS: dict[int | None, str] = {code: reason for reason, code, _ in program.REASONS}


class CommandNotStarted(Exception):
    """The command could not be started as it is; the message says what to mend."""


class GuardDied(Exception):
    """The guard is gone; so is, by the time this is raised, every process of the run that could be found."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a command ended; there is one once nothing of it is left."""

    code: int | None
    signal: int | None
    timed_out: bool
    stopped: str | None
    tail: str
    truncated: bool
    duration: float
    stalled: bool = False
    """It timed out because it printed nothing for too long."""
    printed: int = 0
    """How many bytes it printed, whatever was kept of them."""
    unheard: int = 0
    """How many of the worker's own lines were too many to be passed on."""


@dataclass(frozen=True, slots=True)
class User:
    """Who a command runs as."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a command is bound to, beside its cgroup: `memory` in bytes for each process, `cpus` whole processors."""

    user: User | None = None
    memory: int | None = None
    cpus: int | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """What to run; times are seconds, limits bytes.

    What it writes goes to the log, or to the files `stdout` and `stderr`. The log has `log_limit` bytes and the end of
    the output. With `report`, all of the output is in files of that name with `.0`, `.1`, … at their end too; of very
    much (see `output.PART`) the beginning and the end.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    """Its whole environment."""
    cwd: Path
    log: Path
    log_limit: int
    timeout: float | None = None
    stall: float | None = None
    """It is stopped after so long without output."""
    stdin: Path | None = None
    tail_limit: int = TAIL
    report: Path | None = None
    stdout: Path | None = None
    stderr: Path | None = None
    confinement: Confinement = Confinement()

    def as_order(self) -> dict[str, Any]:
        """The form in which the guard gets it."""
        files = {name: getattr(self, name) for name in ("stdin", "stdout", "stderr", "report")}
        return {
            "argv": self.argv,
            "env": dict(self.env),
            "cwd": str(self.cwd),
            "log": str(self.log),
            "log_limit": self.log_limit,
            "tail_limit": self.tail_limit,
            "timeout": self.timeout,
            "stall": self.stall,
            **{name: str(file) for name, file in files.items() if file},
            **asdict(self.confinement),
        }


@dataclass(frozen=True, slots=True)
class LeaseRelease:
    """The program with which the guard releases the lease, once nothing of the run is left, if its consumer cannot."""

    argv: tuple[str, ...]
    input: str


class _Running:
    """A command under way."""

    def __init__(self, on_line: Callable[[str], None] | None) -> None:
        self.on_line = on_line
        self.trouble: Exception | None = None
        self.outcome: asyncio.Future[Exit | CommandNotStarted | MachineTrouble] = (
            asyncio.get_running_loop().create_future()
        )


class _Events:
    """Reads the guard's events, and makes one moment of the two that its end takes."""

    def __init__(self) -> None:
        self.on_event: Callable[[dict[str, Any]], None] = lambda _: None
        self.supervisor_gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closed = False
        self._unread = b""

    def received(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self.on_event(json.loads(line))

    def output_closed(self) -> None:
        self._closed = True
        self._conclude()

    def supervisor_exited(self) -> None:
        self.supervisor_gone.set_result(None)
        self._conclude()

    def _conclude(self) -> None:
        if self._closed and self.supervisor_gone.done() and not self.gone.done():
            self.gone.set_result(None)


class Guard:
    """A guard that is up. open() makes one; close() must follow."""

    def __init__(self, events: _Events, process: GuardProcess, grace: float) -> None:
        self.pid = process.pid
        self._events = events
        self._process = process
        self._ending_limit = grace + processes.PATIENCE + _SLACK
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._running: _Running | None = None
        self._closing = False
        events.on_event = self._on_event
        events.supervisor_gone.add_done_callback(self._expect_the_end)
        events.gone.add_done_callback(self._finish)

    @classmethod
    async def open(
        cls, *, trusted_until: float, grace: float, release: LeaseRelease | None, cgroup: Path | None = None
    ) -> Guard:
        """Starts a guard that ends everything once boottime() passes `trusted_until` or this process dies.

        Commands are put into the cgroup, if there is one, and looked for there. MachineTrouble when none can be had.
        """
        events = _Events()
        try:
            process = await GuardProcess.spawn(events, cgroup)
        except NotSpawned as trouble:
            raise MachineTrouble(str(trouble)) from trouble
        guard = cls(events, process, grace)
        try:
            releasing = {"argv": release.argv, "input": release.input} if release else None
            guard._send("hello", trusted_until=trusted_until, grace=grace, release=releasing)
            await guard._until(guard._ready, within=_START_LIMIT)
            if not guard._ready.done():
                raise MachineTrouble("the guard did not start")
        except BaseException:
            await guard.close()
            raise
        return guard

    async def run(self, command: Command, on_line: Callable[[str], None] | None = None) -> Exit:
        """Runs one command and returns when nothing of it is left; if cancelled, it stops the command first.

        `on_line` gets each line of output that begins with `::`; what it raises stops the command and is raised here.
        CommandNotStarted when the command is wrong, MachineTrouble when it could not be started though it is right.
        """
        if self._closing or self._ended.done():
            raise self._death()
        if self._running is not None:
            raise RuntimeError("a guard runs one command at a time")
        running = self._running = _Running(on_line)
        self._send("start", **command.as_order())
        try:
            await self._until(running.outcome)
        except asyncio.CancelledError:
            self._send("stop", reason="cancelled")
            await self._until(running.outcome, within=self._ending_limit)
            raise
        if not running.outcome.done():
            raise self._death()
        outcome = running.outcome.result()
        if running.trouble is not None:
            raise running.trouble
        if not isinstance(outcome, Exit):
            raise outcome
        return outcome

    def trust(self, until: float) -> None:
        """Moves the end of the trust window; never blocks."""
        self._send("trust", until=until)

    async def stop(self, reason: str) -> None:
        """Asks for the end of the command that runs now, whose run() then returns; spares later ones."""
        self._send("stop", reason=reason)

    async def close(self) -> None:
        """Ends what still runs, and the guard, without releasing the lease; returns when nothing is left."""
        if not self._closing:
            self._closing = True
            self._send("end")
        if not await self._is_gone(self._ending_limit) and self._ended.done():
            await self._is_gone(program.RELEASE_LIMIT)  # the trust window had closed before we came
        if not self._events.gone.done():
            await self._force()
        self._process.close()

    async def _force(self) -> None:
        """Ends a guard that does not answer: somebody must have stopped it."""
        if not self._events.supervisor_gone.done():
            self._kill_session(spare=self.pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGCONT)  # it now gets all orphans, and can see those that we cannot
            await self._is_gone(processes.PATIENCE + _SLACK)
        if not self._events.gone.done():
            self._kill_session()
            await self._is_gone(_SLACK)

    async def _is_gone(self, within: float) -> bool:
        await asyncio.wait({self._events.gone}, timeout=within)
        return self._events.gone.done()

    async def _until(self, awaited: asyncio.Future[Any], within: float | None = None) -> None:
        """Waits for the future, but not for longer than the guard can still bring it about."""
        await asyncio.wait({awaited, self._ended}, timeout=within, return_when=asyncio.FIRST_COMPLETED)

    def _send(self, op: str, **fields: object) -> None:
        if not self._events.supervisor_gone.done():
            self._process.order(json.dumps({"op": op, **fields}).encode() + b"\n")

    def _on_event(self, event: dict[str, Any]) -> None:
        kind, running = event.pop("event"), self._running
        if kind == "ready":
            self._ready.set_result(None)
        elif kind == "releasing":
            self._ended.set_result(event["reason"])
        elif kind == "said" and running is not None and running.on_line is not None:
            try:
                running.on_line(event["line"])
            except Exception as trouble:
                running.trouble, running.on_line = trouble, None
                self._send("stop", reason="its output could not be handled")
        elif kind in ("exited", "failed") and running is not None:
            self._running = None
            running.outcome.set_result(Exit(**event) if kind == "exited" else _not_started(**event))

    def _death(self) -> GuardDied:
        return GuardDied(f"the guard is gone: {self._ended.result() if self._ended.done() else 'closed'}")

    def _expect_the_end(self, _: object) -> None:
        """Without its supervisor the guard proper ends the run and itself; if it does not, it is killed."""
        overdue = asyncio.get_running_loop().call_later(self._ending_limit, self._kill_session)
        self._events.gone.add_done_callback(lambda _: overdue.cancel())

    def _finish(self, _: object) -> None:
        try:
            # At once, while the number of the session cannot have gone to anybody else.
            self._kill_session()
        finally:  # the list of processes needs a free file descriptor; that the guard is gone is known without
            if not self._ended.done():
                code = self._process.returncode
                self._ended.set_result(_REASONS.get(code, f"exit status {code}"))

    def _kill_session(self, spare: int = 0) -> None:
        """Kills what is in the guard's session: all that can be known of a run without its guard."""
        seen = {spare}
        while new := {pid for pid in _processes() if processes.session_of(pid) == self.pid} - seen:
            seen |= new
            for pid in new:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:  # gone meanwhile
                    continue


def _not_started(error: str, *, ours: bool) -> CommandNotStarted | MachineTrouble:
    return MachineTrouble(f"a command could not be started: {error}") if ours else CommandNotStarted(error)


def _processes() -> Iterable[int]:
    """Every process that can be seen; cheaper than the table of them, because every run that ends asks."""
    if processes.LINUX:
        return map(int, filter(str.isdigit, os.listdir("/proc")))
    return processes.process_table()
