"""The guard: owns the child processes of one run, and ends them when its consumer no longer may or can.

Forked by `spawner.py`, which loads it by path, so that it starts fast and shares no fate with the package: standard
library only, nothing of ours. Orders come as JSON lines on stdin, events go out likewise on stdout; `guarded.py` is the
other end.

It is two processes, so that kill -9 of any one leaves nothing of the run behind. The *keeper* (the pid that
the consumer sees) only waits, and ends what is left if the guard proper vanishes; the guard proper does the
work, and ends the run if the keeper vanishes. Both collect orphans (Linux: child subreaper), so a process
that forks away or opens a session of its own is still found below them. Elsewhere it is found only while it
stays in the guard's session. Given a cgroup, it puts commands in there, and finds them there too.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False  # `typing` would cost a tenth of the start
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LINUX = sys.platform == "linux"
PATIENCE = 10.0  # how long a process may take to die of SIGKILL before it counts as impossible to end
FAREWELL_LIMIT = 120.0
LINE_LIMIT = 8 * 1024
LINES_PER_STEP = 1000  # of each kind; nothing of one kind may use up what is left for another
KINDS = (b"question", b"summary", b"usage", b"artifact", b"session")
PROGRESS_EVERY = 0.1  # of progress only the newest counts, so there is no limit to it but its pace
EVENT_BACKLOG = 1024 * 1024  # beyond this, lines for a reader that is stuck are dropped; outcomes never are
CHUNK = 64 * 1024
LOG_END = 256 * 1024  # how much of the end of an output the log has, beside its beginning
PART, PARTS_KEPT = 16 * 1024 * 1024, 8  # all that an agent prints is kept in parts: the first one, and the last ones
LAST_DRAIN = 16 * 1024 * 1024  # more than a pipe holds; bounds the drain if a stranger keeps writing into it
IDLE_TICK = 0.5  # select() counts on a clock that stops during suspend, so it must not sleep for long
ENDING_TICK = 0.01
# The same as in domain/errors.py: the machine is at fault, whatever it was asked to do.
OF_THE_MACHINE = (
    errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EROFS, errno.ENOMEM, errno.EIO, errno.EAGAIN,
)  # fmt: skip

# Why the guard leaves: what it says, what it exits with, whether the farewell is its to run.
ENDED = ("the run was closed", 0, False)
ORPHANED = ("the consumer is gone", 2, True)
DISTRUSTED = ("the trust window closed", 3, True)
UNKEPT = ("the guard's keeper is gone", 4, False)  # the consumer lives, and settles the run itself
STUBBORN = ("a process could not be ended", 5, False)  # a farewell would declare the run over
LEAVINGS = (ENDED, ORPHANED, DISTRUSTED, UNKEPT, STUBBORN)

_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_PDEATHSIG, _DUMPABLE, SUBREAPER = 1, 4, 36
_libc = ctypes.CDLL(None)
_cgroup = ""


def boottime() -> float:
    """Seconds on a clock that runs during suspend: the same clock as `agentsmith.boottime`."""
    return time.clock_gettime(_CLOCK)


def prctl(option: int, value: int) -> None:
    """Sets an attribute of this process that only Linux has."""
    if LINUX:
        _libc.prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0)))


def process_table() -> dict[int, tuple[int, int]]:
    """Every process that can be seen, as pid -> (parent, process group)."""
    table: dict[int, tuple[int, int]] = {}
    if not LINUX:
        command = ["ps", "-axo", "pid=,ppid=,pgid=,stat="]
        ps = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PATH": os.defpath})
        for pid, parent, group, state in map(str.split, ps.communicate()[0].splitlines()):
            if int(pid) != ps.pid and "Z" not in state:  # init may be slow to collect the dead
                table[int(pid)] = (int(parent), int(group))
        return table
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb", buffering=0) as stat:
                fields = stat.read(1024).rpartition(b")")[2].split()  # the program's name may hold anything
        except OSError:
            continue
        table[int(name)] = (int(fields[1]), int(fields[2]))
    return table


def session_of(pid: int) -> int | None:
    """The session of a process, or None once it is gone."""
    try:
        return os.getsid(pid)
    except OSError:
        return None


def members() -> set[int]:
    """Every process in the run's cgroup, those in groups below it included."""
    found: set[int] = set()
    for folder, _, _ in os.walk(_cgroup) if _cgroup else ():
        try:
            with open(os.path.join(folder, "cgroup.procs"), "rb") as procs:
                found.update(map(int, procs.read().split()))
        except OSError:  # it was removed meanwhile
            continue
    return found


def children() -> list[int]:
    """The children of this process, dead ones included; without a look at every other, where there is such a list."""
    found: list[int] = []
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children", "rb") as listed:
                found += map(int, listed.read().split())
    except OSError:  # a kernel without it, or another system
        me = os.getpid()
        return [pid for pid, (parent, _) in process_table().items() if parent == me]
    return found


def below(table: dict[int, tuple[int, int]], tops: list[int]) -> dict[int, int]:
    """Every process of the table below these, as pid -> process group."""
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found: dict[int, int] = {}
    unseen = list(tops)
    while unseen:
        for pid in children.get(unseen.pop(), ()):
            found[pid] = table[pid][1]
            unseen.append(pid)
    return found


def descendants_of(tops: list[int]) -> dict[int, int]:
    """These processes and every one below them, as pid -> process group."""
    table = process_table()
    return {pid: table[pid][1] for pid in tops if pid in table} | below(table, tops)


def kill_trees(tops: list[int], *, spared: frozenset[int]) -> None:
    """Kills these processes and every one below them; whole groups, except for those in sessions that are spared."""
    for pid, group in descendants_of(tops).items():
        alone = session_of(pid) in {os.getsid(0), *spared}
        for target in (pid,) if alone else (-group, pid):
            try:
                os.kill(target, signal.SIGKILL)
            except OSError:  # gone already, or it runs as another user: the next look tells
                continue


def descendants() -> dict[int, int]:
    """Every process below this one or in the run's cgroup, as pid -> process group."""
    table, me, session = process_table(), os.getpid(), os.getsid(0)
    found = below(table, [me])
    found |= {pid: table[pid][1] for pid in members() if pid in table}
    if not LINUX:  # orphans went to init
        found |= {p: g for p, (_, g) in table.items() if p not in (me, session) and session_of(p) == session}
    return found


def signal_all(*signals: int) -> set[int]:
    """Sends the signals to every process below this one; returns which those were."""
    found = descendants()
    # A group is hit as a whole, so that what was forked since we looked is hit too; but not the guard's own two
    # groups, which a process of the run could have joined, nor 0 and 1, which would mean far more than a group.
    spared = {0, 1, os.getpgrp(), os.getsid(0)}
    for target in {pid if group in spared else -group for pid, group in found.items()}:
        for number in signals:
            try:
                os.kill(target, number)
            except OSError:  # gone already, or it runs as another user: the next look tells
                continue
    return set(found)


def reap(statuses: dict[int, int]) -> bool:
    """Collects the dead among our children; False when nothing is left below this process."""
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return True
            statuses[pid] = status
    except ChildProcessError:
        return not LINUX and bool(descendants())  # where orphans come to us, no child means no descendant


def kill_all(statuses: dict[int, int]) -> None:
    """Kills every process below this one, looking again while there are new ones, but not for ever."""
    seen: set[int] = set()
    for _ in range(100):
        new = signal_all(signal.SIGKILL) - seen
        if not new:
            break
        seen |= new
        reap(statuses)


def printable(data: bytes) -> str:
    """Bytes of any origin as text without NULs."""
    return data.decode("utf-8", "replace").replace("\0", "")


class Events:
    """Writes events without ever waiting for the reader."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._pending = bytearray()
        os.set_blocking(1, False)

    def send(self, event: str, **fields: object) -> None:
        """Queues an event; a line of output is dropped instead when the reader is far behind."""
        if event != "said" or len(self._pending) < EVENT_BACKLOG:
            self._pending += json.dumps({"event": event, **fields}).encode() + b"\n"
            self.flush()

    def flush(self) -> bool:
        """Writes what the pipe takes now; True when nothing waits to be written."""
        try:
            while self._pending:
                del self._pending[: os.write(1, self._pending[:CHUNK])]
        except BlockingIOError:
            pass
        except OSError:  # nobody will ever read
            self._pending.clear()
        if bool(self._pending) != (1 in self._selector.get_map()):
            if self._pending:
                self._selector.register(1, selectors.EVENT_WRITE, self.flush)
            else:
                self._selector.unregister(1)
        return not self._pending


class Output:
    """What a command prints: a log of its beginning and its end, the last bytes, and lines that begin with `::`."""

    def __init__(self, order: dict[str, Any], on_line: Callable[[str], None]) -> None:
        self.truncated, self.printed = False, 0
        self._report = order.get("report")
        self._log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._limit, self._tail_limit = int(order["log_limit"]), int(order["tail_limit"])
        self._end_limit = min(self._limit, LOG_END)
        self._tail, self._line = bytearray(), b""
        self._say = order["env"].get("AGENTSMITH_SAY", "::").encode()
        self._counts: dict[tuple[bool, bytes], int] = {}  # the worker's own lines; others must not use those up
        self._progress, self._progress_at, self._on_line = b"", 0.0, on_line

    def feed(self, data: bytes) -> None:
        """Takes the next bytes, in time and memory that do not depend on how much came before."""
        self._tail += data
        needed = max(self._tail_limit, self._end_limit) + 1  # one more, to tell that it was cut
        if len(self._tail) > 2 * needed + CHUNK:
            del self._tail[:-needed]
        if not self.truncated:
            self._write(data[: self._limit - self.printed])
            if self.printed + len(data) > self._limit:
                self.truncated = True
                self.note(f"output truncated at {self._limit} bytes")
        self._sieve(data)
        if self._report:
            self._keep(data)
        self.printed += len(data)

    def note(self, text: str) -> None:
        """Adds a line of the guard's own to the log."""
        self._write(f"\n[{text}]\n".encode())

    def close(self) -> str:
        """Closes the log and returns the tail."""
        self._sieve(b"\n")
        self._tell_progress()
        if (missing := min(self.printed - self._limit, self._end_limit)) > 0:
            end = self._tail[-missing:]
            del end[: end.find(b"\n", 0, -1) + 1]  # so that it begins with a line
            self.note(f"{self.printed - self._limit - len(end)} bytes left out; the end:")
            self._write(bytes(end))
        os.close(self._log)
        cut = max(0, len(self._tail) - self._tail_limit)
        while 0 < cut < len(self._tail) and self._tail[cut] & 0xC0 == 0x80:
            cut += 1  # the rest of a character whose beginning is lost
        return printable(bytes(self._tail[cut:]))

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._log, data) :]
        except OSError:  # a full disk must not end the guarding
            self.truncated = True

    def _keep(self, data: bytes) -> None:
        part = self.printed // PART
        try:
            with open(f"{self._report}.{part}", "ab") as kept:
                begins = kept.tell() == 0
                kept.write(data)
            if begins and part > PARTS_KEPT:
                os.unlink(f"{self._report}.{part - PARTS_KEPT}")
        except OSError:  # as for the log; whoever reads it sees by its size that something is missing
            return

    def _sieve(self, data: bytes) -> None:
        data = self._line + data
        if data.startswith(b"::") or b"\n::" in data:
            *lines, data = data.split(b"\n")
            for line in lines:
                if line.startswith(b"::"):
                    self._tell(line[:LINE_LIMIT].rstrip(b"\r"))
        start = data.rfind(b"\n") + 1
        self._line = data[start : start + LINE_LIMIT]  # of a line that goes on, only the beginning matters

    def _tell(self, line: bytes) -> None:
        own = line.startswith(self._say)
        word = line.removeprefix(self._say if own else b"::").partition(b" ")[0].rstrip(b":").lower()
        if word == b"progress":
            self._progress = line
            if boottime() >= self._progress_at:
                self._tell_progress()
            return
        kind = (own, word if word in KINDS else b"")
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count <= LINES_PER_STEP:
            self._on_line(printable(line))
        elif count == LINES_PER_STEP + 1:
            self.note(f"more than {LINES_PER_STEP} such lines: {printable(line[:80])}; the rest do not count")

    def _tell_progress(self) -> None:
        if self._progress:
            self._on_line(printable(self._progress))
        self._progress, self._progress_at = b"", boottime() + PROGRESS_EVERY


def confine(order: dict[str, Any]) -> None:
    """Binds this process, and all that come of it, to what the order allows; called between fork and exec."""
    if _cgroup:
        with open(os.path.join(_cgroup, "cgroup.procs"), "w") as procs:
            procs.write("0")
    if memory := order.get("memory"):
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    if (cpus := order.get("cpus")) and LINUX:
        usable = sorted(os.sched_getaffinity(0))
        first = os.getpid() % len(usable)  # not always the same ones
        os.sched_setaffinity(0, (usable + usable)[first : first + cpus])
    if user := order.get("user"):
        os.setgroups(user["groups"])
        os.setgid(user["gid"])
        os.setuid(user["uid"])


def open_file(order: dict[str, Any], name: str, inlet: int) -> int:
    """What a command has as its standard input or output: the file that the order names, else nothing or the pipe."""
    if name == "stdin":
        return os.open(order.get(name) or os.devnull, os.O_RDONLY)
    path = order.get(name)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) if path else inlet


class Step:
    """One command, from its start until nothing of it is left."""

    def __init__(self, order: dict[str, Any], on_line: Callable[[str], None]) -> None:
        if not order["argv"]:
            raise ValueError("it is empty")
        self.output = Output(order, on_line)
        self.pipe, inlet = os.pipe()
        os.set_blocking(self.pipe, False)
        guard = os.getpid()

        def prepare() -> None:
            confine(order)
            prctl(_PDEATHSIG, signal.SIGKILL)  # last: a change of the user undoes it
            if os.getppid() != guard:  # it died before that took hold
                os._exit(1)

        files = [inlet]
        try:
            for name in ("stdin", "stdout", "stderr"):
                files.append(open_file(order, name, inlet))
            self.process = subprocess.Popen(
                order["argv"], env=order["env"], cwd=order["cwd"], process_group=0,
                stdin=files[1], stdout=files[2], stderr=files[3],
                preexec_fn=prepare,  # safe: this process has one thread
            )  # fmt: skip
        except BaseException:
            os.close(self.pipe)
            self.output.close()
            raise
        finally:
            for file in set(files):
                os.close(file)
        self.started = self.heard = boottime()
        self.deadline = float("inf") if order["timeout"] is None else self.started + order["timeout"]
        self.patience = order.get("stall") or float("inf")
        self.timed_out = self.stalled = self.eof = False
        self.stopped: str | None = None

    def pump(self) -> bool:
        """Moves one chunk from the pipe; False when there is none now."""
        try:
            data = os.read(self.pipe, CHUNK)
        except BlockingIOError:
            return False
        self.eof = not data
        self.heard = boottime()
        self.output.feed(data)
        return bool(data)

    def report(self) -> dict[str, Any]:
        """Drains what is left in the pipe and tells how the command ended."""
        duration = boottime() - self.started
        for _ in range(LAST_DRAIN // CHUNK):
            if not self.pump():
                break
        os.close(self.pipe)
        code = self.process.returncode
        return {
            "code": None if code is None or code < 0 else code,
            "signal": None if code is None or code >= 0 else -code,
            "timed_out": self.timed_out,
            "stalled": self.stalled,
            "stopped": self.stopped,
            "tail": self.output.close(),
            "truncated": self.output.truncated,
            "printed": self.output.printed,
            "duration": duration,
        }


def is_ours(error: Exception, order: dict[str, Any]) -> bool:
    """Whether a command could not be started because of this machine or of us, rather than of what it is."""
    if not isinstance(error, OSError):
        return isinstance(error, subprocess.SubprocessError)
    ours = [order.get(name) for name in ("log", "stdin", "stdout", "stderr")]
    return error.errno in OF_THE_MACHINE or bool(error.filename and error.filename in ours)


def why_not_started(error: Exception, order: dict[str, Any]) -> str:
    """Says what to mend when a command could not be started; quotes neither arguments nor environment."""
    program, cwd = (order["argv"] or [""])[0], order["cwd"]
    if isinstance(error, subprocess.SubprocessError):  # all that Python tells of a failure in `prepare`
        return "it could not be confined to its user, limits and cgroup; check run.user and run.limits"
    if not isinstance(error, OSError):
        return f"not a valid command: {error}"
    if error.filename == order["log"]:
        return f"cannot write the log {order['log']}: {error.strerror}"
    if error.filename and error.filename == order.get("stdin"):
        return f"cannot read its input {order['stdin']}: {error.strerror}"
    if error.filename and error.filename in (order.get("stdout"), order.get("stderr")):
        return f"cannot write its output {error.filename}: {error.strerror}"
    if not os.path.isdir(cwd):
        return f"working directory not found: {cwd}"
    if not os.access(cwd, os.X_OK):
        return f"not permitted to enter {cwd}"
    if error.errno == errno.ENOENT and not (os.sep in program and os.path.exists(os.path.join(cwd, program))):
        return f"command not found: {program}"
    path = order["env"].get("PATH", os.defpath).split(os.pathsep)
    if os.sep not in program and not any(os.path.exists(os.path.join(folder, program)) for folder in path):
        return f"command not found: {program}"  # a folder there may not be searched, which is no fault of the command
    reasons = {
        errno.ENOENT: "the interpreter named in its first line was not found",
        errno.EACCES: "not permitted (is it executable?)",
        errno.ENOEXEC: "neither a program nor a script with a #! line",
        errno.E2BIG: "its arguments and environment are too long",
    }
    return f"cannot run {program}: {reasons.get(error.errno or 0, error.strerror)}"


class Guard:
    """The guard proper: one thread and one loop, which neither the run nor the consumer can hold up."""

    def __init__(self, keeper: int) -> None:
        self.keeper = keeper
        self.selector = selectors.DefaultSelector()
        self.events = Events(self.selector)
        self.unread = b""
        self.trusted_until = float("inf")
        self.grace = 0.0
        self.farewell: dict[str, Any] | None = None
        self.step: Step | None = None
        self.statuses: dict[int, int] = {}
        self.kill_at: float | None = None
        self.leaving: tuple[str, int, bool] | None = None
        ear, bell = os.pipe()
        os.set_blocking(bell, False)
        signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
        self.selector.register(ear, selectors.EVENT_READ, lambda: os.read(ear, CHUNK))
        self.selector.register(0, selectors.EVENT_READ, self.listen)

    def serve(self) -> int:
        """Guards until the run is closed or no longer to be trusted; nothing of it is left then."""
        while not self.settle():
            for key, _ in self.selector.select(self.tick()):
                key.data()
            self.judge()
        reason, code, farewell = self.leaving or ENDED
        if farewell and self.farewell:
            self.events.send("farewell", reason=reason)
            self.say(self.farewell)
        give_up = boottime() + 1.0
        while not self.events.flush() and boottime() < give_up:
            time.sleep(ENDING_TICK)
        return code

    def tick(self) -> float:
        """How long the loop may sleep."""
        if self.kill_at is not None:
            return ENDING_TICK
        step = self.step
        due = min(self.trusted_until, step.deadline, step.heard + step.patience) if step else self.trusted_until
        return max(0.0, min(IDLE_TICK, due - boottime()))

    def listen(self) -> None:
        """Takes the consumer's orders; that they end without `end` means that it died."""
        try:
            data = os.read(0, CHUNK)
        except ConnectionError:  # stdin may be a socket
            data = b""
        if not data:
            self.selector.unregister(0)
            self.leave(ORPHANED)
        *lines, self.unread = (self.unread + data).split(b"\n")
        for line in lines:
            self.obey(json.loads(line))

    def obey(self, order: dict[str, Any]) -> None:
        """Carries out one order."""
        match order["op"]:
            case "hello":
                self.trusted_until, self.grace = order["trusted_until"], order["grace"]
                self.farewell = order["farewell"]
                self.events.send("ready")
            case "start":
                self.start(order)
            case "trust":
                self.trusted_until = order["until"]
            case "stop" if self.step:
                self.step.stopped = self.step.stopped or order["reason"]
            case "end":
                self.leave(ENDED)

    def start(self, order: dict[str, Any]) -> None:
        """Starts a command, or says why it could not."""
        if self.leaving:
            return  # the handle is about to hear that we are gone
        if self.step:
            self.events.send("failed", error="another command still runs", ours=True)
            return
        try:
            step = self.step = Step(order, lambda line: self.events.send("said", line=line))
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self.events.send("failed", error=why_not_started(error, order), ours=is_ours(error, order))
            return
        self.selector.register(step.pipe, selectors.EVENT_READ, lambda: self.pump(step))
        self.events.send("started", pid=step.process.pid)

    def pump(self, step: Step) -> None:
        """Moves output on; that the command closed it does not mean that the command ended."""
        step.pump()
        if step.eof:
            self.selector.unregister(step.pipe)

    def leave(self, why: tuple[str, int, bool]) -> None:
        """Begins to end everything; the first reason counts, but UNKEPT must not hide a lost consumer."""
        if self.leaving in (None, UNKEPT):
            self.leaving = why
        if self.step:
            self.step.stopped = self.step.stopped or why[0]

    def judge(self) -> None:
        """Compares clock and keeper with what was promised; runs on every tick, input or not."""
        now = boottime()
        if now > self.trusted_until:
            self.leave(DISTRUSTED)
        if os.getppid() != self.keeper:
            self.leave(UNKEPT)
        step = self.step
        if step and step.process.returncode is None and not step.timed_out:
            step.stalled = now > step.heard + step.patience
            step.timed_out = step.stalled or now > step.deadline

    def settle(self) -> bool:
        """Brings what must end nearer to its end, and reports it then; True when the guard may go."""
        step = self.step
        if not step and not self.leaving:
            return False
        left = reap(self.statuses)
        if step:
            status = self.statuses.pop(step.process.pid, None)
            if status is not None:
                step.process.returncode = os.waitstatus_to_exitcode(status)
            if step.process.returncode is None and not (step.stopped or step.timed_out):
                return False
        self.statuses.clear()
        if left and not self.press():
            return False
        self.kill_at = None
        if step:
            if not step.eof:
                self.selector.unregister(step.pipe)
            report = step.report()
            if self.leaving is not UNKEPT:  # the handle shall see a guard that died, not a command that was stopped
                self.events.send("exited", **report)
            self.step = None
        return self.leaving is not None

    def press(self) -> bool:
        """TERM, then KILL after the grace; True once it is clear that something will never end."""
        now = boottime()
        if self.kill_at is None:
            self.kill_at = now + self.grace
            signal_all(signal.SIGTERM, signal.SIGCONT)  # a stopped process could not act on the TERM
        if now >= self.kill_at:
            kill_all(self.statuses)
        if now < self.kill_at + PATIENCE:
            return False
        self.leaving = STUBBORN
        if self.step:
            self.step.stopped = self.step.stopped or STUBBORN[0]
            self.step.output.note(f"processes that could not be ended: {sorted(descendants())}")
        return True

    def say(self, farewell: dict[str, Any]) -> None:
        """Runs the consumer's last wish, now that nothing of the run is left."""
        try:
            subprocess.run(
                farewell["argv"], input=farewell["input"].encode(), timeout=FAREWELL_LIMIT, check=False,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env=os.environ,  # which the process that forks guards was given, with nothing secret in it
            )  # fmt: skip
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            print(f"guard: giving the ticket back failed: {type(error).__name__}", file=sys.stderr)
        kill_all(self.statuses)


def keep(guard: int) -> int:
    """Waits for the guard proper, and kills what it left behind if it was killed itself."""
    statuses: dict[int, int] = {}
    while guard not in statuses:
        pid, status = os.waitpid(-1, 0)
        statuses[pid] = status
    give_up = boottime() + PATIENCE
    while reap({}) and boottime() < give_up:
        kill_all({})
        time.sleep(ENDING_TICK)
    code = os.waitstatus_to_exitcode(statuses[guard])
    return code if code >= 0 else 128 - code


def be_deaf() -> None:
    """Minds no signal that a terminal, a shell or an operator may send to all, and keeps its memory to itself."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD):
        # A handler rather than SIG_IGN, which the commands would inherit: they could not be stopped politely.
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    prctl(_DUMPABLE, 0)  # commands run as the same user, and could read our environment and memory


def main(cgroup: str) -> int:
    """Becomes keeper and guard; commands are put into the cgroup, if there is one."""
    global _cgroup
    _cgroup = cgroup
    be_deaf()
    prctl(SUBREAPER, 1)
    keeper = os.getpid()
    guard = os.fork()
    if guard:
        return keep(guard)
    os.setpgid(0, 0)  # so that a signal to the keeper's group spares this process
    prctl(SUBREAPER, 1)  # is not inherited
    prctl(_PDEATHSIG, signal.SIGCHLD)  # wakes the loop, which then finds the keeper gone
    return Guard(keeper).serve()
