"""A real Redis-compatible server for tests: started in a moment, killed by its pid, never mocked.

`AGENTSMITH_TEST_SERVER` names another server program than the one that is shipped, to run the same tests on it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from agentsmith.store.server import watchdog
from agentsmith.store.server.binary import find_binary

_READY_WITHIN = 60.0


def server_binary() -> Path:
    """The server program that tests run on."""
    named = os.environ.get("AGENTSMITH_TEST_SERVER")
    return find_binary(Path(named) if named else None)


class RedisServer:
    """One server in a folder of its own, on a unix socket and, if asked, a TCP port. It dies with this process."""

    def __init__(
        self, *options: str, binary: Path | None = None, conf: str = "", tcp: bool = False, password: str = ""
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="as-", dir="/tmp"))
        self.socket = self.folder / "s"
        self.port = free_port() if tcp else 0
        self.password = password
        self._binary = binary or server_binary()
        self._options, self._conf = options, conf
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address of the unix socket."""
        return f"unix://{self.socket}" + (f"?password={self.password}" if self.password else "")

    @property
    def tcp_url(self) -> str:
        """The address of the TCP port."""
        return f"redis://{f':{self.password}@' if self.password else ''}127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """What the server said so far."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> Self:
        """Return once the server answers."""
        how = "signal" if sys.platform == "linux" else "watchdog"
        settings = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "unixsocket": str(self.socket),
            "dir": str(self.folder),
            "logfile": "log",
            **({} if "--sentinel" in self._options else {"save": ""}),
            **({"requirepass": self.password} if self.password else {}),
        }
        conf = self.folder / "conf"
        if not conf.exists():
            conf.write_text(self._conf)  # a sentinel keeps its state there
        with suppress(FileNotFoundError):
            self.socket.unlink()  # a killed server leaves it behind
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", watchdog.__file__, how, str(os.getpid()), self._binary, conf),
                *(part for name, value in settings.items() for part in (f"--{name}", value)),
                *self._options,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_for(self._answers, what=f"{self._binary} answers")
        return self

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the server ended: {self.log}"
        try:
            with self.admin() as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def admin(self) -> redis.Redis:
        """A client that may do everything; close it, or use it as a context."""
        return redis.Redis.from_url(
            self.url,
            decode_responses=True,
            retry=Retry(NoBackoff(), 0),
            encoding_errors="surrogateescape",
            driver_info=None,
        )

    def client(self) -> redis.asyncio.Redis:
        """The same for an event loop."""
        return redis.asyncio.Redis.from_url(
            self.url, decode_responses=True, encoding_errors="surrogateescape", driver_info=None
        )

    def tenant(self, namespace: str) -> Tenant:
        """A namespace on this server, and a user who may touch nothing else."""
        return Tenant(self, namespace)

    def command(self, *parts: str) -> Any:
        """Send one command as somebody who may do everything."""
        with self.admin() as client:
            return client.execute_command(*parts)

    def freeze(self) -> None:
        """Stop the server where it stands; it keeps its connections and answers nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill -9, and reap; its folder stays for another start."""
        if self._process is None:
            return
        self._signal(signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None

    def restart(self) -> None:
        """Kill -9 and start again; without `--appendonly yes` everything is forgotten."""
        self.kill()
        self.start()

    def close(self) -> None:
        """Kill the server and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Tenant:
    """One namespace on a server, and a user who may touch nothing else: a key with another prefix is refused.

    The user lacks the dangerous commands too (all of them but INFO), as on many a managed Redis.
    """

    def __init__(self, server: RedisServer, namespace: str) -> None:
        self.server, self.namespace = server, namespace
        keys = (f"~{namespace}:*", "~agentsmith:*")  # the latter for processes that are started without a namespace
        rights = ("+@all", "-@dangerous", "+info")
        server.command("ACL", "SETUSER", namespace, "reset", "on", "nopass", *keys, "&*", *rights)
        self.url = f"unix://{namespace}@{server.socket}"

    def dump(self) -> dict[str, tuple[str, int]]:
        """Every key on the server, with its type and its time to live in ms (-1 for ever)."""
        with self.server.admin() as client:
            pipe = client.pipeline(transaction=True)
            names = sorted(str(name) for name in client.scan_iter(count=10_000))
            for name in names:
                pipe.type(name)
                pipe.pttl(name)
            answers = pipe.execute()
        found = zip(names, answers[::2], answers[1::2], strict=True)
        return {name: (str(kind), int(ttl)) for name, kind, ttl in found if kind != "none"}

    def close(self) -> None:
        """Forget the namespace and its user."""
        self.server.command("FLUSHALL")
        self.server.command("ACL", "DELUSER", self.namespace)


def free_port() -> int:
    """A TCP port that nobody listens on right now, nor at a cluster's second port, 10,000 above it.

    Below those that the system gives to connections: one of a test beside us could take it before it is used.
    """
    while True:
        port = 10_240 + secrets.randbelow(10_000)  # not by `random`, which every test begins with the same seed
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_for(predicate: Callable[[], bool], *, what: str, within: float = _READY_WITHIN) -> None:
    """Return once the predicate holds; for set-up outside an event loop, else use `wait_until`."""
    give_up = time.monotonic() + within
    while not predicate():
        assert time.monotonic() < give_up, f"waited {within} s in vain: {what}"
        time.sleep(0.002)  # time: between two looks
