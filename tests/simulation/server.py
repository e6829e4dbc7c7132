"""A Redis server in this process: the same commands and the same Lua on a clock that somebody else moves.

It does one thing at a time, as the real one does, so the same commands in the same order give the same answers. It is
held to the tests of the real store (tests/store), and to nothing beyond them.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from lupa.lua51 import LuaError
from redis.exceptions import NoScriptError, ResponseError

from tests.simulation.data import COMMANDS, OK, Keyspace, Reply, Status
from tests.simulation.lua import engine

_INFO: Final = (
    "redis_version:7.4.0\r\nrun_id:{run_id}\r\ncluster_enabled:0\r\nmaxmemory_policy:noeviction\r\n"  # all sections
)


class NotSimulated(ResponseError):
    """A real server may know the command; the simulated one does not."""


@dataclass(eq=False, slots=True)
class Blocked:
    """A client that waits for something to be in `source`."""

    source: bytes
    target: bytes
    out: bytes
    into: bytes
    served: Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a server remembered at some moment."""

    values: dict[bytes, object]
    lapse: dict[bytes, int]


@dataclass(eq=False, slots=True)
class SimulatedServer:
    """The server; `now_us` is its clock, and `restart` gives it another identity."""

    now_us: Callable[[], int]
    run_id: str = "1" * 40
    keyspace: Keyspace = field(init=False)
    _scripts: dict[bytes, bytes] = field(default_factory=dict)
    _blocked: list[Blocked] = field(default_factory=list)
    _starts: int = 1
    _known: dict[bytes, Callable[..., Reply]] = field(default_factory=dict)
    _info: bytes = b""

    def __post_init__(self) -> None:
        self.keyspace = Keyspace(lambda: self.now_us() // 1000)
        self._info = _INFO.format(run_id=self.run_id).encode()
        for name, method in COMMANDS.items():
            self._known[name] = self._known[name.lower()] = getattr(self.keyspace, method)

    # ---- for clients

    def execute(self, *words: bytes) -> Reply:
        """Carry one command out; raises what redis-py would raise."""
        reply = self._execute(words)
        if self.keyspace.pushed:
            self._serve_blocked()
        return reply

    def block(self, blocked: Blocked) -> bytes | None:
        """BLMOVE: the value if there is one, else `blocked.served` is called once there is."""
        value = self.keyspace.do_lmove(blocked.source, blocked.target, blocked.out, blocked.into)
        if value is None:
            self._blocked.append(blocked)
        elif self.keyspace.pushed:
            self._serve_blocked()
        return value

    def unblock(self, blocked: Blocked) -> None:
        """The client gave up, or its connection is gone."""
        if blocked in self._blocked:
            self._blocked.remove(blocked)

    # ---- for whoever owns the server

    def flush(self) -> None:
        """FLUSHALL. Scripts stay known."""
        self.keyspace.do_flushall()

    def restart(self, *, keep: bool) -> None:
        """Another process of the same server, with what it had on disk: everything, or nothing. No script is known."""
        if not keep:
            self.keyspace.do_flushall()
        self._scripts.clear()
        self._blocked.clear()
        self._starts += 1
        self.run_id = hashlib.sha1(b"%d" % self._starts, usedforsecurity=False).hexdigest()
        self._info = _INFO.format(run_id=self.run_id).encode()

    def snapshot(self) -> Snapshot:
        """What it remembers now; a replica that is behind remembers an older one."""
        return Snapshot(copy.deepcopy(self.keyspace.values), dict(self.keyspace.lapse))

    def fail_over(self, to: Snapshot) -> None:
        """A replica takes over that has not heard of the latest writes."""
        self.restart(keep=False)
        self.keyspace.values.update(copy.deepcopy(to.values))
        self.keyspace.lapse.update(to.lapse)

    # ---- inside

    def _execute(self, words: tuple[bytes, ...]) -> Reply:
        known, rest = self._known.get(words[0]), words[1:]
        if known is not None:
            try:
                return known(*rest)
            except TypeError:
                raise ResponseError(f"ERR wrong number of arguments for '{words[0].decode()}' command") from None
        match words[0].upper():
            case b"EVALSHA":
                text = self._scripts.get(rest[0])
                if text is None:
                    raise NoScriptError("No matching script. Please use EVAL.")
                return self._run(text, rest[1:])
            case b"EVAL":
                self._learn(rest[0])
                return self._run(rest[0], rest[1:])
            case b"SCRIPT LOAD":
                return self._learn(rest[0])
            case b"SCRIPT FLUSH":
                self._scripts.clear()
                return OK
            case b"TIME":
                now = self.now_us()
                return [b"%d" % (now // 1_000_000), b"%d" % (now % 1_000_000)]
            case b"INFO":
                return self._info
            case b"PING":
                return Status(b"PONG")
        raise NotSimulated(f"ERR unknown command {words[0].decode()!r}: teach it to the simulated Redis")

    def _learn(self, text: bytes) -> bytes:
        sha = hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
        self._scripts[sha] = text
        return sha

    def _run(self, text: bytes, rest: tuple[bytes, ...]) -> Reply:
        count = int(rest[0])
        try:
            return engine().run(text, rest[1 : 1 + count], rest[1 + count :], self._execute)
        except LuaError as error:
            raise ResponseError(f"ERR Error running script: {error}") from None

    def _serve_blocked(self) -> None:
        """Hand what was pushed to those who wait for it, the longest-waiting first."""
        while self.keyspace.pushed:
            key = self.keyspace.pushed.pop(0)
            for blocked in [b for b in self._blocked if b.source == key]:
                value = self.keyspace.do_lmove(blocked.source, blocked.target, blocked.out, blocked.into)
                if value is None:
                    break
                self._blocked.remove(blocked)
                blocked.served(value)
