"""The command line in processes of their own without the cost of a start: forked from one that has imported everything.

A test of a dozen commands would otherwise import agentsmith a dozen times. What is forked gets its own arguments,
folder, environment and output, and ends with its own exit code; `agentsmith up` is started for real (`cli.py`).
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
_LONGEST_ORDER: Final = 1 << 20


def run(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """`agentsmith` with these arguments, to its end; subprocess.TimeoutExpired if that does not come."""
    order = json.dumps({"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}).encode()
    told, telling = socket.socketpair()
    with told, telling, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        socket.send_fds(_server(), [order], [out.fileno(), err.fileno(), telling.fileno()])
        telling.close()
        told.settimeout(timeout)
        with told.makefile("r") as lines:
            pid = int(lines.readline())
            try:
                code = int(lines.readline())
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(["agentsmith", *arguments], timeout) from None
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(list(arguments), code, out.read().decode(), err.read().decode())


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
    importlib.import_module("agentsmith.trackers.registry").settings_models()
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
        os.close(instead)
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
