"""Real daemons for tests: started from a configuration, hurt by signals, and never left behind."""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from agentsmith.guard.processes import process_table, session_of
from tests.e2e.faulty_daemon import Plan
from tests.support.folders import files_below
from tests.support.wait import slowly, wait_until

ROOT: Final = Path(__file__).parents[2]
_OF_A_RUN: Final = ("guard/program.py", "agentsmith.running.release_lease", "work.py")


@dataclass(slots=True)
class DaemonProcess:
    """A daemon that was started."""

    number: int
    log_file: Path
    nursery: _Nursery = field(repr=False)
    pid: int = 0
    code: int | None = None
    """The exit code, or minus the signal that ended it; None while it lives."""
    is_stopped: bool = False

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it still lives."""
        self.nursery.order(op="signal", number=self.number, signal=int(number))

    async def ended(self, *, within: float = 60.0) -> int:
        """Its exit code, once it is over."""
        try:
            await wait_until(lambda: self.is_over, what=f"{self} to end", within=within)
        except AssertionError:
            self.send(signal.SIGUSR2)  # makes it note in its log where it hangs
            raise
        assert self.code is not None
        return self.code

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.nursery.listen() and self.code is not None

    async def stopped(self, *, within: float = 60.0) -> None:
        """Return once SIGSTOP has taken hold."""
        await wait_until(lambda: self.nursery.listen() and self.is_stopped, what=f"{self} to be stopped", within=within)

    async def said(self, event: str, *, within: float = 60.0) -> dict[str, Any]:
        """The first log line of this event, once it is there."""
        await wait_until(slowly(lambda: bool(self.lines(event))), what=f"{self} to say {event!r}", within=within)
        return self.lines(event)[0]

    async def port(self) -> int:
        """Where it listens, once it does."""
        return int((await self.said("serving"))["port"])

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """The JSON lines of its log, all or those of one event."""
        text = self.log_file.read_text() if self.log_file.exists() else ""
        found = [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]
        return [line for line in found if event in ("", line["event"])]

    def __str__(self) -> str:
        return f"daemon {self.number} (pid {self.pid}, {self.log_file})"


class _Nursery:
    """The process that forks daemons: one for all tests of this process; see `faulty_daemon.py`."""

    def __init__(self, process: subprocess.Popen[bytes] | _Fork) -> None:
        self._process = process
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._unread = b""
        self.daemons: list[DaemonProcess] = []
        atexit.register(self.close)

    def order(self, **order: object) -> None:
        assert self._process.stdin is not None
        os.write(self._process.stdin.fileno(), json.dumps(order).encode() + b"\n")

    def listen(self) -> bool:
        """Take in what happened since the last look; always true."""
        assert self._process.stdout is not None
        with suppress(BlockingIOError):
            while data := os.read(self._process.stdout.fileno(), 65536):
                *lines, self._unread = (self._unread + data).split(b"\n")
                for event in map(json.loads, lines):
                    self._take(self.daemons[event["number"]], event)
        assert self._process.poll() is None, "the process that starts daemons is gone"
        return True

    def _take(self, daemon: DaemonProcess, event: dict[str, Any]) -> None:
        match event["event"]:
            case "started":
                daemon.pid = event["pid"]
            case "ended":
                daemon.code = event["code"]
            case word:
                daemon.is_stopped = word == "stopped"

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class _Fork:
    """A process that was forked, as `subprocess` would show it."""

    def __init__(self, serve: Callable[[], None]) -> None:
        (orders, give), (hear, events) = os.pipe(), os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.setsid()
                for fd, instead in ((0, orders), (1, events)):
                    os.dup2(instead, fd)
                for fd in (orders, give, hear, events):
                    os.close(fd)
                for name in [name for name in os.environ if name not in _clean_environment()]:
                    del os.environ[name]
                serve()
            finally:
                os._exit(0)
        os.close(orders)
        os.close(events)
        self.stdin, self.stdout = os.fdopen(give, "wb", buffering=0), os.fdopen(hear, "rb", buffering=0)

    def poll(self) -> int | None:
        ended = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return None if ended is None else ended.si_status

    def wait(self) -> None:
        os.waitpid(self._pid, 0)


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("AGENTSMITH_")}


_nurseries: dict[tuple[str, Path], _Nursery] = {}


def _nursery(program: str, root: Path) -> _Nursery:
    if (program, root) not in _nurseries:
        process = subprocess.Popen(
            [sys.executable, "-m", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=root,
            env={**_clean_environment(), "PYTHONPATH": str(root)},
            start_new_session=True,
        )
        _nurseries[program, root] = _Nursery(process)
    return _nurseries[program, root]


def fork_nursery(program: str, serve: Callable[[], None]) -> None:
    """Let the daemons of `program` come of what this process has imported by now, rather than of a new one.

    To be called before there are threads or an event loop.
    """
    _nurseries[program, ROOT] = _Nursery(_Fork(serve))


class Daemons:
    """Starts daemons for one test. Leaving the block kills them, and what their guards have not ended by then."""

    def __init__(self, folder: Path, program: str = "tests.e2e.faulty_daemon", root: Path = ROOT) -> None:
        """`program` is the one that forks them, and does to them what is to be done; `root` has its release."""
        self._folder, self._program, self._root = folder, program, root
        self._mine: list[DaemonProcess] = []

    async def start(
        self,
        config: Path,
        *roles: str,
        plan: Plan | None = None,
        fresh: bool = False,
        shadow: bool = False,
        **environ: str,
    ) -> DaemonProcess:
        """`agentsmith up` in a process of its own; `fresh` makes it a new program rather than a fork."""
        nursery = _nursery(self._program, self._root)
        number = len(nursery.daemons)
        daemon = DaemonProcess(number, self._folder / f"daemon-{number}.log", nursery)
        nursery.daemons.append(daemon)
        self._mine.append(daemon)
        plan = plan or Plan(str(self._folder))
        nursery.order(
            op="start",
            number=number,
            config=str(config),
            roles=roles,
            log=str(daemon.log_file),
            plan=asdict(plan),
            fresh=fresh,
            shadow=shadow,
            environ=environ,
        )
        await wait_until(lambda: nursery.listen() and daemon.pid > 0, what="a daemon to be forked")
        return daemon

    @property
    def all(self) -> list[DaemonProcess]:
        """Every daemon that was started here, dead or alive."""
        return list(self._mine)

    async def close(self) -> None:
        """Leave no process behind."""
        for daemon in self._mine:
            daemon.send(signal.SIGKILL)
        for daemon in self._mine:
            await daemon.ended()
        with suppress(AssertionError):
            nothing = slowly(lambda: not self.left_behind())
            await wait_until(nothing, what="guards to end", within=5)  # time: we end them otherwise
        for pid in self.left_behind():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def left_behind(self) -> list[int]:
        """Every process of a run, guards included, that belongs to a daemon of this test."""
        guards = {int(pid) for notes in files_below(self._folder, "guards") for pid in notes.read_text().split()}
        return [pid for pid in process_table() if session_of(pid) in guards and _is_of_a_run(pid)]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        # Also when the test is cancelled: processes that outlive it would be worse than waiting.
        await asyncio.shield(self.close())


def _is_of_a_run(pid: int) -> bool:
    """Whether the process is what its session says: the number of a session that is gone may be given again."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return False
    return any(part in command for part in _OF_A_RUN)
