"""Finding and ending processes. A part of the guard's program: standard library only, and cheap to import."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time

LINUX = sys.platform == "linux"
PATIENCE = 10.0  # how long a process may take to die of SIGKILL before it counts as impossible to end

PDEATHSIG, DUMPABLE, SUBREAPER = 1, 4, 36
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_libc = ctypes.CDLL(None)


def boottime() -> float:
    """Seconds on a clock that runs during suspend: the same clock as `agentsmith.boottime`."""
    return time.clock_gettime(_CLOCK)


def prctl(option: int, value: int) -> None:
    """Sets an attribute of this process that only Linux has."""
    if LINUX:
        _libc.prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0)))


def ignore_signals() -> None:
    """Ignores every signal that a terminal, a shell or an operator may send to all of a group."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD):
        # A handler rather than SIG_IGN, which the commands would inherit: they could not be stopped politely.
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def forbid_dumps() -> None:
    """Makes this process non-dumpable: commands run as the same user, and could read its environment and memory."""
    prctl(DUMPABLE, 0)


def process_table() -> dict[int, tuple[int, int]]:
    """Every process that can be seen, as pid -> (parent, process group)."""
    table: dict[int, tuple[int, int]] = {}
    if not LINUX:
        command = ["ps", "-axo", "pid=,ppid=,pgid=,stat="]
        ps = subprocess.Popen(command, stdout=subprocess.PIPE, encoding="ascii", env={"PATH": os.defpath})
        for pid, parent, group, state in map(str.split, ps.communicate()[0].splitlines()):
            if int(pid) != ps.pid and "Z" not in state:  # init may be slow to reap the dead
                table[int(pid)] = (int(parent), int(group))
        return table
    try:
        names = os.listdir("/proc")
    except OSError:  # no file is left to look with; whoever asks looks again
        return table
    for name in filter(str.isdigit, names):
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


def children() -> list[int]:
    """The children of this process, dead ones included; read from the kernel's list of them, where there is one."""
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


def kill_trees(tops: list[int], *, spared: frozenset[int]) -> None:
    """Kills these processes and every one below them; whole groups, except for those in sessions that are spared."""
    table = process_table()
    for pid, group in ({pid: table[pid][1] for pid in tops if pid in table} | below(table, tops)).items():
        alone = session_of(pid) in {os.getsid(0), *spared}
        for target in (pid,) if alone else (-group, pid):
            try:
                os.kill(target, signal.SIGKILL)
            except OSError:  # gone already, or it runs as another user: the next look tells
                continue


class Descendants:
    """Every process below this one or in the run's cgroup, and the exit statuses of those that were children."""

    def __init__(self, cgroup: str) -> None:
        self.cgroup = cgroup
        self.statuses: dict[int, int] = {}
        self.commands: set[int] = set()
        """Commands that are not reaped yet, each in a group of its own: known without any look."""

    def find(self) -> dict[int, int]:
        """Those that are there now, as pid -> process group."""
        table, me, session = process_table(), os.getpid(), os.getsid(0)
        if not table:
            return {pid: pid for pid in self.commands}
        found = below(table, [me])
        found |= {pid: table[pid][1] for pid in self._members() if pid in table}
        if not LINUX:  # orphans went to init
            found |= {p: g for p, (_, g) in table.items() if p not in (me, session) and session_of(p) == session}
        return found

    def send(self, *signals: int) -> set[int]:
        """Sends the signals to all of them; returns which those were."""
        found = self.find()
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

    def reap(self) -> bool:
        """Reaps dead children, and notes their statuses; False when nothing is left below this process."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                self.statuses[pid] = status
                self.commands.discard(pid)
        except ChildProcessError:
            return not LINUX and bool(self.find())  # where orphans come to us, no child means no descendant

    def kill(self) -> None:
        """Kills all of them, looking again while there are new ones, but not for ever."""
        seen: set[int] = set()
        for _ in range(100):
            new = self.send(signal.SIGKILL) - seen
            if not new:
                break
            seen |= new
            self.reap()

    def _members(self) -> set[int]:
        """Every process in the cgroup, those in groups below it included."""
        found: set[int] = set()
        for folder, _, _ in os.walk(self.cgroup) if self.cgroup else ():
            try:
                with open(os.path.join(folder, "cgroup.procs"), "rb") as procs:
                    found.update(map(int, procs.read().split()))
            except OSError:  # it was removed meanwhile
                continue
        return found
