"""The program behind the daemons of chaos: `agentsmith up`, whose clock can jump and whose writes say who they are.

As in `tests/e2e/faulty_daemon.py`, one process imports everything once and forks a daemon per order, and the product
knows nothing of it. That process is itself a fork of the conductor, which has imported the same. Three things are done
to each daemon from outside:

- Its wall clock is off by what stands in a file, which the conductor changes while the daemon runs: `time.time()`, and
  the dates that the scheduler of its beats goes by. The clocks that leases are measured on cannot jump.
- Every request that moves a label or writes a comment carries a header that says on whose behalf (which run, which
  fence, or since when the ticket's lock is held), and when it was begun: before the HTTP layer looks at its deadline
  for the last time. So a process that is stopped after that look and sends when it goes on is a late landing, and one
  that does not look is found out.
- Its event loop is watched: who keeps it to himself for long stands in the history.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Final, Self

import apscheduler.schedulers.base
import apscheduler.triggers.interval

import agentsmith.tickets.lock
from agentsmith.guard.client import Guard
from agentsmith.store import Lease, Store
from agentsmith.store.intents import Intents
from agentsmith.trackers.azuredevops.tracker import AzureDevOpsTracker
from agentsmith.trackers.github.tracker import GitHubTracker
from agentsmith.trackers.gitlab.tracker import GitLabTracker
from agentsmith.trackers.http.calls import Call
from agentsmith.trackers.http.ledger import current_purpose
from agentsmith.trackers.http.replies import Reply
from agentsmith.trackers.http.wire import Wire
from agentsmith.trackers.jira.tracker import JiraTracker
from tests.e2e.faulty_daemon import Nursery, warm_up
from tests.support.loop_watch import LoopWatch

CLOCK: Final = "CHAOS_CLOCK"
"""Names the file that holds by how many seconds the wall clock is off."""
GUARDS: Final = "CHAOS_GUARDS"
"""Names the file that gets the pid of every guard."""
HISTORY: Final = "CHAOS_HISTORY"
"""Names the folder of the history, in which every daemon writes down when its event loop was blocked."""
HEADER: Final = "X-Chaos-Write"
_TRACKERS: Final = (GitHubTracker, GitLabTracker, AzureDevOpsTracker, JiraTracker)

_locked: ContextVar[int] = ContextVar("locked", default=0)
_raised: ContextVar[int | None] = ContextVar("raised", default=None)
"""The fence that whoever holds the lock has raised itself since."""
_writing: ContextVar[dict[str, Any] | None] = ContextVar("writing", default=None)


class WallClock:
    """A wall clock that is wrong by what stands in a file."""

    def __init__(self, file: Path) -> None:
        with file.open("rb") as opened:
            self._cell = mmap.mmap(opened.fileno(), 8, access=mmap.ACCESS_READ)

    @staticmethod
    def set(file: Path, seconds: float) -> None:
        """Let the clocks that read this file be off by so much, from now on."""
        if not file.exists():
            file.write_bytes(struct.pack("d", 0.0))
        with file.open("r+b") as opened:
            opened.write(struct.pack("d", seconds))

    @property
    def off(self) -> float:
        """By how much, now."""
        return float(struct.unpack("d", self._cell[:8])[0])

    def install(self) -> None:
        """Let this process go by it."""
        real, clock = time.time, self

        class Shifted(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> Self:
                return super().now(tz) + timedelta(seconds=clock.off)

        for owner, name, value in (
            (time, "time", lambda: real() + clock.off),
            (apscheduler.schedulers.base, "datetime", Shifted),
            (apscheduler.triggers.interval, "datetime", Shifted),
        ):
            setattr(owner, name, value)


def sign_writes() -> None:
    """Let every write to a tracker say on whose behalf it is made, and when it was begun."""
    for tracker in _TRACKERS:
        _sign(tracker, "move", lambda args, _: {"run": args[1].run, "fence": args[1].fence})
        _sign(tracker, "write_sticky", lambda args, _: {"run": args[2].run, "fence": args[2].fence})
        _sign(tracker, "tidy", lambda _, __: {"run": "", "fence": _raised.get()})
    _note_locks()
    real, attribute = Wire.exchange, "exchange"

    async def exchange(wire: Wire, call: Call, auth: Mapping[str, str], credential: str) -> Reply:
        if call.write and (told := _writing.get()) is not None:
            stamp = {**told, "begun": time.monotonic_ns(), "pid": os.getpid()}
            auth = {**auth, HEADER: json.dumps(stamp)}
        return await real(wire, call, auth, credential)

    setattr(Wire, attribute, exchange)


def _sign(tracker: type, method: str, authority: Callable[[Any, Any], dict[str, Any]]) -> None:
    real = getattr(tracker, method)

    async def signed(self: Any, *args: Any, **more: Any) -> Any:
        ticket = args[0]
        hand = "run" if current_purpose() == "run" else "lock"
        told = {"key": ticket.key, "id": ticket.id, "hand": hand, "since": _locked.get(), **authority(args, more)}
        before = _writing.set(told)
        try:
            return await real(self, *args, **more)
        finally:
            _writing.reset(before)

    setattr(tracker, method, signed)


def _note_locks() -> None:
    real, attribute = agentsmith.tickets.lock._take, "_take"

    async def take(store: Store, lock: Lease, *args: Any) -> None:
        await real(store, lock, *args)
        if ":claim-lock:" in lock.key:  # and not the shorter one inside it
            # Whoever writes goes on in this context; a fence that was raised before now is known to it.
            _locked.set(time.monotonic_ns())
            _raised.set(None)

    setattr(agentsmith.tickets.lock, attribute, take)
    for method in ("begin_claim", "decide", "adopt"):
        _note_fence(method)


def _note_fence(method: str) -> None:
    real = getattr(Intents, method)

    async def noted(self: Intents, *args: Any, **more: Any) -> Any:
        answer = await real(self, *args, **more)
        if answer is not None and answer.fence:
            _raised.set(answer.fence)
        return answer

    setattr(Intents, method, noted)


def note_guards(file: Path) -> None:
    """Write down the pid of every guard, so that nobody is left behind."""
    made, attribute = Guard.__init__, "__init__"

    def make(guard: Guard, *args: Any) -> None:
        made(guard, *args)
        with file.open("a") as guards:
            guards.write(f"{guard.pid}\n")

    setattr(Guard, attribute, make)


def prepare(order: Mapping[str, Any]) -> None:
    """Do all of this to a daemon that was just forked."""
    WallClock(Path(order["environ"][CLOCK])).install()
    note_guards(Path(order["environ"][GUARDS]))
    LoopWatch(Path(order["environ"][HISTORY]) / f"blocked-{os.getpid()}.jsonl").install()
    sign_writes()


def serve() -> None:
    """Fork daemons as ordered, until there are no more orders."""
    warm_up()
    Nursery(prepare).serve()
