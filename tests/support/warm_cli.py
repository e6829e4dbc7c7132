"""The command line in processes of their own without the cost of a start: forked from one that has imported everything.

A test of a dozen commands would otherwise import agentsmith a dozen times. What is forked gets its own arguments,
folder, environment and output, and ends with its own exit code.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

ROOT: Final = Path(__file__).parents[2]
_LONGEST_ORDER: Final = 1 << 20
_REAPED_WITHIN: Final = 20.0


def run(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """`agentsmith` with these arguments, to its end; subprocess.TimeoutExpired if that does not come."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with Forked(arguments, cwd=cwd, env=env, out=out.fileno(), err=err.fileno()) as forked:
            code = forked.wait(timeout)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(list(arguments), code, out.read().decode(), err.read().decode())


class Forked:
    """`agentsmith` with these arguments, in a process that was just forked; leaving the block kills it."""

    def __init__(self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], out: int, err: int) -> None:
        order = json.dumps({"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}).encode()
        self._arguments = arguments
        self._code: int | None = None
        self._told, telling = socket.socketpair()
        with telling:
            socket.send_fds(_server(), [order], [out, err, telling.fileno()])
        self._lines = self._told.makefile("r")
        self.pid = int(self._lines.readline())

    def wait(self, timeout: float) -> int:
        """Its exit code, or minus the signal that ended it; subprocess.TimeoutExpired if it goes on for longer."""
        if self._code is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(["agentsmith", *self._arguments], timeout)
            self._code = int(self._lines.readline())
        return self._code

    def poll(self) -> int | None:
        """The same, or None while it lives."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still lives."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.send_signal(signal.SIGKILL)
        self.wait(_REAPED_WITHIN)
        self._lines.close()
        self._told.close()


@cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST_ORDER)
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.support.warm_cli", str(theirs.fileno())],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


def serve(orders: socket.socket) -> None:
    """Fork what is ordered, until nobody gives orders any more."""
    cli = importlib.import_module("agentsmith.cli")
    for module in pkgutil.iter_modules(cli.__path__, "agentsmith.cli."):
        importlib.import_module(module.name)
    dict(importlib.import_module("agentsmith.trackers.registry").settings_models())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the ones who wait
    gc.freeze()
    while True:
        order, fds, _, _ = socket.recv_fds(orders, _LONGEST_ORDER, 3)
        if not order:
            return
        if os.fork() == 0:
            orders.close()
            os._exit(_tell(json.loads(order), *fds))
        for fd in fds:
            os.close(fd)


def _tell(order: dict[str, Any], out: int, err: int, telling: int) -> int:
    """Run it in a process of its own, and tell its pid and how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(telling)
        os._exit(_become(order, out, err))
    os.write(telling, f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    os.write(telling, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    return 0


def _become(order: dict[str, Any], out: int, err: int) -> int:
    for fd, instead in ((1, out), (2, err)):
        os.dup2(instead, fd)
    for fd in {out, err}:
        os.close(fd)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    tempfile.tempdir = None
    code: int | str | None = 70
    try:
        code = importlib.import_module("agentsmith.cli.app").run(order["arguments"])
    except SystemExit as leaving:
        code = leaving.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return code if isinstance(code, int) else int(code is not None)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
