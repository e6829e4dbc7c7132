"""The spawner: a warm process that forks the guards of one consumer, as a start from nothing takes ten times as long.

Started by path, like any program, with the path of the guard's program as its argument: standard library only. Its
stdin is a socket. Each request on it passes three file descriptors: the guard's stdin and stdout, and a socket to the
client of this guard. On that one the client is told the pid of the guard's supervisor, or -errno where none could be
forked, and later how the supervisor ended. Dead supervisors are reaped once the client has closed its end, so that
until then their pid cannot be given to anybody else.

A process that becomes a child of this one by itself (Linux: child subreaper) was left by a supervisor and a guard that
were both killed: it is killed, and only then the client is told that they are dead. So the spawner stays until the last
of its guards is gone, also without its consumer.

Only guards that have not started yet depend on this process. If it is killed, the others go on, and `spawn.py`, the
other end, starts it anew.
"""

from __future__ import annotations

import importlib
import os
import selectors
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

HEADER = 4  # bytes of a request, which say how long the path of the cgroup is that follows
DESCRIPTORS = 3
_PACKAGE = "guard"


class Spawner:
    """One thread and one loop that never blocks: what it sends to clients is too short to fill a socket's buffer."""

    def __init__(self, program: ModuleType, processes: ModuleType) -> None:
        self.program, self.processes = program, processes
        self.requests = socket.socket(fileno=0)
        self.selector = selectors.DefaultSelector()
        self.clients: dict[int, socket.socket] = {}
        """The socket to the client of each supervisor, by the supervisor's pid."""
        self.abandoned: set[int] = set()
        """Supervisors whose client closed its end while they lived."""
        self.reported: set[int] = set()
        """Supervisors whose client was told how they ended."""
        self.open = True
        """Whether anybody is left who could send a request."""
        self.give_up: float | None = None
        """When to stop waiting for the end of strays."""
        self.woken, self.wake = os.pipe()
        os.set_blocking(self.woken, False)
        os.set_blocking(self.wake, False)
        signal.set_wakeup_fd(self.wake, warn_on_full_buffer=False)
        self.selector.register(self.woken, selectors.EVENT_READ, self.on_child_exit)
        self.selector.register(self.requests, selectors.EVENT_READ, self.on_request)

    def serve(self) -> int:
        """Forks guards until nobody is left who could ask for one, and nothing of a run."""
        self.processes.prctl(self.processes.SUBREAPER, 1)
        while self.open or self.clients or self.abandoned or self.give_up:
            for key, _ in self.selector.select(self.program.ENDING_TICK if self.give_up else None):
                key.data()
            if self.give_up:
                self.settle()
        return 0

    def on_request(self) -> None:
        """Reads one request, or notes that there will be none any more."""
        try:
            header, files, _, _ = socket.recv_fds(self.requests, HEADER, DESCRIPTORS)
        except ConnectionError:
            header, files = b"", []
        if len(header) < HEADER or len(files) < DESCRIPTORS:
            self.open = False
            self.selector.unregister(self.requests)
            return
        length = int.from_bytes(header, "big")
        cgroup = self.requests.recv(length, socket.MSG_WAITALL) if length else b""
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
        *theirs, ours = files
        for file in theirs:
            os.close(file)
        self.clients[pid] = client = socket.socket(fileno=ours)
        self.selector.register(client, selectors.EVENT_READ, lambda: self.on_close(pid))
        self.tell(pid, pid)

    def become_guard(self, cgroup: str, files: list[int]) -> None:
        """Never returns."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            self.selector.close()
            self.requests.detach()  # whose number, 0, is about to be stdin's
            for number, file in enumerate(files[:2]):
                os.dup2(file, number)
            for file in (*files, self.woken, self.wake):
                os.close(file)
            for client in self.clients.values():
                client.close()
            code = self.program.main(cgroup)
        except BaseException as error:
            print(f"guard: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)  # nothing is buffered, and taking the interpreter down would be half of the time to close

    def tell(self, pid: int, number: int) -> None:
        """Tells the client of a supervisor this number."""
        try:
            self.clients[pid].send(f"{number}\n".encode())
        except OSError:  # it closed its end meanwhile
            return

    def on_child_exit(self) -> None:
        """Some child ended."""
        os.read(self.woken, 4096)
        self.settle()

    def settle(self) -> None:
        """Kills strays. When none are left, tells clients of supervisors that ended, but does not reap these; reaps
        those without a client."""
        if self.kill_strays():
            return
        for pid in self.clients.keys() - self.reported:
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                self.reported.add(pid)
                self.tell(pid, ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status)
        self.abandoned = {pid for pid in self.abandoned if not self.reap(pid)}

    def on_close(self, pid: int) -> None:
        """Reaps a supervisor whose client closed its end, now or when it ends."""
        client = self.clients.pop(pid)
        self.reported.discard(pid)
        self.selector.unregister(client)
        client.close()
        if self.reap(pid):
            self.settle()  # what was in its session is a stray now
        else:
            self.abandoned.add(pid)

    def kill_strays(self) -> bool:
        """Kills the children that are neither supervisors nor in the session of one; True while some of them are left.

        In the session of a supervisor that died alone the guard proper is still at work, and its client sees to it.
        """
        known = self.clients.keys() | self.abandoned
        strays = [pid for pid in self.processes.children() if pid not in known and not self.reap(pid)]
        strays = [pid for pid in strays if self.processes.session_of(pid) not in known]
        now = self.processes.boottime()
        if not strays or (self.give_up and now > self.give_up):
            self.give_up = None
            return False
        self.give_up = self.give_up or now + self.processes.PATIENCE
        self.processes.kill_trees(strays, spared=frozenset(known))
        return True

    def reap(self, pid: int) -> bool:
        """Reaps a child; False while it lives."""
        return os.waitpid(pid, os.WNOHANG)[0] != 0


def load(path: str) -> tuple[ModuleType, ModuleType]:
    """The guard's program at this path, and the module about processes that it uses.

    They are imported now, from their folder alone and under a name of their own: none of the package's other code comes
    with them, and a new release that is installed meanwhile cannot mix with them.
    """
    folder, name = os.path.split(path)
    package = sys.modules[_PACKAGE] = type(sys)(_PACKAGE)
    package.__path__ = [folder]
    program = importlib.import_module(f"{_PACKAGE}.{name.removesuffix('.py')}")
    return program, sys.modules[f"{_PACKAGE}.processes"]


def main() -> int:
    """Serves until the consumer is gone, whatever a terminal or a shell sends."""
    program, processes = load(sys.argv[1])
    processes.ignore_signals()
    processes.forbid_dumps()
    return Spawner(program, processes).serve()


if __name__ == "__main__":
    os._exit(main())
