"""One warm process from which the daemons of tests get their barracks: as these fork guards, so it forks barracks.

Runs by path: `python -I -S shared_barracks.py BARRACKS GUARD`. Each byte on stdin, a socket, comes with the gate of the
barracks that are wanted. A daemon of a test mostly does one run, so a start of its own would double its cost.
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


class Barracks:
    """The other end, in the process that forks daemons and in all of these."""

    def __init__(self, barracks: str, guard: str) -> None:
        self._gate, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-I", "-S", __file__, barracks, guard]
            self._process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)

    def begin(self, gate: socket.socket) -> Begun:
        """In the place of `posting.begin`."""
        socket.send_fds(self._gate, [_WANTED], [gate.fileno()])
        return Begun()


class Begun:
    """In the place of the process that `posting.begin` answers."""

    def wait(self, timeout: float) -> None:
        """Whoever forked it collects it."""


def main(barracks: str, guard: str) -> None:
    """Fork barracks until nobody is left who could want some."""
    spec = importlib.util.spec_from_file_location("barracks", barracks)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    loaded: ModuleType = program.load(guard)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    orders = socket.socket(fileno=0)
    while True:
        wanted, gates, _, _ = socket.recv_fds(orders, len(_WANTED), 1)
        if not wanted:
            return
        if os.fork() == 0:
            orders.detach()
            os.dup2(gates[0], 0)
            os.close(gates[0])
            os.setsid()
            loaded.be_deaf()
            os._exit(program.Barracks(loaded).serve())
        os.close(gates[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
