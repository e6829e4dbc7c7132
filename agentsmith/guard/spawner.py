"""The barracks: forks the guards of one consumer, since starting each from nothing would cost ten times as much.

Started by path, like any program: standard library only, and the guard's own program, whose path is its argument.
Stdin is the gate, a socket. Who knocks there hands in three files: the guard's stdin and stdout, and the wire to its
handle, which is told the pid of the keeper, or -errno where none could be made, and later how the keeper ended. The
dead are collected once the handle lets go, so that until then their number can't be given to anybody else.

What comes to this process by itself (Linux: child subreaper) was left by a keeper and a guard that were both killed: it
is ended, and only then the handle hears that they are dead. So this process stays until the last of its guards is gone,
also without its consumer.

Only guards that have not started yet depend on this process. If it is killed, the others go on, and `spawn.py`, the
other end, starts it anew.
"""

from __future__ import annotations

import importlib.util
import os
import selectors
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

KNOCK = 4  # bytes, which say how long the path of the cgroup is that follows
FILES = 3


class Barracks:
    """One thread and one loop, which nobody holds up: what is told to handles is too short for a pipe to be full."""

    def __init__(self, guard: ModuleType) -> None:
        self.guard = guard
        self.gate = socket.socket(fileno=0)
        self.selector = selectors.DefaultSelector()
        self.wires: dict[int, socket.socket] = {}
        """From each keeper to its handle."""
        self.left: set[int] = set()
        """Keepers whose handle let go of them while they lived."""
        self.told: set[int] = set()
        """Keepers whose handle knows how they ended."""
        self.open = True
        """Whether anybody is left who could knock."""
        self.give_up: float | None = None
        """When to stop waiting for the end of what nobody guards."""
        self.ear, self.bell = os.pipe()
        os.set_blocking(self.ear, False)
        os.set_blocking(self.bell, False)
        signal.set_wakeup_fd(self.bell, warn_on_full_buffer=False)
        self.selector.register(self.ear, selectors.EVENT_READ, self.hear_of_deaths)
        self.selector.register(self.gate, selectors.EVENT_READ, self.admit)

    def serve(self) -> int:
        """Forks guards until nobody is left who could knock, and nothing of a run."""
        self.guard.prctl(self.guard.SUBREAPER, 1)
        while self.open or self.wires or self.left or self.give_up:
            for key, _ in self.selector.select(self.guard.ENDING_TICK if self.give_up else None):
                key.data()
            if self.give_up:
                self.settle()
        return 0

    def admit(self) -> None:
        """Lets one in who knocks, and notes when nobody ever will."""
        try:
            knock, files, _, _ = socket.recv_fds(self.gate, KNOCK, FILES)
        except ConnectionError:
            knock, files = b"", []
        if len(knock) < KNOCK or len(files) < FILES:
            self.open = False
            self.selector.unregister(self.gate)
            return
        length = int.from_bytes(knock, "big")
        cgroup = self.gate.recv(length, socket.MSG_WAITALL) if length else b""
        self.fork(os.fsdecode(cgroup), files)

    def fork(self, cgroup: str, files: list[int]) -> None:
        """Makes a guard of a fork of this process, with these files; where none can be made, tells why instead."""
        try:
            pid = os.fork()
        except OSError as error:
            os.write(files[-1], f"-{error.errno}\n".encode())
            for file in files:
                os.close(file)
            return
        if pid == 0:
            self.become_guard(cgroup, files)
        *theirs, wire = files
        for file in theirs:
            os.close(file)
        self.wires[pid] = handle = socket.socket(fileno=wire)
        self.selector.register(handle, selectors.EVENT_READ, lambda: self.let_go(pid))
        self.tell(pid, pid)

    def become_guard(self, cgroup: str, files: list[int]) -> None:
        """Never returns."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            self.selector.close()
            self.gate.detach()  # whose number, 0, is about to be stdin's
            for number, file in enumerate(files[:2]):
                os.dup2(file, number)
            for file in (*files, self.ear, self.bell):
                os.close(file)
            for wire in self.wires.values():
                wire.close()
            code = self.guard.main(cgroup)
        except BaseException as error:
            print(f"guard: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)  # nothing is buffered, and taking the interpreter down would be half of the time to close

    def tell(self, pid: int, word: int) -> None:
        """Tells the handle of a keeper."""
        try:
            self.wires[pid].send(f"{word}\n".encode())
        except OSError:  # it let go meanwhile
            return

    def hear_of_deaths(self) -> None:
        """Some child ended."""
        os.read(self.ear, 4096)
        self.settle()

    def settle(self) -> None:
        """Ends what nobody guards. When none of it is left, tells the handles of keepers that ended, but leaves these
        as they are; collects those without a handle."""
        if self.end_strays():
            return
        for pid in self.wires.keys() - self.told:
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                self.told.add(pid)
                self.tell(pid, ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status)
        self.left = {pid for pid in self.left if os.waitpid(pid, os.WNOHANG)[0] == 0}

    def let_go(self, pid: int) -> None:
        """Collects a keeper whose handle no longer cares, now or when it ends."""
        wire = self.wires.pop(pid)
        self.told.discard(pid)
        self.selector.unregister(wire)
        wire.close()
        if os.waitpid(pid, os.WNOHANG)[0] == 0:
            self.left.add(pid)
        else:
            self.settle()  # what was in the session of this keeper is nobody's now

    def end_strays(self) -> bool:
        """Kills the children that are neither keepers nor in the session of one; True while some of them are left.

        In the session of a keeper that died alone the guard proper is still at work, and its handle sees to it.
        """
        known = self.wires.keys() | self.left
        strays = [pid for pid in self.guard.children() if pid not in known and not self.collected(pid)]
        strays = [pid for pid in strays if self.guard.session_of(pid) not in known]
        now = self.guard.boottime()
        if not strays or (self.give_up and now > self.give_up):
            self.give_up = None
            return False
        self.give_up = self.give_up or now + self.guard.PATIENCE
        self.guard.kill_trees(strays, spared=frozenset(known))
        return True

    def collected(self, pid: int) -> bool:
        """Collects a child of nobody's, if it is dead."""
        return os.waitpid(pid, os.WNOHANG)[0] != 0


def load(path: str) -> ModuleType:
    """The program at this path, as a module."""
    spec = importlib.util.spec_from_file_location("guard", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no program")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> int:
    """Serves until the consumer is gone, whatever a terminal or a shell sends."""
    guard = load(sys.argv[1])
    guard.be_deaf()
    return Barracks(guard).serve()


if __name__ == "__main__":
    os._exit(main())
