"""One command: how it is started and confined, and how it ended. A part of the guard's program."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess

from .output import CHUNK, Output
from .processes import LINUX, PDEATHSIG, boottime, prctl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LAST_DRAIN = 16 * 1024 * 1024  # more than a pipe holds; bounds the drain if a stranger keeps writing into it
# The same as in domain/errors.py: the machine is at fault, whatever it was asked to do.
OF_THE_MACHINE = (
    errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EROFS, errno.ENOMEM, errno.EIO, errno.EAGAIN,
)  # fmt: skip


def confine(order: dict[str, Any], cgroup: str) -> None:
    """Binds this process, and all that come of it, to what the order allows; called between fork and exec."""
    if cgroup:
        with open(os.path.join(cgroup, "cgroup.procs"), "w") as procs:
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


def open_file(order: dict[str, Any], name: str, write_end: int) -> int:
    """What a command has as its standard input or output: the file that the order names, else nothing or the pipe."""
    if name == "stdin":
        return os.open(order.get(name) or os.devnull, os.O_RDONLY)
    path = order.get(name)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) if path else write_end


class RunningCommand:
    """A command, from its start until nothing of it is left."""

    def __init__(self, order: dict[str, Any], cgroup: str, send: Callable[[str, bool], bool]) -> None:
        if not order["argv"]:
            raise ValueError("it is empty")
        self.output = Output(order, send)
        self.pipe, write_end = os.pipe()
        os.set_blocking(self.pipe, False)
        guard = os.getpid()

        def prepare() -> None:
            confine(order, cgroup)
            prctl(PDEATHSIG, signal.SIGKILL)  # last: a change of the user undoes it
            if os.getppid() != guard:  # it died before that took hold
                os._exit(1)

        files = [write_end]
        try:
            for name in ("stdin", "stdout", "stderr"):
                files.append(open_file(order, name, write_end))
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
        self.started = self.printed_at = boottime()
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
        self.printed_at = boottime()
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
            "unheard": self.output.unheard,
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
