"""One warm process from which the daemons of tests get their spawners: as these fork guards, so it forks them.

Runs by path: `python -I -S shared_spawner.py SPAWNER GUARD`. Each byte on stdin, a socket, comes with
the socket on which a spawner is to take requests. A daemon of a test mostly does one run, so a start of its own would
double its cost.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
from types import ModuleType
from typing import Final

_WANTED: Final = b"!"


class Spawner:
    """The other end, in the process that forks daemons and in all of these."""

    def __init__(self, spawner: str, guard: str) -> None:
        self._requests, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-I", "-S", __file__, spawner, guard]
            self._process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)

    def start(self, requests: socket.socket) -> Started:
        """In the place of `spawn.start_spawner`."""
        socket.send_fds(self._requests, [_WANTED], [requests.fileno()])
        return Started()


class Started:
    """In the place of the process that `spawn.start_spawner` answers."""

    def wait(self, timeout: float) -> None:
        """Whoever forked it collects it."""


def main(spawner: str, guard: str) -> None:
    """Fork spawners until nobody is left who could want some."""
    spec = importlib.util.spec_from_file_location("spawner", spawner)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    loaded: tuple[ModuleType, ModuleType] = program.load(guard)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    orders = socket.socket(fileno=0)
    while True:
        wanted, sockets, _, _ = socket.recv_fds(orders, len(_WANTED), 1)
        if not wanted:
            return
        if os.fork() == 0:
            orders.detach()
            os.dup2(sockets[0], 0)
            os.close(sockets[0])
            os.setsid()
            loaded[1].ignore_signals()
            loaded[1].forbid_dumps()
            os._exit(program.Spawner(*loaded).serve())
        os.close(sockets[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
