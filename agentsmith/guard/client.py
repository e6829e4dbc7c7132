"""The consumer's handle on a guard: one per run, for all of its commands, one after another."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentsmith.domain.errors import MachineTrouble
from agentsmith.guard import program
from agentsmith.guard.spawn import NotPosted, Posted

_START_LIMIT = 30.0  # a loaded machine is slow, but a guard that takes longer is broken
_SLACK = 5.0
_REASONS: dict[int | None, str] = {code: reason for reason, code, _ in program.LEAVINGS}


class CommandNotStarted(Exception):
    """The command could not be started as it is; the message says what to mend."""


class GuardDied(Exception):
    """The guard is gone; so is, by the time this is raised, every process of the run that could be found."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a command ended, told once nothing of it is left."""

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
class Farewell:
    """What the guard runs, once nothing of the run is left, if its consumer can no longer settle the run."""

    argv: tuple[str, ...]
    input: str


class _Step:
    """A command under way, as the handle sees it."""

    def __init__(self, on_line: Callable[[str], None] | None) -> None:
        self.on_line = on_line
        self.trouble: Exception | None = None
        self.outcome: asyncio.Future[Exit | CommandNotStarted | MachineTrouble] = (
            asyncio.get_running_loop().create_future()
        )


class _Wire:
    """Makes events of what is heard of a guard, and one moment of all that its end takes."""

    def __init__(self) -> None:
        self.on_event: Callable[[dict[str, Any]], None] = lambda _: None
        self.keeper_gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._mute = False
        self._unread = b""

    def heard(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self.on_event(json.loads(line))

    def fell_silent(self) -> None:
        self._mute = True
        self._conclude()

    def keeper_ended(self) -> None:
        self.keeper_gone.set_result(None)
        self._conclude()

    def _conclude(self) -> None:
        if self._mute and self.keeper_gone.done() and not self.gone.done():
            self.gone.set_result(None)


class Guard:
    """A guard that is up. open() makes one; close() must follow."""

    def __init__(self, wire: _Wire, posted: Posted, grace: float) -> None:
        self.pid = posted.pid
        self._wire = wire
        self._posted = posted
        self._ending_limit = grace + program.PATIENCE + _SLACK
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._step: _Step | None = None
        self._closing = False
        wire.on_event = self._take
        wire.keeper_gone.add_done_callback(self._expect_the_end)
        wire.gone.add_done_callback(self._finish)

    @classmethod
    async def open(
        cls, *, trusted_until: float, grace: float, farewell: Farewell | None, cgroup: Path | None = None
    ) -> Guard:
        """Starts a guard that ends everything once boottime() passes `trusted_until` or this process dies.

        Commands are put into the cgroup, if there is one, and looked for there. MachineTrouble when none can be had.
        """
        wire = _Wire()
        try:
            posted = await Posted.post(wire, cgroup)
        except NotPosted as trouble:
            raise MachineTrouble(str(trouble)) from trouble
        guard = cls(wire, posted, grace)
        try:
            last_words = {"argv": farewell.argv, "input": farewell.input} if farewell else None
            guard._tell("hello", trusted_until=trusted_until, grace=grace, farewell=last_words)
            await guard._until(guard._ready, within=_START_LIMIT)
            if not guard._ready.done():
                raise MachineTrouble("the guard did not start")
        except BaseException:
            await guard.close()
            raise
        return guard

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        log: Path,
        log_limit: int,
        tail_limit: int = 16384,
        timeout: float | None = None,
        stall: float | None = None,
        stdin: Path | None = None,
        stdout: Path | None = None,
        stderr: Path | None = None,
        report: Path | None = None,
        confinement: Confinement | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> Exit:
        """Runs one command and returns when nothing of it is left; if cancelled, it stops the command first.

        `env` is the command's whole environment. What it writes goes to the log, or to the files `stdout` and `stderr`.
        All that it prints is in the files `report`.0, .1, … too, whatever the log's limit; of very much (see `PART`)
        the beginning and the end. It is stopped after `timeout` seconds, or `stall` without output.
        `on_line` gets each line of output that begins with `::`; what it raises stops the command and is raised here.
        CommandNotStarted when the command is wrong, MachineTrouble when it could not be started though it is right.
        """
        if self._closing or self._over.done():
            raise self._death()
        if self._step is not None:
            raise RuntimeError("a guard runs one command at a time")
        step = self._step = _Step(on_line)
        files = {"stdin": stdin, "stdout": stdout, "stderr": stderr, "report": report}
        self._tell(
            "start",
            argv=list(argv), env=dict(env), cwd=str(cwd), log=str(log),
            log_limit=log_limit, tail_limit=tail_limit, timeout=timeout, stall=stall,
            **{name: str(file) for name, file in files.items() if file}, **asdict(confinement or Confinement()),
        )  # fmt: skip
        try:
            await self._until(step.outcome)
        except asyncio.CancelledError:
            self._tell("stop", reason="cancelled")
            await self._until(step.outcome, within=self._ending_limit)
            raise
        if not step.outcome.done():
            raise self._death()
        outcome = step.outcome.result()
        if step.trouble is not None:
            raise step.trouble
        if not isinstance(outcome, Exit):
            raise outcome
        return outcome

    def trust(self, until: float) -> None:
        """Moves the end of the trust window; never blocks."""
        self._tell("trust", until=until)

    async def stop(self, reason: str) -> None:
        """Asks for the end of the command that runs now, whose run() then returns; spares later ones."""
        self._tell("stop", reason=reason)

    async def close(self) -> None:
        """Ends what still runs, and the guard, without the farewell; returns when nothing is left."""
        if not self._closing:
            self._closing = True
            self._tell("end")
        if not await self._is_gone(self._ending_limit) and self._over.done():
            await self._is_gone(program.FAREWELL_LIMIT)  # the trust window had closed before we came
        if not self._wire.gone.done():
            await self._force()
        self._posted.close()

    async def _force(self) -> None:
        """Ends a guard that does not answer: somebody must have stopped it."""
        if not self._wire.keeper_gone.done():
            self._kill_session(spare=self.pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGCONT)  # it now gets all orphans, and can see those that we cannot
            await self._is_gone(program.PATIENCE + _SLACK)
        if not self._wire.gone.done():
            self._kill_session()
            await self._is_gone(_SLACK)

    async def _is_gone(self, within: float) -> bool:
        await asyncio.wait({self._wire.gone}, timeout=within)
        return self._wire.gone.done()

    async def _until(self, awaited: asyncio.Future[Any], within: float | None = None) -> None:
        """Waits for the future, but not for longer than the guard can still bring it about."""
        await asyncio.wait({awaited, self._over}, timeout=within, return_when=asyncio.FIRST_COMPLETED)

    def _tell(self, op: str, **fields: object) -> None:
        if not self._wire.keeper_gone.done():
            self._posted.order(json.dumps({"op": op, **fields}).encode() + b"\n")

    def _take(self, event: dict[str, Any]) -> None:
        kind, step = event.pop("event"), self._step
        if kind == "ready":
            self._ready.set_result(None)
        elif kind == "farewell":
            self._over.set_result(event["reason"])
        elif kind == "said" and step is not None and step.on_line is not None:
            try:
                step.on_line(event["line"])
            except Exception as trouble:
                step.trouble, step.on_line = trouble, None
                self._tell("stop", reason="its output could not be handled")
        elif kind in ("exited", "failed") and step is not None:
            self._step = None
            step.outcome.set_result(Exit(**event) if kind == "exited" else _not_started(**event))

    def _death(self) -> GuardDied:
        return GuardDied(f"the guard is gone: {self._over.result() if self._over.done() else 'closed'}")

    def _expect_the_end(self, _: object) -> None:
        """Without its keeper the guard proper ends the run and itself; if it does not, it is killed."""
        overdue = asyncio.get_running_loop().call_later(self._ending_limit, self._kill_session)
        self._wire.gone.add_done_callback(lambda _: overdue.cancel())

    def _finish(self, _: object) -> None:
        try:
            # At once, while the number of the session cannot have gone to anybody else.
            self._kill_session()
        finally:  # the list of processes cannot be read without a free file, but that it is over is known
            if not self._over.done():
                code = self._posted.returncode
                self._over.set_result(_REASONS.get(code, f"exit status {code}"))

    def _kill_session(self, spare: int = 0) -> None:
        """Kills what is in the guard's session: all that can be known of a run without its guard."""
        seen = {spare}
        while new := {pid for pid in _processes() if program.session_of(pid) == self.pid} - seen:
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
    if program.LINUX:
        return map(int, filter(str.isdigit, os.listdir("/proc")))
    return program.process_table()
