"""Starts the embedded server so that it cannot outlive its keeper.

Run as a script, `python -I -S watchdog.py HOW KEEPER COMMAND...`, in a session of its own, with standard
input reading from a pipe that only the keeper holds open. It imports nothing but the standard library: a few
milliseconds stand between the keeper and its server.

HOW is `signal` (Linux: this process becomes the server, and the kernel kills it when the keeper's thread that
started us ends) or `watchdog` (anywhere: this process stays, and kills the server when the pipe closes).
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
from types import FrameType

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    """Run the command until it ends or the keeper does; the exit code tells how the command ended."""
    how, keeper, *command = arguments
    os.umask(0o077)
    if how == "signal" and _die_with_parent():
        if os.getppid() != int(keeper):
            return 0  # the keeper died before the kernel knew to tell us
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execv(command[0], command)  # noqa: S606 - becoming the server is the point
    return _watch(command)


def _die_with_parent() -> bool:
    try:
        import ctypes  # absent from some self-built Pythons, and worth 15 ms only here

        return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def _watch(command: list[str]) -> int:
    # The keeper signals the whole process group. Handlers, unlike SIG_IGN, are not passed on to the server.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _leave_it_to_the_server)
    nothing_to_read = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    keeper_pipe = os.dup(0)
    server = os.posix_spawn(command[0], command, os.environ, file_actions=[nothing_to_read])
    _thread.start_new_thread(_kill_when_closed, (keeper_pipe,))
    _, status = os.waitpid(server, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _leave_it_to_the_server(number: int, frame: FrameType | None) -> None:
    """Do nothing; the server got the same signal and decides."""


def _kill_when_closed(keeper_pipe: int) -> None:
    while os.read(keeper_pipe, 1):
        pass
    os.killpg(os.getpid(), signal.SIGKILL)  # the server, whatever it forked, and ourselves


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
