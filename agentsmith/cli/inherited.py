"""What whoever starts us hands down, put right where it would break us: standard files and signals.

A shell, a supervisor or a program that is no shell at all may have closed standard output, ignored SIGCHLD (then
nobody learns how a child ended) or blocked SIGTERM (then nobody can stop us). What is ignored for a reason stays so:
SIGHUP under `nohup`, and SIGINT where a shell starts us in the background.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

_FILES: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def put_right() -> None:
    """To be called once, before anything is opened or started."""
    for number, (name, mode) in enumerate(_FILES):
        try:
            os.fstat(number)
        except OSError:
            # Else the next file that is opened would stand in its place, and get what is meant for it.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - for as long as we live
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
