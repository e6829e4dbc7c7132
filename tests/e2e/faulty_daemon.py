"""The program behind `daemons.py`: starts real daemons cheaply, and strikes them down at a chosen step.

One process imports everything once and forks a daemon per order: an import costs a second, a fork some milliseconds.
A daemon is `agentsmith up` as people start it. The product has no hooks for crashes; here each of its I/O steps is
wrapped from outside (scripts, plain Redis commands, the tracker's calls, the guard) and counted *per way*:

| Way     | From                               | To                                                    |
|---------|------------------------------------|-------------------------------------------------------|
| claim   | a signal was taken                 | it is acknowledged                                    |
| run     | a request was taken                | its outcome is published                              |
| renew   | a run has its lease                | (the renewals; they have a clock of their own)        |
| recover | housekeeping found a stuck ticket  | what it decided is published                          |

Only the first pass of each way counts, from its own beginning, so that start-up and idle chatter shift no number.
A process that ends after step N has done all of step N and nothing of the next: with number 0, the beginning, these
are all the gaps between two steps. Step N in the middle looks to the world like N done or not begun.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import typer.main

import agentsmith.cli.app
import agentsmith.cli.up
import agentsmith.daemon.process
import agentsmith.running.run
import agentsmith.store.store
import agentsmith.tickets.lock
from agentsmith.config.models import for_platforms
from agentsmith.guard import program as guard_program
from agentsmith.guard import spawn as posting
from agentsmith.guard import spawner as barracks_program
from agentsmith.guard.client import Exit, Farewell, Guard
from agentsmith.guard.program import prctl
from agentsmith.intake.signals import Intake
from agentsmith.running import release_lease as farewell
from agentsmith.running.consumer import Consumer
from agentsmith.running.run_lease import KeptLease
from agentsmith.running.run_work import RunContext
from agentsmith.store.commands import Commands
from agentsmith.store.scripting import Script
from agentsmith.store.signals import Signals
from agentsmith.tickets.look import Looks
from agentsmith.trackers import forges, registry
from agentsmith.trackers.http import open_http
from agentsmith.trackers.local.database import Database
from agentsmith.trackers.local.tracker import LocalTracker
from tests.e2e import shared_barracks
from tests.support.wait import wait_until

_PDEATHSIG: Final = 1
_FAREWELL_CALL: Final = Path(__file__).with_name("farewell_call.py")
_TRACKER_CALLS: Final = ("get", "move", "tidy", "read_sticky", "write_sticky", "history")
_NOT_COUNTED: Final = ("eval", "evalsha", "info", "ping", "aclose")
"""Scripts are counted where they have a name; the others ask nothing about a ticket."""

RUNNING: Final = "the command is running"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to happen to a daemon; with no `way`, nothing but taking notes."""

    folder: str
    """Where the notes go, and where the work says that it runs."""
    way: str = ""
    number: int = 0
    deed: str = "SIGKILL"
    meanwhile: int = -1
    """Strike in the claim only once the run has come this far."""
    drain: bool = False
    """SIGTERM to ourselves while the command runs."""
    pretend: str = ""
    """A file that gets one line per command, instead of the command: where only the race for it matters."""
    pause_poll: bool = False
    """SIGSTOP to ourselves when a poll has found something and is about to signal it, once."""


_way: ContextVar[str] = ContextVar("way", default="")


class Steps:
    """Counts the steps of each way, notes them, and strikes."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._folder = plan, Path(plan.folder)
        self._counts: dict[str, int] = {}
        self._transaction = threading.Lock()
        self._trace = os.open(self._folder / f"steps-{os.getpid()}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def enter(self, way: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do `work` as this way, if it is the first time."""
        before = _way.set("" if way in self._counts else way)
        try:
            await self.passed("begin")
            await work()
        finally:
            _way.reset(before)

    async def passed(self, name: str) -> None:
        """A step of the way that we are on is done."""
        if not (way := _way.get()):
            return
        number = self._counts[way] = self._counts.get(way, -1) + 1
        os.write(self._trace, f"{way} {number} {name}\n".encode())
        plan = self._plan
        if plan.drain and name == RUNNING:
            os.kill(os.getpid(), signal.SIGTERM)
        if (way, number) == (plan.way, plan.number):
            await wait_until(lambda: self._counts.get("run", -1) >= plan.meanwhile, what="the run to come so far")
            with suppress(FileNotFoundError):
                (self._folder / "hold").unlink()
            # Nobody can write a SQLite file whose lock is held by a process that stands still.
            with self._transaction:
                os.kill(os.getpid(), signal.Signals[plan.deed])

    def install(self) -> None:
        """Wrap every step of the product."""
        for owner, method, way in (
            (Intake, "_deal_with", "claim"),
            (Consumer, "_run", "run"),
            (KeptLease, "keep", "renew"),
            (Looks, "repair", "recover"),
            (agentsmith.tickets.lock, "_renew", ""),
        ):
            self._is_a_way(owner, method, way)
        for method in _TRACKER_CALLS:
            self._is_a_step(LocalTracker, method, f"tracker.{method}")
        self._is_a_step(Guard, "close", "guard.close")
        self._count_scripts()
        self._count_commands()
        self._count_guards()
        self._watch_transactions()
        if self._plan.pause_poll:
            self._pause_poll()

    def _is_a_way(self, owner: Any, method: str, way: str) -> None:
        real = getattr(owner, method)

        async def wrapped(*args: Any, **more: Any) -> Any:
            answer: list[Any] = []

            async def work() -> None:
                answer.append(await real(*args, **more))

            await self.enter(way, work)
            return answer[0]

        setattr(owner, method, wrapped)

    def _is_a_step(self, owner: Any, method: str, name: str) -> None:
        real = getattr(owner, method)

        async def wrapped(*args: Any, **more: Any) -> Any:
            answer = await real(*args, **more)
            await self.passed(name)
            return answer

        setattr(owner, method, wrapped)

    def _count_scripts(self) -> None:
        real, attribute = Script.__call__, "__call__"
        names = {
            id(value): f"{module.rpartition('.')[2]}.{name.strip('_').lower()}"
            for module, found in list(sys.modules.items())
            if module.startswith("agentsmith.store.")
            for name, value in vars(found).items()
            if isinstance(value, Script)
        }

        async def call(script: Script, *args: Any) -> Any:
            answer = await real(script, *args)
            # A lock that was busy is asked for again, and how often depends on luck.
            if not (names[id(script)].startswith("leases.take") and answer in ("busy", 0)):
                await self.passed(names[id(script)])
            return answer

        setattr(Script, attribute, call)

    def _count_commands(self) -> None:
        attribute = "connect"
        real: Callable[[str], Commands] = getattr(agentsmith.store.store, attribute)
        steps = self

        class Counted:
            def __init__(self, client: Commands) -> None:
                self._client = client

            def __getattr__(self, name: str) -> Any:
                command = getattr(self._client, name)
                if name in _NOT_COUNTED:
                    return command

                async def call(*args: Any, **more: Any) -> Any:
                    answer = await command(*args, **more)
                    await steps.passed(f"{name} {_family(args[0])}")
                    return answer

                return call

        setattr(agentsmith.store.store, attribute, lambda url: Counted(real(url)))

    def _pause_poll(self) -> None:
        real, attribute, stopped = Signals.send, "send", False

        async def send(signals: Signals, found: Any, *, leading: Any = None) -> int | None:
            nonlocal stopped
            said = list(found)
            if leading is not None and said and not stopped:
                stopped = True
                os.kill(os.getpid(), signal.SIGSTOP)
            return await real(signals, said, leading=leading)

        setattr(Signals, attribute, send)

    def _watch_transactions(self) -> None:
        real, attribute = Database._transact, "_transact"

        def transact(*args: Any) -> Any:
            with self._transaction:
                return real(*args)

        setattr(Database, attribute, transact)

    def _count_guards(self) -> None:
        made, opened, ran = Guard.__init__, Guard.open, Guard.run
        folder, steps = self._folder, self

        def make(guard: Guard, *args: Any) -> None:
            made(guard, *args)
            with (folder / "guards").open("a") as guards:
                guards.write(f"{guard.pid}\n")

        async def open_guard(**how: Any) -> Guard:
            guard = await opened(**how)
            await steps.passed("guard.open")
            return guard

        async def run(guard: Guard, *args: Any, **how: Any) -> Exit:
            if "AGENTSMITH_RUN_ID" not in how["env"]:
                return await ran(guard, *args, **how)  # the machine is tried out
            running = folder / f"running-{how['env']['AGENTSMITH_RUN_ID']}"
            command = asyncio.create_task(ran(guard, *args, **how))
            try:
                await wait_until(lambda: running.exists() or command.done(), what="the command to run", within=60)
                await steps.passed(RUNNING)
            except asyncio.CancelledError:
                command.cancel()
            ended = await command
            await steps.passed("guard.run")
            return ended

        for attribute, value in (("__init__", make), ("run", run)):
            setattr(Guard, attribute, value)
        context, attribute = agentsmith.daemon.process.run_context, "run_context"

        async def pretend(**_: Any) -> Guard:
            return cast(Guard, _Pretender(self._plan.pretend))

        def with_guards(*args: Any) -> RunContext:
            return replace(context(*args), open_guard=pretend if self._plan.pretend else open_guard)

        setattr(agentsmith.daemon.process, attribute, with_guards)


class _Pretender:
    """In the place of a guard: says that the command ran, and notes for which ticket."""

    def __init__(self, file: str) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def run(self, _argv: object, *, env: Mapping[str, str], **_: object) -> Exit:
        told = (env[f"AGENTSMITH_{name}"] for name in ("TICKET_KEY", "RUN_ID", "ATTEMPT"))
        os.write(self._file, f"{' '.join(told)}\n".encode())
        return Exit(0, signal=None, timed_out=False, stopped=None, tail="", truncated=False, duration=0.0)

    def trust(self, until: float) -> None:
        """There is nothing to end."""

    async def close(self) -> None:
        os.close(self._file)


def _family(key: object) -> str:
    """The key without the names of its owner and its namespace; a list of keys goes by the first."""
    parts = str(key[0] if isinstance(key, list) else key).split(":")
    return ":".join(parts[1:3] if "processing" in parts else parts[1:2])


class Nursery:
    """Forks daemons and tells what becomes of them; kills all that are left when nobody gives orders any more."""

    def __init__(self, prepare: Callable[[dict[str, Any]], None], *, lend: bool = False) -> None:
        """`prepare` does to a daemon that was just forked whatever an order asks for, before it begins.

        With `lend`, daemons get their barracks and farewells as forks of warm processes too. Those are then no
        descendants of their daemon.
        """
        self._prepare = prepare
        self._lender = _Lender() if lend else None
        self._numbers: dict[int, int] = {}
        self._selector = selectors.DefaultSelector()
        ear, bell = os.pipe()
        os.set_blocking(bell, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
        self._selector.register(0, selectors.EVENT_READ)
        self._selector.register(ear, selectors.EVENT_READ)
        if self._lender is not None:
            self._selector.register(self._lender.farewells, selectors.EVENT_READ)
        self._unread = b""

    def serve(self) -> None:
        """Obey until standard input ends."""
        while True:
            ready = {int(key.fd) for key, _ in self._selector.select()}
            for fd in ready - {0}:
                if self._lender is not None and fd == self._lender.farewells.fileno():
                    self._lender.say_farewell()
                else:
                    os.read(fd, 65536)
            if 0 in ready and not self._listen():
                break
            self._look_after()
        for pid in self._numbers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _listen(self) -> bool:
        data = os.read(0, 65536)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for order in map(json.loads, lines):
            if order["op"] == "start":
                self._start(order)
            elif pid := next((pid for pid, number in self._numbers.items() if number == order["number"]), 0):
                os.kill(pid, order["signal"])  # not reaped yet, so it is still the one that is meant
        return bool(data)

    def _start(self, order: dict[str, Any]) -> None:
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                if self._lender is not None:
                    self._lender.lend()
                code = _daemon(order, self._prepare, parent=os.getppid())
            finally:
                os._exit(code)
        self._numbers[pid] = order["number"]
        self._tell("started", pid)

    def _look_after(self) -> None:
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)) != (0, 0):
                pid, status = found
                if pid not in self._numbers:
                    continue  # who said a farewell
                if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
                    self._tell("stopped" if os.WIFSTOPPED(status) else "continued", pid)
                else:
                    self._tell("ended", pid, code=os.waitstatus_to_exitcode(status))
                    del self._numbers[pid]

    def _tell(self, event: str, pid: int, **fields: int) -> None:
        told = {"event": event, "number": self._numbers[pid], "pid": pid, **fields}
        os.write(1, json.dumps(told).encode() + b"\n")


class _Lender:
    """Has ready what most daemons of tests need once, and what costs more to start than all that they do."""

    def __init__(self) -> None:
        self._barracks = shared_barracks.Barracks(barracks_program.__file__, guard_program.__file__)
        self._address = f"agentsmith-farewells-{os.getpid()}"
        self.farewells = socket.socket(socket.AF_UNIX)
        self.farewells.bind("\0" + self._address)
        self.farewells.listen(64)

    def lend(self) -> None:
        """Let this daemon, which was just forked, use it."""
        argv = (sys.executable, "-I", "-S", str(_FAREWELL_CALL), self._address)

        def farewell_for(*args: Any, **named: Any) -> Farewell:
            return Farewell(argv, farewell.farewell_for(*args, **named).input)

        for owner, name, value in (
            (posting, "begin", self._barracks.begin),
            (agentsmith.running.run, "farewell_for", farewell_for),
        ):
            setattr(owner, name, value)

    def say_farewell(self) -> None:
        """Say the farewell that somebody asks for, in a process of its own."""
        line, _ = self.farewells.accept()
        with line:
            if os.fork() == 0:
                try:
                    for fd in (1, 2):  # the guard lets nobody hear a farewell, and events go to the first of them
                        os.dup2(os.open(os.devnull, os.O_WRONLY), fd)
                    told = b"".join(iter(lambda: line.recv(65536), b""))
                    asyncio.run(farewell._release(json.loads(told)))
                finally:
                    os._exit(0)


def _daemon(order: dict[str, Any], prepare: Callable[[dict[str, Any]], None], *, parent: int) -> int:
    """`agentsmith up`, in this process that was just forked."""
    prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return 1
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGUSR2, _show_tasks)
    os.setpgid(0, 0)
    log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for fd, instead in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
        os.dup2(instead, fd)
    os.environ.update(order["environ"])
    arguments = ["up", "--config", order["config"], *(part for role in order["roles"] for part in ("--role", role))]
    arguments += ["--shadow"] if order["shadow"] else []
    if order["fresh"]:
        os.execv(sys.executable, [sys.executable, "-m", "agentsmith", *arguments])  # noqa: S606 - on purpose
    prepare(order)
    return agentsmith.cli.app.run(arguments)


def _show_tasks(*_: object) -> None:
    """Where everything hangs, for the log of a test that waited in vain."""
    for task in asyncio.all_tasks(asyncio.get_running_loop()):
        task.print_stack(file=sys.stderr)


def warm_up() -> None:
    """Do once what every daemon would begin with, and what is the same for all: most of a start."""
    for owner, name in (
        (typer.main, "get_command"),
        (registry, "platforms"),
        (forges, "code_hosts"),
    ):
        setattr(owner, name, cache(getattr(owner, name)))
    typer.main.get_command(agentsmith.cli.app.app)
    for_platforms(registry.settings_models(), forges.settings_models())
    open_http()  # imports much, and reads whom we trust
    for late in ("anyio._backends._asyncio", "encodings.idna", "uvicorn.protocols.http.auto"):
        importlib.import_module(late)
    gc.freeze()  # so that no daemon goes through all that we share with it, and copies it by doing so


if __name__ == "__main__":
    warm_up()
    Nursery(lambda order: Steps(Plan(**order["plan"])).install(), lend=True).serve()
