"""The guard: owns the child processes of one run, and ends them when its consumer no longer may or can.

Forked by `spawner.py`, which loads it by path, so that it starts fast and does not depend on the rest of the package:
this module and those that it imports use the standard library only. It reads orders as JSON lines from stdin, and
writes events likewise to stdout; `client.py` is the other end.

It is two processes, so that kill -9 of any one leaves nothing of the run behind. The *supervisor* (the pid that the
consumer sees) only waits for the guard proper, and ends what is left if that vanishes; the guard proper does the work,
and ends the run if the supervisor vanishes. Orphans become children of both (Linux: child subreaper), so a process
that forks away or opens a session of its own is still found below them. Elsewhere it is found only while it stays in
the guard's session. Given a cgroup, the guard puts commands in there, and finds them there too.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time

from .command import RunningCommand, is_ours, why_not_started
from .output import CHUNK
from .processes import PATIENCE, PDEATHSIG, SUBREAPER, Descendants, boottime, forbid_dumps, ignore_signals, prctl

TYPE_CHECKING = False  # `typing` would cost a tenth of the start
if TYPE_CHECKING:
    from typing import Any

RELEASE_LIMIT = 120.0
EVENT_BACKLOG = 1024 * 1024  # beyond this, lines for a reader that is stuck have to wait; outcomes never do
IDLE_TICK = 0.5  # select() counts on a clock that stops during suspend, so it must not sleep for long
ENDING_TICK = 0.01

# Why the guard leaves: what it says, what it exits with, whether it is to release the lease.
ENDED = ("the run was closed", 0, False)
ORPHANED = ("the consumer is gone", 2, True)
DISTRUSTED = ("the trust window closed", 3, True)
UNSUPERVISED = ("the guard's supervisor is gone", 4, False)  # the consumer lives, and settles the run itself
STUBBORN = ("a process could not be ended", 5, False)  # to release the lease would declare the run over
REASONS = (ENDED, ORPHANED, DISTRUSTED, UNSUPERVISED, STUBBORN)


class Events:
    """Writes events without ever waiting for the reader."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._pending = bytearray()
        os.set_blocking(1, False)

    def send(self, event: str, *, at_once: bool = True, **fields: object) -> bool:
        """Queues an event; False when it need not be `at_once` and the reader is far behind."""
        if not at_once and len(self._pending) >= EVENT_BACKLOG:
            return False
        self._pending += json.dumps({"event": event, **fields}).encode() + b"\n"
        self.flush()
        return True

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


class Guard:
    """The guard proper: one thread and one loop, which neither the run nor the consumer can hold up."""

    def __init__(self, supervisor: int, cgroup: str) -> None:
        self.supervisor = supervisor
        self.selector = selectors.DefaultSelector()
        self.events = Events(self.selector)
        self.unread = b""
        self.trusted_until = float("inf")
        self.grace = 0.0
        self.release: dict[str, Any] | None = None
        self.command: RunningCommand | None = None
        self.descendants = Descendants(cgroup)
        self.kill_at: float | None = None
        self.leaving: tuple[str, int, bool] | None = None
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self.selector.register(woken, selectors.EVENT_READ, lambda: os.read(woken, CHUNK))
        self.selector.register(0, selectors.EVENT_READ, self.read_orders)

    def serve(self) -> int:
        """Guards until the run is closed or no longer to be trusted; nothing of it is left then."""
        while not self.settle():
            for key, _ in self.selector.select(self.tick()):
                key.data()
            self.judge()
        reason, code, releases = self.leaving or ENDED
        if releases and self.release:
            self.events.send("releasing", reason=reason)
            self.release_lease(self.release)
        give_up = boottime() + 1.0
        while not self.events.flush() and boottime() < give_up:
            time.sleep(ENDING_TICK)
        return code

    def tick(self) -> float:
        """How long the loop may sleep."""
        if self.kill_at is not None:
            return ENDING_TICK
        command, due = self.command, self.trusted_until
        if command:
            due = min(due, command.deadline, command.printed_at + command.patience)
        return max(0.0, min(IDLE_TICK, due - boottime()))

    def read_orders(self) -> None:
        """Reads the consumer's orders; that they end without `end` means that it died."""
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
                self.release = order["release"]
                self.events.send("ready")
            case "start":
                self.start(order)
            case "trust":
                self.trusted_until = order["until"]
            case "stop" if self.command:
                self.command.stopped = self.command.stopped or order["reason"]
            case "end":
                self.leave(ENDED)

    def start(self, order: dict[str, Any]) -> None:
        """Starts a command, or says why it could not."""
        if self.leaving:
            return  # the client is about to hear that we are gone
        if self.command:
            self.events.send("failed", error="another command still runs", ours=True)
            return
        try:
            command = RunningCommand(order, self.descendants.cgroup, self._said)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self.events.send("failed", error=why_not_started(error, order), ours=is_ours(error, order))
            return
        self.command = command
        self.descendants.commands.add(command.process.pid)
        self.selector.register(command.pipe, selectors.EVENT_READ, lambda: self.pump(command))
        self.events.send("started", pid=command.process.pid)

    def _said(self, line: str, at_once: bool) -> bool:
        return self.events.send("said", line=line, at_once=at_once)

    def pump(self, command: RunningCommand) -> None:
        """Moves output on; that the command closed it does not mean that the command ended."""
        command.pump()
        if command.eof:
            self.selector.unregister(command.pipe)

    def leave(self, why: tuple[str, int, bool]) -> None:
        """Begins to end everything; the first reason counts, but UNSUPERVISED must not hide a lost consumer."""
        if self.leaving in (None, UNSUPERVISED):
            self.leaving = why
        if self.command:
            self.command.stopped = self.command.stopped or why[0]

    def judge(self) -> None:
        """Checks the trust window, the supervisor and the command's time limits; called on every tick, input or not."""
        now = boottime()
        if now > self.trusted_until:
            self.leave(DISTRUSTED)
        if os.getppid() != self.supervisor:
            self.leave(UNSUPERVISED)
        command = self.command
        if command and command.process.returncode is None and not command.timed_out:
            command.stalled = now > command.printed_at + command.patience
            command.timed_out = command.stalled or now > command.deadline

    def settle(self) -> bool:
        """Ends what must end, and reports it once it has; True when the guard may exit."""
        command = self.command
        if not command and not self.leaving:
            return False
        left = self.descendants.reap()
        if command:
            status = self.descendants.statuses.pop(command.process.pid, None)
            if status is not None:
                command.process.returncode = os.waitstatus_to_exitcode(status)
            if command.process.returncode is None and not (command.stopped or command.timed_out):
                return False
        self.descendants.statuses.clear()
        if left and not self.press():
            return False
        self.kill_at = None
        if command:
            if not command.eof:
                self.selector.unregister(command.pipe)
            report = command.report()
            if self.leaving is not UNSUPERVISED:  # the client shall see a guard that died, not a stopped command
                self.events.send("exited", **report)
            self.command = None
        return self.leaving is not None

    def press(self) -> bool:
        """TERM, then KILL after the grace; True once it is clear that something cannot be killed."""
        now = boottime()
        if self.kill_at is None:
            self.kill_at = now + self.grace
            self.descendants.send(signal.SIGTERM, signal.SIGCONT)  # a stopped process could not act on the TERM
        if now >= self.kill_at:
            self.descendants.kill()
        if now < self.kill_at + PATIENCE:
            return False
        self.leaving = STUBBORN
        if self.command:
            self.command.stopped = self.command.stopped or STUBBORN[0]
            self.command.output.note(f"processes that could not be ended: {sorted(self.descendants.find())}")
        return True

    def release_lease(self, release: dict[str, Any]) -> None:
        """Runs the program that releases the lease, now that nothing of the run is left."""
        try:
            subprocess.run(
                release["argv"], input=release["input"].encode(), timeout=RELEASE_LIMIT, check=False,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env=os.environ,  # which the spawner was given, with nothing secret in it
            )  # fmt: skip
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            print(f"guard: giving the ticket back failed: {type(error).__name__}", file=sys.stderr)
        self.descendants.kill()


def supervise(guard: int, cgroup: str) -> int:
    """Waits for the guard proper, and kills what it left behind if it was killed itself."""
    statuses: dict[int, int] = {}
    while guard not in statuses:
        pid, status = os.waitpid(-1, 0)
        statuses[pid] = status
    descendants, give_up = Descendants(cgroup), boottime() + PATIENCE
    while descendants.reap() and boottime() < give_up:
        descendants.kill()
        time.sleep(ENDING_TICK)
    code = os.waitstatus_to_exitcode(statuses[guard])
    return code if code >= 0 else 128 - code


def main(cgroup: str) -> int:
    """Becomes supervisor and guard; commands are put into the cgroup, if there is one."""
    ignore_signals()
    forbid_dumps()
    prctl(SUBREAPER, 1)
    supervisor = os.getpid()
    guard = os.fork()
    if guard:
        return supervise(guard, cgroup)
    os.setpgid(0, 0)  # so that a signal to the supervisor's group spares this process
    prctl(SUBREAPER, 1)  # is not inherited
    prctl(PDEATHSIG, signal.SIGCHLD)  # wakes the loop, which then finds the supervisor gone
    return Guard(supervisor, cgroup).serve()
