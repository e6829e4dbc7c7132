"""Where daemons work together: tickets, a namespace in Redis, and work that notes when it runs and whether it is alone.

The times are the defaults times `FACTOR`, so that what holds here holds for the proportions that people run. A lease
of 2.4 s, trusted for 2 s and renewed every 0.6 s, stands it when four test processes share two busy cores.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from agentsmith.config import Config, load
from agentsmith.daemon.build import lease_times
from agentsmith.domain.ticket import TicketId
from agentsmith.store import Store
from agentsmith.trackers import registry
from agentsmith.trackers.local.desk import Desk
from agentsmith.trackers.local.settings import DEFAULT_FILE
from tests.support.wait import slowly, wait_until
from tests.support.world import TRIGGER

FACTOR: Final = 1 / 50
FOREIGN: Final = frozenset({"keep", "agent-smith:bug"})
DONE: Final = FOREIGN | {TRIGGER, "agent-smith:done"}
WITHIN: Final = 90.0
"""Longer than anything takes on a busy machine; on an idle one a ticket is done after 1 to 4 s."""

_WORK: Final = '''\
"""The step: notes what it does, and holds a lock that the kernel frees when the last process of it is dead."""
import fcntl, os, pathlib, signal, sys, time

folder, key = pathlib.Path(sys.argv[1]), os.environ["AGENTSMITH_TICKET_KEY"]
history = os.open(folder / "history", os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def note(word):
    run, attempt = os.environ["AGENTSMITH_RUN_ID"], os.environ["AGENTSMITH_ATTEMPT"]
    at = time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    os.write(history, f"{word} {os.getpid()} {run} {attempt} {at}\\n".encode())


def alone():
    try:
        fcntl.flock(os.open(folder / f"alone-{key}", os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("overlap")


alone()
note("begin")
# A helper that shares the lock, leaves the session and does not mind SIGTERM: it is a part of the run like any other.
helper = os.fork()
if helper == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
# Before anybody is told that we run: who hears of it may let others go, and only others.
held = (folder / "hold").exists()
(folder / f"running-{os.environ['AGENTSMITH_RUN_ID']}").touch()
time.sleep(0.02)
while held and not (folder / "finish").exists():
    time.sleep(0.01)
os.kill(helper, signal.SIGKILL)
os.waitpid(helper, 0)
note("end")
'''


@dataclass(frozen=True, slots=True)
class Begun:
    """A command that began."""

    pid: int
    run: str
    attempt: int


@dataclass(slots=True)
class Place:
    """What daemons share, and what a test sees of their work."""

    folder: Path
    redis_url: str | None
    namespace: str = "agentsmith"
    step: Mapping[str, Any] = field(default_factory=dict)
    """Instead of the step that takes notes."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "work.py").write_text(_WORK)

    def config(self, name: str = "agentsmith", **sections: Mapping[str, Any]) -> Path:
        """Write a configuration file; sections are merged over the sped-up defaults."""
        step = self.step or {"run": [sys.executable, "-I", "-S", str(self.folder / "work.py"), str(self.folder)]}
        file = self.folder / f"{name}.yaml"
        document: dict[str, Any] = {
            "data_dir": str(self.folder / "data"),
            "redis": {"url": self.redis_url, "namespace": self.namespace} if self.redis_url else {},
            "server": {"port": 0},
            "log": {"format": "json", "level": "info"},
            "trackers": {"local": {"platform": "local"}},
            "triggers": [{"label": TRIGGER, "pipeline": "work"}],
            "pipelines": {"work": {"steps": [{**step, "name": "work"}]}},
            **sped_up(),
        }
        for section, values in sections.items():
            document[section] = {**document.get(section, {}), **values}
        file.write_text(yaml.safe_dump(document))
        return file

    @asynccontextmanager
    async def store(self) -> AsyncIterator[Store]:
        """A connection to the store; the settling period of a new namespace ends at once."""
        assert self.redis_url is not None
        async with Store(self.redis_url, times=lease_times(self.loaded()), namespace=self.namespace) as store:
            await store.presence.settling()
            await store.redis.delete(store.keys.settling)
            yield store

    def loaded(self) -> Config:
        """The configuration as a daemon reads it."""
        return load(self.config("loaded"), platforms=registry.settings_models(), environ={})

    async def open_tickets(self, count: int = 1, *labels: str) -> list[str]:
        """Tickets with the trigger and foreign labels; answers their keys."""
        async with Desk(path=self.tickets, project="tickets") as desk:
            made = [
                await desk.new(title=f"ticket {n}", labels=(TRIGGER, *FOREIGN, *labels), actor="mona")
                for n in range(count)
            ]
        return [ticket.key for ticket in made]

    async def open_ticket(self, *labels: str) -> str:
        """A ticket with these labels and no others; answers its key."""
        async with Desk(path=self.tickets, project="tickets") as desk:
            return (await desk.new(title="a ticket", labels=labels, actor="mona")).key

    async def shows(self, key: str, *labels: str) -> None:
        """Return once the ticket shows these labels and no others."""
        try:
            await wait_until(slowly(lambda: self.labels(key) == {*labels}), what="", within=WITHIN)
        except AssertionError:
            raise AssertionError(f"ticket {key} shows {self.labels(key)}, not {labels}") from None

    @property
    def tickets(self) -> Path:
        """The file of the tracker."""
        return self.folder / "data" / DEFAULT_FILE

    def labels(self, key: str = "1") -> frozenset[str]:
        """What the ticket shows now."""
        return frozenset(name for (name,) in self._rows(_LABELS, key))

    def all_labels(self) -> dict[str, frozenset[str]]:
        """What every ticket shows now."""
        found: dict[str, set[str]] = {}
        for number, name in self._rows(_ALL_LABELS):
            found.setdefault(str(number), set()).add(name)
        return {key: frozenset(labels) for key, labels in found.items()}

    def comments(self, key: str = "1") -> list[str]:
        """The ticket's comments."""
        return [body for (body,) in self._rows(_COMMENTS, key)]

    def events(self, key: str = "1") -> list[tuple[Any, ...]]:
        """Everything that was ever done to the ticket, and the state of its comment."""
        return [*self._rows(_EVENTS, key), *self._rows(_STICKY, key)]

    def _rows(self, query: str, *parameters: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self.tickets}?mode=ro", uri=True, timeout=10)) as connection:
            return connection.execute(query, parameters).fetchall()

    def begun(self) -> list[Begun]:
        """Every command that began, in order."""
        return [Begun(int(pid), run, int(attempt)) for pid, run, attempt, _ in self._history("begin")]

    def count(self, word: str) -> int:
        """How many commands noted `begin`, `end` or `overlap`."""
        return len(list(self._history(word)))

    def _history(self, word: str) -> Iterator[list[str]]:
        file = self.folder / "history"
        for line in file.read_text().splitlines() if file.exists() else ():
            first, *rest = line.split()
            if first == word:
                yield rest

    def hold(self) -> None:
        """Commands that begin from now on do not end before `finish`."""
        (self.folder / "hold").touch()

    def let_go(self) -> None:
        """Commands that begin from now on end soon; those that run stay."""
        (self.folder / "hold").unlink(missing_ok=True)

    def finish(self) -> None:
        """Every command ends soon, also those that run."""
        (self.folder / "finish").touch()

    async def works(self, *, runs: int = 1) -> None:
        """Return once so many commands have begun, over all, and each has got all of its processes."""
        await wait_until(
            slowly(lambda: len(list(self.folder.glob("running-*"))) >= runs), what=f"{runs} commands", within=WITHIN
        )

    async def done(self, *keys: str) -> None:
        """Return once the tickets' labels say done, and every other label is as it was."""
        wanted = dict.fromkeys(keys or ("1",), DONE)
        try:
            await wait_until(slowly(lambda: self.all_labels() == wanted), what="", within=WITHIN)
        except AssertionError:
            raise AssertionError(f"not done: {self.all_labels()}") from None

    def nobody_works(self) -> bool:
        """Whether no process of any run is alive: the locks that they hold are free."""
        for lock in self.folder.glob("alone-*"):
            with lock.open("a") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return False
        return True

    def ticket_id(self, key: str = "1") -> TicketId:
        """The canonical name of a ticket."""
        return TicketId(f"local/tickets#{key}")


_TICKET: Final = "(SELECT id FROM tickets WHERE project = 'tickets' AND number = ?)"
_LABELS: Final = f"SELECT name FROM labels WHERE ticket = {_TICKET}"  # noqa: S608 - a constant
_ALL_LABELS: Final = "SELECT number, name FROM labels JOIN tickets ON tickets.id = labels.ticket"
_COMMENTS: Final = f"SELECT body FROM comments WHERE ticket = {_TICKET} ORDER BY id"  # noqa: S608
_EVENTS: Final = f"SELECT kind, detail, run, fence FROM events WHERE ticket = {_TICKET} ORDER BY id"  # noqa: S608
_STICKY: Final = f"SELECT body, memo, edited_at FROM comments WHERE ticket = {_TICKET}"  # noqa: S608


@cache
def sped_up() -> dict[str, Any]:
    """The sections of a configuration that hold times, with the defaults times `FACTOR`."""
    config = load(None, platforms=registry.settings_models(), environ={"AGENTSMITH_CONFIG": os.devnull}).scaled(FACTOR)
    fast: dict[str, Any] = config.model_dump(mode="json", include={"lease", "consumer", "claim", "housekeeping"})
    fast["consumer"] |= {"stop_poll": "100ms"}  # in proportion it would keep a core busy
    fast["claim"] |= {"capacity": 1000}
    fast["trackers"] = {"local": {"platform": "local", "poll_interval": "200ms"}}
    return fast
