"""Reads what was seen while agentsmith was tormented, and counts what must not have happened.

It knows the promises and nothing of the program: it imports nothing of ours, only the standard library, and takes its
facts from those who were there. A history is a list of JSON objects, one per line, in any order, on one clock
(nanoseconds, CLOCK_MONOTONIC). `is` says who tells:

| is     | Told by      | Holds                                                                                        |
|--------|--------------|----------------------------------------------------------------------------------------------|
| kinds  | the conductor| `names`: the kinds of faults that have to happen                                             |
| withdrawn | the conductor | a log said of a `run` that its trigger was removed, which nobody did                  |
| died   | the conductor| a daemon that was up ended though nobody had killed it: `who`, `how`                         |
| ticket | the people   | `ticket`, `at`, `labels` as it was opened, `plan`: how its work ends                         |
| person | the people   | `ticket`, `at`, labels that they `add` and `remove`                                          |
| write  | a tracker    | a write that landed: `ticket`, `id`, `at`, `begun` (when the sender began it), `hand`,       |
|        |              | `fence` or `since`, `before` and `after`: all labels                                         |
| fence  | Redis        | `id`, `at`, `fence`: a newer fence stands from now on                                        |
| lease  | Redis        | `id`, `fence`: that fence was raised by a consumer that took the ticket from the queue       |
| work   | a worker     | `did` (start, beat, overlap, end), `ticket`, `id`, `run`, `attempt`, `pid`, `life`: the pid  |
|        |              | of the run's first process, `at`, and `code` with end                                        |
| fault  | the conductor| `kind`, `at`, `until`: it happened                                                           |
| final  | the people   | `ticket`, `labels` when all was over                                                         |

A write acts for a *run* (`hand` is "run") under the fence of its lease, or for somebody who holds the ticket's lock
(`hand` is "lock") under a fence, or under whatever fence was the newest when the lock was taken (`since`). A consumer
that takes a request raises the fence without the lock, and waits for the lock before it writes: to a holder of the lock
such a fence means nothing, to a run every newer fence means that it is over.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

Line = dict[str, Any]

LIFECYCLE: Final = frozenset(
    f"agent-smith:{word}" for word in ("pending", "enqueued", "in-progress", "waiting", "done", "failed")
)
ENDS: Final = {0: "agent-smith:done", 79: "agent-smith:waiting"}
"""Which label an exit code of a worker leads to; any other code leads to failed, but 75, which asks for another run."""
AGAIN: Final = 75
LONGEST_BLOCK: Final = 0.05
"""Seconds of processor time in one turn: what is noticed at all is too long."""
_FINAL: Final = frozenset({"agent-smith:done", "agent-smith:failed"})
_SECOND: Final = 1_000_000_000


@dataclass(slots=True)
class Life:
    """One run as its processes told it."""

    ticket: str
    run: str
    life: int
    began: int
    last: int
    code: int | None = None

    @property
    def end(self) -> str | None:
        """The label that its end calls for, if it came to one."""
        return None if self.code in (None, AGAIN) else ENDS.get(self.code or 0, "agent-smith:failed")


@dataclass(slots=True)
class Verdict:
    """What was found; `findings` says each time where."""

    tickets: int = 0
    runs: int = 0
    overlapping: int = 0
    lost: int = 0
    foreign: int = 0
    fenced_writes: int = 0
    late_landings: int = 0
    unrepaired: int = 0
    revived: int = 0
    blocked: int = 0
    """Turns of an event loop that took longer than anybody may take."""
    longest_block_s: float = 0.0
    withdrawn: int = 0
    died: int = 0
    """Daemons that were up and ended though nobody had killed them."""
    faults: dict[str, int] = field(default_factory=dict)
    recovery_s: dict[str, float | None] = field(default_factory=dict)
    interrupted: int = 0
    recovery_by_fault: dict[str, dict[str, float | None]] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)

    @property
    def missing(self) -> list[str]:
        """The kinds of faults that never happened."""
        return sorted(kind for kind, count in self.faults.items() if not count)

    @property
    def ok(self) -> bool:
        """Whether every promise held, and was put to the test by every kind of fault."""
        wrong = (self.overlapping, self.lost, self.foreign, self.fenced_writes, self.unrepaired, self.revived)
        return not any((*wrong, self.withdrawn, self.died, self.blocked)) and not self.missing and self.tickets > 0

    def to_json(self) -> dict[str, Any]:
        """The figures, without the findings."""
        names = ("tickets", "runs", "overlapping", "lost", "foreign", "fenced_writes", "late_landings", "unrepaired")
        more = ("revived", "withdrawn", "died", "blocked", "longest_block_s", "interrupted", "faults", "recovery_s")
        return {name: getattr(self, name) for name in (*names, *more)}


def check(history: Iterable[Line]) -> Verdict:
    """Judge a history."""
    told: dict[str, list[Line]] = defaultdict(list)
    for line in history:
        told[line["is"]].append(line)
    for lines in told.values():
        lines.sort(key=lambda line: line.get("at", 0))
    verdict = Verdict(tickets=len(told["ticket"]))
    lives = _lives(told["work"])
    verdict.runs = sum(map(len, lives.values()))
    _count_overlaps(verdict, lives, told["work"])
    late = _count_writes(verdict, told)
    _count_foreign(verdict, told)
    _count_ends(verdict, told, lives, late)
    _count_faults(verdict, told)
    _count_blocks(verdict, told["blocked"])
    _count_deaths(verdict, told["died"])
    _measure_recovery(verdict, lives, told["fault"])
    return verdict


def _count_blocks(verdict: Verdict, blocks: Sequence[Line]) -> None:
    """The event loop is everybody's: leases are renewed on it."""
    for line in blocks:
        verdict.longest_block_s = max(verdict.longest_block_s, line["seconds"])
        if line["seconds"] > LONGEST_BLOCK:
            verdict.blocked += 1
            where = " < ".join(reversed(line["where"])) or line["what"]
            verdict.findings.append(f"the event loop of {line['pid']} was blocked for {line['seconds']} s: {where}")


def _count_deaths(verdict: Verdict, deaths: Sequence[Line]) -> None:
    """P2. Whatever is away or refuses is waited for; nobody who works ends because of it."""
    for line in deaths:
        verdict.died += 1
        verdict.findings.append(f"P2 died: {line['who']} {line['how']}")


def _lives(work: Sequence[Line]) -> dict[str, list[Life]]:
    """Every run of every ticket, oldest first, from its first process' first word to its last process' last."""
    lives: dict[tuple[str, str, int], Life] = {}
    for line in work:
        key = (line["ticket"], line["run"], line["life"])
        life = lives.setdefault(key, Life(*key, began=line["at"], last=line["at"]))
        life.last = max(life.last, line["at"])
        if line["did"] == "end":
            life.code = line["code"]
    by_ticket: dict[str, list[Life]] = defaultdict(list)
    for life in sorted(lives.values(), key=lambda life: life.began):
        by_ticket[life.ticket].append(life)
    return by_ticket


def _count_overlaps(verdict: Verdict, lives: dict[str, list[Life]], work: Sequence[Line]) -> None:
    """P1. A run overlaps when an earlier one of its ticket speaks after it began, or when it finds its lock held."""
    found = {(line["ticket"], line["run"], line["life"]) for line in work if line["did"] == "overlap"}
    for ticket, runs in lives.items():
        latest = 0
        for life in runs:
            if life.began < latest:
                found.add((ticket, life.run, life.life))
            latest = max(latest, life.last)
    verdict.overlapping = len(found)
    for ticket, run, _ in sorted(found):
        verdict.findings.append(f"P1 overlap: run {run} of {ticket} began while another one was alive")


def _count_writes(verdict: Verdict, told: dict[str, list[Line]]) -> dict[str, list[Line]]:
    """P6. Answers, by ticket, the writes that were begun in time and landed after a newer fence."""
    raised: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for line in told["fence"]:
        raised[line["id"]].append((line["at"], line["fence"]))
    leased = {(line["id"], line["fence"]) for line in told["lease"]}
    late: dict[str, list[Line]] = defaultdict(list)
    for write in told["write"]:
        overtaken = _overtaken(write, raised[write["id"]], leased)
        if overtaken is None:
            continue
        if overtaken < write["begun"]:
            verdict.fenced_writes += 1
            behind = (write["begun"] - overtaken) / _SECOND
            verdict.findings.append(
                f"P6 fenced write: {write.get('what', 'a write')} to {write['ticket']} by {write['hand']} of run "
                f"{write.get('run')} under fence {write.get('fence')} was begun {behind:.3f} s after a newer fence"
            )
        elif overtaken < write["at"]:
            late[write["ticket"]].append(write)
    verdict.late_landings = sum(map(len, late.values()))
    return late


def _overtaken(write: Line, raised: list[tuple[int, int]], leased: set[tuple[str, int]]) -> int | None:
    """When a fence was raised that takes the right to this write away."""
    mine = write.get("fence")
    if mine is None:
        mine = max((fence for at, fence in raised if at <= write["since"]), default=0)
    for at, fence in raised:
        if fence > mine and (write["hand"] == "run" or (write["id"], fence) not in leased):
            return at
    return None


def _count_foreign(verdict: Verdict, told: dict[str, list[Line]]) -> None:
    """P3. No write of ours may change a label that is not ours, and what people set must stand at the end."""
    for write in told["write"]:
        changed = set(write["before"]) ^ set(write["after"])
        if strange := changed - LIFECYCLE:
            verdict.foreign += 1
            names = ", ".join(sorted(strange))
            verdict.findings.append(f"P3 foreign label: {write.get('what', 'a write')} to {write['ticket']}: {names}")
    wanted: dict[str, set[str]] = {line["ticket"]: set(line["labels"]) - LIFECYCLE for line in told["ticket"]}
    for line in told["person"]:
        wanted[line["ticket"]] |= set(line.get("add", ())) - LIFECYCLE
        wanted[line["ticket"]] -= set(line.get("remove", ()))
    for line in told["final"]:
        there = set(line["labels"]) - LIFECYCLE
        if there != wanted[line["ticket"]]:
            verdict.foreign += 1
            names = ", ".join(sorted(there ^ wanted[line["ticket"]]))
            verdict.findings.append(f"P3 foreign label: {line['ticket']} ended with other labels of people: {names}")


def _count_ends(
    verdict: Verdict, told: dict[str, list[Line]], lives: dict[str, list[Life]], late: dict[str, list[Line]]
) -> None:
    """P2, P4, P5. Every ticket must show how its work ended, that alone, and must not have run again after that."""
    final = {line["ticket"]: set(line["labels"]) & LIFECYCLE for line in told["final"]}
    for line in told["ticket"]:
        ticket, runs = line["ticket"], lives.get(line["ticket"], [])
        ends = {life.end for life in runs} - {None}
        shown = final.get(ticket, set())
        if not shown & ends:
            verdict.lost += 1
            said = ", ".join(sorted(map(str, ends))) or "nothing"
            verdict.findings.append(f"P2 lost: {ticket} shows {sorted(shown)}; its {len(runs)} runs called for {said}")
        if len(shown) > 1 or not shown & ends:
            landed = late.get(ticket, [])
            verdict.unrepaired += len(landed) or (len(shown) > 1)
            if landed or len(shown) > 1:
                verdict.findings.append(f"P5 unrepaired: {ticket} shows {sorted(shown)}; {len(landed)} landed late")
    _count_revived(verdict, told, lives, late)
    for line in told["withdrawn"]:
        verdict.withdrawn += 1
        verdict.findings.append(
            f"P2 withdrawn: run {line['run']} of {line['ticket']}, whose trigger was there all the time"
        )


def _count_revived(
    verdict: Verdict, told: dict[str, list[Line]], lives: dict[str, list[Life]], late: dict[str, list[Line]]
) -> None:
    """P4. A run that begins after its ticket had been shown as done or failed, and nobody asked for it."""
    ended: dict[str, int] = {}
    for write in told["write"]:
        in_time = not any(write is other for other in late.get(write["ticket"], ()))
        if in_time and set(write["after"]) & _FINAL and not set(write["before"]) & _FINAL:
            ended.setdefault(write["ticket"], write["at"])
    for ticket, at in ended.items():
        for life in lives.get(ticket, ()):
            if life.began > at:
                verdict.revived += 1
                verdict.findings.append(f"P4 revived: run {life.run} of {ticket} began after it had been ended")


def _count_faults(verdict: Verdict, told: dict[str, list[Line]]) -> None:
    names = {name for line in told["kinds"] for name in line["names"]}
    counts = Counter(line["kind"] for line in told["fault"])
    verdict.faults = {name: counts[name] for name in sorted(names | set(counts))}


def _measure_recovery(verdict: Verdict, lives: dict[str, list[Life]], faults: Sequence[Line]) -> None:
    """How long a ticket stood still whose run did not come to its end: from its last word to the next run's first."""
    gaps: list[float] = []
    by_fault: dict[str, list[float]] = defaultdict(list)
    starts = [fault["at"] for fault in faults]
    for runs in lives.values():
        for life, after in pairwise(runs):
            if life.code is None:
                gap = max(0, after.began - life.last) / _SECOND
                gaps.append(gap)
                by_fault[_blamed(life, faults, starts)].append(gap)
    verdict.interrupted = len(gaps)
    verdict.recovery_s = spread(gaps)
    verdict.recovery_by_fault = {kind: {"count": len(found), **spread(found)} for kind, found in by_fault.items()}


def _blamed(life: Life, faults: Sequence[Line], starts: Sequence[int]) -> str:
    """The last fault that hurt something of the run's kind before its last word; a guess where several overlap."""
    for fault in reversed(faults[: bisect_left(starts, life.last + _SECOND // 2)]):
        if fault.get("ends_runs") and fault["until"] >= life.began:
            return str(fault["kind"])
    return "another"


def spread(values: Sequence[float]) -> dict[str, float | None]:
    """Median, 99th percentile and maximum; None where there is nothing to measure."""
    ordered = sorted(values)
    if not ordered:
        return {"p50": None, "p99": None, "max": None}
    last = len(ordered) - 1
    return {
        "p50": round(ordered[round(last * 0.5)], 3),
        "p99": round(ordered[round(last * 0.99)], 3),
        "max": round(ordered[-1], 3),
    }


def read(folder: Path) -> Iterator[Line]:
    """The history that lies in a folder; a last line that was cut off by a kill is left out."""
    for file in sorted(folder.glob("*.jsonl")):
        with file.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    yield json.loads(line)


def main(folder: str) -> int:
    """Judge the history in a folder again: `python -m tests.chaos.checker FOLDER`."""
    verdict = check(read(Path(folder)))
    for finding in verdict.findings:
        print(finding, file=sys.stderr)
    print(json.dumps(verdict.to_json()))
    return 0 if verdict.ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
