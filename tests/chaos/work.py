"""The work on a ticket: it notes what it does, has a child that outlives politeness, and ends as its title says.

Runs by path, as any command would: `python -I -S work.py FOLDER`. The title is `chaos NUMBER SECONDS PLAN CHILD`. Every
process of a run holds the ticket's lock file; the kernel frees it when the last of them is dead, so who finds it held
knows that an earlier run is still alive, whatever anybody else believes.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # `signal`, with its enums, would double the time to start
import fcntl
import os
import sys
import time

BEAT = 0.05
CODES = {"done": 0, "failed": 1, "waiting": 79, "later": 75}


def main(folder: str) -> int:
    """Do the work of one run."""
    title = os.environ["AGENTSMITH_TICKET_TITLE"].split()
    seconds, plan, leave_child = float(title[2]), title[3], title[4] == "left"
    key, platform = os.environ["AGENTSMITH_TICKET_KEY"], os.environ["AGENTSMITH_TICKET_PLATFORM"]
    run, attempt = os.environ["AGENTSMITH_RUN_ID"], os.environ["AGENTSMITH_ATTEMPT"]
    ident = os.environ["AGENTSMITH_TICKET_ID"]
    history = os.open(f"{folder}/history/work-{platform}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    rest = f"{folder}/rest"  # once it is there nobody needs long work any more
    life = os.getpid()

    def note(did: str, more: str = "") -> None:
        line = (
            f'{{"is": "work", "did": "{did}", "ticket": "{platform}/{key}", "id": "{ident}", "run": "{run}", '
            f'"attempt": {attempt}, "pid": {os.getpid()}, "parent": {os.getppid()}, "life": {life}, '
            f'"at": {time.monotonic_ns()}{more}}}\n'
        )
        os.write(history, line.encode())

    lock = os.open(f"{folder}/locks/{platform}-{key}", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("overlap")
    try:
        os.close(os.open(f"{folder}/locks/{platform}-{key}.begun", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        seconds = min(seconds, 1.0)  # it was cut off: what had to be seen is seen, if anything was
    note("start", f', "seconds": {seconds}')
    child = os.fork()
    if child == 0:
        # A part of the run like any other, though it left the session and does not mind SIGTERM.
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            note("beat")
            time.sleep(2 * BEAT)
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not (seconds > 1 and os.access(rest, os.F_OK)):
        time.sleep(min(BEAT, left))
        note("beat")
    if plan == "later":
        # Once only, however often it is begun again.
        try:
            os.close(os.open(f"{folder}/locks/{platform}-{key}.asked", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            plan = "done"
    if not leave_child:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    try:
        with open("made", "wb", 0) as made:  # as any work would
            made.write(bytes(8192))
    except OSError:
        return 1  # which is the machine's fault, and not how this ticket ends
    note("end", f', "code": {CODES[plan]}')
    return CODES[plan]


if __name__ == "__main__":
    os._exit(main(sys.argv[1]))
