"""The play: people open tickets while every kind of fault happens; then peace, until every ticket shows its end."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.arena import Arena
from tests.chaos.faults import Kind
from tests.chaos.people import People
from tests.chaos.scene import Scene, Truce

Tell = Callable[[str], None]

_LOOK_EVERY: Final = 0.05
_TELL_EVERY: Final = 2.0
_RELABEL_EVERY: Final = 1.0


@dataclass(frozen=True, slots=True)
class Terms:
    """How hard and how long."""

    tickets: int
    window: int
    """How many tickets are under way at once."""
    breath: float
    """Seconds between two faults of one track, on average."""
    once: bool
    """Whether one fault of each kind is enough; else they go on until the last ticket is opened."""
    limit: float = 120.0
    """Seconds after which no more tickets are opened."""
    patience: float = 90.0
    """Seconds that everything may take to come right after the last fault."""


@dataclass(slots=True)
class Played:
    """How it went, apart from what the checker finds."""

    seconds: float = 0.0
    opened: int = 0
    stragglers: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


class Play:
    """One run of chaos in an arena."""

    def __init__(self, arena: Arena, kinds: Sequence[Kind], terms: Terms, seed: int, tell: Tell) -> None:
        self._arena, self._kinds, self._terms, self._tell = arena, kinds, terms, tell
        self._seed = seed
        self._people = People(arena, seed, total=terms.tickets)
        lease = arena.config.lease
        self._truce = Truce(lease.renew_every + lease.margin)
        self._struck: Counter[str] = Counter()
        self._now: dict[str, str] = {}
        self._began = time.monotonic()
        self._over = asyncio.Event()
        """No more faults."""

    async def play(self) -> Played:
        """Play to the end, however long it takes to converge, but no longer than agreed."""
        arena = self._arena
        arena.history.note("kinds", names=sorted(kind.name for kind in self._kinds))
        tracks = sorted({kind.track for kind in self._kinds})
        async with asyncio.TaskGroup() as group:
            for track in tracks:
                group.create_task(self._torment([kind for kind in self._kinds if kind.track == track]))
            telling = group.create_task(self._keep_telling())
            await self._open_tickets()
            self._over.set()
            self._people.rest()
            await self._converge()
            telling.cancel()
        played = Played(time.monotonic() - self._began, self._people.opened, list(self._people.stragglers()))
        played.troubles = [*arena.failures, *await arena.stop()]
        for line in arena.withdrawn():
            arena.history.note("withdrawn", ticket=line["ticket"], run=line["run"])
        for tracker in arena.trackers.values():
            tracker.finish()
            unknown = tracker.simulator.unknown_requests
            played.troubles += [f"{tracker.name} does not know {r.method} {r.path}" for r in unknown[:5]]
            played.troubles += tracker.simulator.crashes[:2]
        return played

    async def _open_tickets(self) -> None:
        """Keep tickets under way until all are opened, all kinds of faults have happened, or the time is up."""
        people, terms, relabelled = self._people, self._terms, 0.0
        while time.monotonic() - self._began < terms.limit:
            # Some are kept for the faults that are still to come: what is not under way cannot be hurt.
            share = (len(self._struck) + 3) / len(self._kinds)
            while people.under_way < terms.window and people.opened < min(people.total, people.total * share):
                people.open_one()
            if people.opened >= people.total and len(self._struck) == len(self._kinds):
                return
            if time.monotonic() - relabelled > _RELABEL_EVERY:
                relabelled = time.monotonic()
                people.relabel()
            await self._pass_time()

    async def _converge(self) -> None:
        """Wait until every ticket shows its end, and for a while goes on doing so."""
        until = time.monotonic() + self._terms.patience
        quiet = self._arena.scaled(60)
        since: float | None = None
        while time.monotonic() < until:
            await self._pass_time()
            if self._now or self._people.under_way:
                since = None
            elif since is None:
                since = time.monotonic()
            elif time.monotonic() - since > quiet and not any(self._people.stragglers()):
                return

    async def _pass_time(self) -> None:
        self._people.look(linger=self._arena.scaled(250))
        await asyncio.sleep(max(_LOOK_EVERY, _LOOK_EVERY / 50 * len(self._people.open)))

    async def _torment(self, kinds: list[Kind]) -> None:
        """The faults of one track, one after another; those that have not happened yet come first."""
        # Chance of its own, so that the choices of a track do not depend on how quick the others are.
        chance = random.Random(f"{self._seed} {kinds[0].track}")
        scene = Scene(self._arena, self._people, self._truce, chance)
        while not self._over.is_set():
            waiting = [kind for kind in kinds if not self._struck[kind.name]]
            if self._terms.once and not waiting:
                return
            for kind in chance.sample(waiting or kinds, k=len(waiting or kinds)):
                if self._over.is_set():
                    return
                await self._suffer(kind, scene)
                await asyncio.sleep(self._terms.breath * chance.uniform(0.3, 1.7))

    async def _suffer(self, kind: Kind, scene: Scene) -> None:
        began = time.monotonic_ns()
        self._now[kind.track] = kind.name
        try:
            hit = await kind.play(scene)
        finally:
            del self._now[kind.track]
        if hit is not None:
            self._struck[kind.name] += 1
            self._arena.history.note(
                "fault", at=began, until=time.monotonic_ns(), kind=kind.name, hit=hit, ends_runs=kind.ends_runs
            )

    async def _keep_telling(self) -> None:
        while True:
            people, now = self._people, ", ".join(sorted(self._now.values())) or "peace"
            self._tell(
                f"{time.monotonic() - self._began:6.1f} s  {people.ended:>5} of {people.total} tickets ended, "
                f"{people.under_way:>3} under way, {sum(self._struck.values()):>4} faults, "
                f"{len(self._struck)} of {len(self._kinds)} kinds; now: {now}"
            )
            await asyncio.sleep(_TELL_EVERY)
