"""Holds a lock for as long as a command lives: takes it, and becomes the command.

A lock that our process held for its git would be free when our process is killed, while git works on for a moment.
This one is let go by the kernel when the last process of the command is gone. Started by path, standard library only.
"""

from __future__ import annotations

import fcntl
import os
import sys


def main() -> None:
    """`hold.py LOCKFILE command …`."""
    lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    fcntl.flock(lock, fcntl.LOCK_SH)
    os.set_inheritable(lock, True)
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606


if __name__ == "__main__":
    main()
