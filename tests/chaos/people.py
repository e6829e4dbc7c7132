"""The people: they open tickets, put labels on and off while these are worked on, and close what has ended."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tests.chaos.arena import Arena
from tests.chaos.trackers import Tracker

ENDS: Final = {"done": "done", "later": "done", "failed": "failed", "waiting": "waiting"}
"""What the label of a ticket shows in the end, by the plan of its work."""
_PLANS: Final = {"done": 80, "failed": 8, "later": 7, "waiting": 5}
_IN_HAND: Final = frozenset({"agent-smith:enqueued", "agent-smith:in-progress"})
_LONG: Final = 700.0
_LONG_ENOUGH: Final = 400.0
"""A silent run is declared dead after 210 s; a run that goes on meanwhile must be there to be found out."""


@dataclass(slots=True)
class Errand:
    """One ticket on its way."""

    tracker: Tracker
    key: str
    wanted: str
    opened: float
    ended: float | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def shows_its_end(self) -> bool:
        """Whether the label says how the work ended, and nothing else."""
        return self.tracker.status(self.key) == {self.wanted}


class People:
    """Everybody who uses the trackers."""

    def __init__(self, arena: Arena, seed: int, *, total: int) -> None:
        self._arena, self._seed, self.total = arena, seed, total
        self._chance = random.Random(f"{seed} people")
        self._trackers = list(arena.trackers.values())
        self.open: dict[str, Errand] = {}
        """What has not ended, or has ended so lately that it may still change."""
        self.opened = 0
        """May be more than `total`: a fault that finds nothing to hurt asks for a ticket of its own."""
        self.closed: list[Errand] = []
        self.resting = False
        """Whether no more work is wanted that lasts long."""
        self._works = _Tail(arena)

    @property
    def ended(self) -> int:
        """How many tickets show their end."""
        return len(self.closed) + sum(errand.ended is not None for errand in self.open.values())

    @property
    def under_way(self) -> int:
        """How many do not."""
        return self.opened - self.ended

    def open_one(self, tracker: Tracker | None = None, *, long: bool = False) -> str:
        """Open a ticket; how long its work takes and how it ends stands in its title. Answers its name."""
        chance = random.Random(f"{self._seed} ticket {self.opened}")
        tracker = tracker or self._trackers[self.opened % len(self._trackers)]
        plan = chance.choices(list(_PLANS), list(_PLANS.values()))[0]
        child = "left" if chance.random() < 0.25 else "kept"
        seconds = self._arena.scaled(_LONG) if long else _short(chance)
        ticket = tracker.open(f"chaos {self.opened} {seconds:.2f} {plan} {child}", plan)
        key = ticket.partition("/")[2]
        self.open[ticket] = Errand(tracker, key, f"agent-smith:{ENDS[plan]}", time.monotonic())
        self.opened += 1
        return ticket

    def look(self, *, linger: float) -> None:
        """See which tickets have ended, and close those that ended long enough ago for nothing to be on its way."""
        now = time.monotonic()
        for ticket, errand in list(self.open.items()):
            if not errand.shows_its_end:
                errand.ended = None
            elif errand.ended is None:
                errand.ended = now
            elif now - errand.ended > linger:
                errand.tracker.close(errand.key)
                self.closed.append(self.open.pop(ticket))

    def relabel(self) -> None:
        """Put some label of people's own on some ticket that is under way, or take one off."""
        under_way = [errand for errand in self.open.values() if errand.ended is None]
        if not under_way:
            return
        errand = self._chance.choice(under_way)
        if errand.notes and self._chance.random() < 0.5:
            errand.tracker.remove(errand.key, errand.notes.pop())
        else:
            errand.notes.append(f"note-{self._chance.randrange(1000)}-{len(errand.notes)}")
            errand.tracker.add(errand.key, errand.notes[-1])

    def in_hand(self) -> list[Errand]:
        """The tickets that are queued or running, as their labels say."""
        return [errand for errand in self.open.values() if errand.tracker.status(errand.key) & _IN_HAND]

    def remove_a_status(self, chance: random.Random) -> str | None:
        """Take the lifecycle label off a ticket that is in hand; answers which."""
        if not (in_hand := self.in_hand()):
            return None
        errand = chance.choice(in_hand)
        label = next(iter(errand.tracker.status(errand.key) & _IN_HAND))
        errand.tracker.remove(errand.key, label)
        return f"{label} of {errand.tracker.opened[errand.key]}"

    def long_work(self) -> list[dict[str, Any]]:
        """The first words of runs that will go on for longer than it takes to declare a silent run dead."""
        now, enough = time.monotonic_ns(), self._arena.scaled(_LONG_ENOUGH)
        return [line for line in self._works.running() if line["seconds"] - (now - line["at"]) / 1e9 > enough]

    def was_cut_off(self, ticket: str) -> bool:
        """Whether the ticket's long work has begun and is no longer long enough; as of the last look at all work."""
        return ticket in self._works.begun and all(line["ticket"] != ticket for line in self.long_work())

    def rest(self) -> None:
        """No more faults: nobody needs long work any more, so it may end."""
        self.resting = True
        (self._arena.folder / "rest").touch()

    def stragglers(self) -> Iterator[str]:
        """What does not show its end; what was closed comes last, because there may be much of it."""
        for errand in itertools.chain(self.open.values(), self.closed):
            if not errand.shows_its_end:
                shown = ", ".join(sorted(errand.tracker.status(errand.key))) or "nothing"
                yield f"{errand.tracker.opened[errand.key]} shows {shown} instead of {errand.wanted}"


def _short(chance: random.Random) -> float:
    return chance.uniform(0.02, 0.2) if chance.random() < 0.7 else chance.uniform(0.2, 1.0)


class _Tail:
    """Follows what the workers write, to know which run now."""

    def __init__(self, arena: Arena) -> None:
        self._folder = arena.folder / "history"
        self._read: dict[str, int] = {}
        self._running: dict[tuple[str, int], dict[str, Any]] = {}
        self.begun: set[str] = set()
        """Every ticket whose work was seen to begin."""

    def running(self) -> list[dict[str, Any]]:
        for file in self._folder.glob("work-*.jsonl"):
            with file.open("rb") as lines:
                lines.seek(self._read.get(file.name, 0))
                whole, newline, _ = lines.read().rpartition(b"\n")
            self._read[file.name] = self._read.get(file.name, 0) + len(whole) + len(newline)
            for line in (json.loads(text) for text in whole.splitlines() if b'"did": "beat"' not in text):
                run = (line["run"], line["life"])
                if line["did"] == "start":
                    self._running[run] = line
                    self.begun.add(line["ticket"])
                elif line["did"] == "end":
                    self._running.pop(run, None)
        now = time.monotonic_ns()
        # Whoever was killed says no last word.
        left = {run: line["seconds"] * 1e9 - (now - line["at"]) for run, line in self._running.items()}
        self._running = {run: line for run, line in self._running.items() if left[run] > -1e9}
        return list(self._running.values())
