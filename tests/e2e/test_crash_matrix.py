"""P1, P2, P5 and P6 with real processes: kill -9 and SIGSTOP between every two steps of a ticket's way.

A first daemon, the victim, carries a ticket along and is struck down in one gap; a second, healthy one finishes the
job on the same Redis and the same tickets. A dry run finds out which steps there are, so every gap is tried, and a new
step in the product is tried without a word here. A victim that was stopped stays so until every lease and lock of it
has lapsed and the other is done; then it goes on, and must not write any more.

By default an evenly spread eighth of the gaps from claim to settle gets its kill -9 and half as many their SIGSTOP, on
the way of a recovery, by a leader that dies too, half of either; every beginning and end is among them. `make crashes`
leaves none out.

What each case checks: `_Case.check`. Many cases run at once, each in a namespace of its own.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pytest
import redis

from agentsmith.boottime import boottime
from agentsmith.store import Store
from tests.e2e.daemons import DaemonProcess, Daemons
from tests.e2e.faulty_daemon import RUNNING, Plan
from tests.e2e.place import DONE, WITHIN, Place
from tests.support.declared_keys import FAMILIES, complaints
from tests.support.redis_server import RedisServer, Tenant
from tests.support.wait import slowly, wait_until

AT_ONCE: Final = int(os.environ.get("AGENTSMITH_CRASH_AT_ONCE", "4"))
TRIES: Final = 4
"""On a machine that stands still for a while, a deadline passes and a victim takes another way than the one meant."""
FULL: Final = bool(os.environ.get("AGENTSMITH_CRASH_FULL"))
_BOUNDARIES: Final = {"queue.push", "runs.acquire", RUNNING, "guard.run", "guard.close", "runs.settle", "tracker.move"}
_EMPTIED: Final = [family for family in FAMILIES if family.permanent and family.name not in ("epoch", "consumers")]
"""What lives for ever, and is gone all the same once every ticket has come to its end."""


@dataclass(frozen=True, slots=True)
class Gap:
    """After step `number` of a way; the name is the step's."""

    way: str
    number: int
    name: str
    meanwhile: int = -1
    drain: bool = False

    def __str__(self) -> str:
        more = " while draining" if self.drain else " while it is being run" if self.meanwhile >= 0 else ""
        return f"{self.way} {self.number:02} after {self.name}{more}"


@dataclass(slots=True)
class Way:
    """The steps that a dry run went through, in order."""

    gaps: list[Gap]

    def number(self, name: str) -> int:
        """Where a step comes first."""
        return next(gap.number for gap in self.gaps if gap.name == name)


class CrashRunner:
    """Carries cases out, several at a time."""

    def __init__(self, folder: Path, server: RedisServer, admin: redis.Redis, daemons: Daemons) -> None:
        self.folder, self.server, self.admin, self.daemons = folder, server, admin, daemons
        self._count = 0

    def place(self) -> Place:
        """A new one, in a namespace that nobody else may touch."""
        self._count += 1
        namespace = f"c{self._count}"
        return Place(self.folder / namespace, Tenant(self.server, namespace).url, namespace)

    async def dry_run(self, way: str, *, drain: bool = False) -> Way:
        """Every step of a way when nothing goes wrong, nor is too late."""
        for _ in range(TRIES):
            found, in_time = await self._dry_run(way, drain=drain)
            if in_time:
                return found
        raise AssertionError(f"a {way} missed a deadline in each of {TRIES} dry runs")

    async def _dry_run(self, way: str, *, drain: bool) -> tuple[Way, bool]:
        place = self.place()
        async with place.store() as store:
            victim = await self.victim(place, way, Plan(str(place.folder), drain=drain), store)
            if drain:
                assert await victim.ended() == 0
            elif way == "recover":
                await wait_until(slowly(lambda: "agent-smith:in-progress" not in place.labels()), what="a recovery")
                await wait_until(lambda: announced(store), what="the ticket to be announced again")
            else:
                await self.done(place)
                await self.idle(place)
        victim.send(signal.SIGKILL)
        found = [Gap(on, number, name, drain=drain) for on, number, name in self.steps(place, victim) if on == way]
        return Way(found), not any("deadline" in str(line.get("error")) for line in victim.lines())

    def steps(self, place: Place, victim: DaemonProcess) -> list[tuple[str, int, str]]:
        """What the victim has done so far: ways, numbers and names."""
        lines = (place.folder / f"steps-{victim.pid}").read_text().splitlines()
        return [(way, int(number), name) for way, number, name in (line.split(maxsplit=2) for line in lines)]

    async def victim(self, place: Place, way: str, plan: Plan, store: Store, *, hold: bool = False) -> DaemonProcess:
        """A daemon that carries a new ticket along, or, to recover it, one that finds it with its run dead."""
        await place.open_tickets()
        if hold or plan.drain or way == "recover":
            place.hold()
        local = {"local": {"platform": "local", "poll_interval": "1h"}}  # it looks for tickets once
        config = place.config("victim", trackers=local, consumer={"drain_timeout": 0} if plan.drain else {})
        if way != "recover":
            return await self.daemons.start(config, "poller", "consumer", plan=plan)
        renewing = Plan(str(place.folder), "renew", 1)
        assert await (await self.daemons.start(config, "poller", "consumer", plan=renewing)).ended() == -signal.SIGKILL
        await wait_until(lambda: released(store), what="the guard to give the lease back", within=WITHIN)
        return await self.daemons.start(config, "housekeeping", plan=plan)

    def left(self, place: Place) -> list[str]:
        """What is queued, taken, running, suspected, intended or signalled."""
        keys = (str(key).partition(":")[2] for key in self.admin.scan_iter(f"{place.namespace}:*", count=1000))
        return [key for key in keys if any(family.matches(key) for family in _EMPTIED)]

    async def idle(self, place: Place) -> None:
        """Return once nothing is in anybody's hands."""
        try:
            await wait_until(slowly(lambda: not self.left(place)), what="", within=WITHIN)
        except AssertionError:
            raise AssertionError(f"not put away: {self.left(place)}") from None

    async def done(self, place: Place) -> None:
        """Return once the label says done; otherwise tell in whose hands it is."""
        try:
            await place.done()
        except AssertionError as error:
            raise AssertionError(f"{error}; left: {self.left(place)}") from None

    async def try_all(self, deed: str, run: Way, gaps: Iterable[Gap]) -> None:
        """Strike in every gap; says in which of them something was wrong."""
        room = asyncio.Semaphore(AT_ONCE)

        async def one(gap: Gap) -> str:
            async with room:
                for left in reversed(range(TRIES)):
                    case = _Case(self, gap, deed, run, self.place())
                    try:
                        await case.carry_out()
                    except AssertionError as error:
                        if isinstance(error, Strayed) and left:
                            continue
                        return f"{deed} in {gap} [{case.place.folder}]: {error}{case.told()}"
                    break
                return ""

        wrong = [told for told in await asyncio.gather(*map(one, chosen(deed, gaps))) if told]
        assert not wrong, "\n".join(["", *wrong])
        await wait_until(slowly(lambda: not self.daemons.left_behind()), what="every guard to be gone", within=WITHIN)


class Strayed(AssertionError):
    """The victim was not struck where it should have been, so nothing was shown."""


@dataclass(slots=True)
class _Case:
    bench: CrashRunner
    gap: Gap
    deed: str
    run: Way
    place: Place
    daemons: list[DaemonProcess] = field(default_factory=list)

    def told(self) -> str:
        """What the daemons said last, to understand what went wrong."""
        return "".join(
            f"\n  {word} {line}"
            for word, daemon in zip(("victim", "healthy"), self.daemons, strict=False)
            for line in daemon.log_file.read_text().splitlines()[-15:]
        )

    async def carry_out(self) -> None:
        place, gap = self.place, self.gap
        async with place.store() as store:
            plan = Plan(str(place.folder), gap.way, gap.number, self.deed, meanwhile=gap.meanwhile, drain=gap.drain)
            hold = gap.name == RUNNING or gap.way == "renew"
            victim = await self.bench.victim(place, gap.way, plan, store, hold=hold)
            self.daemons.append(victim)
            steps = await self.strike(victim)
            struck = boottime()
            healthy = await self.bench.daemons.start(place.config("healthy"), plan=Plan(str(place.folder)))
            self.daemons.append(healthy)
            await self.converged()
            if self.deed == "SIGSTOP":
                await self.goes_on(victim, store, struck)
            self.check(healthy, steps)
            assert await store.runs.attempts(place.ticket_id()) is None, "a finished ticket starts from nothing"
            await healthy.said("up")  # there may have been nothing left to do
            healthy.send(signal.SIGTERM)
            assert await healthy.ended() == 0
        dump = Tenant(self.bench.server, place.namespace).dump()
        mine = {key: found for key, found in dump.items() if key.startswith(f"{place.namespace}:")}
        assert not complaints(mine, (place.namespace,))

    async def strike(self, victim: DaemonProcess) -> list[tuple[str, int, str]]:
        """The victim's steps, once it was struck after the one that is meant; Strayed if it never came there."""
        gap = self.gap
        try:
            if self.deed == "SIGKILL":
                assert await victim.ended() == -signal.SIGKILL
            else:
                await victim.stopped()
        except AssertionError as error:
            victim.send(signal.SIGKILL)
            raise Strayed(f"it was never struck: {error}") from None
        steps = self.bench.steps(self.place, victim)
        if (gap.way, gap.number, gap.name) not in steps:
            victim.send(signal.SIGKILL)
            raise Strayed(f"it is another step than in the dry run: {steps}")
        return steps

    async def converged(self) -> None:
        """The label says done, and nothing is left in anybody's hands."""
        await self.bench.done(self.place)
        await self.bench.idle(self.place)
        nobody = slowly(self.place.nobody_works)
        await wait_until(nobody, what="every process of every run to be gone", within=WITHIN)

    async def goes_on(self, victim: DaemonProcess, store: Store, struck: float) -> None:
        """The one that was stopped wakes up, long after its time."""
        place, times = self.place, store.times
        lapsed = struck + max(times.ttl, times.lock, times.leader)
        await wait_until(lambda: boottime() > lapsed, what="every lease to lapse")
        before, begun = place.events(), place.begun()
        victim.send(signal.SIGCONT)
        if not self.gap.drain:
            name = (await victim.said("up"))["process"]
            await wait_until(lambda: present(store, name), what="it to say that it lives", within=WITHIN)
            victim.send(signal.SIGTERM)
        assert await victim.ended() == 0
        await self.bench.idle(place)  # nor did anybody write on its behalf what it should not have decided
        assert place.events() == before, "it wrote after it had lost everything (P6)"
        assert place.begun() == begun, "it ran something after it had lost everything (P1)"

    def check(self, healthy: DaemonProcess, steps: list[tuple[str, int, str]]) -> None:
        place = self.place
        reached = max((number for way, number, _ in steps if way == "run"), default=-1)
        assert place.count("overlap") == 0, "two runs of one ticket were alive at once (P1)"
        assert len(place.comments()) == 1
        assert "done" in place.comments()[0]
        # On a machine that stands still for longer than a lease lives, a run is lost and begun again; that is right.
        lost = len(healthy.lines("the lease is lost, stopping the run"))
        attempts = [begun.attempt for begun in place.begun()]
        if not lost:
            # What another way of the victim had in hand when it was struck is done or not; its own steps are known.
            possible = (reached,) if self.gap.way == "run" else (reached, reached + 1)
            expected = [self.expected_attempts(number) for number in possible]
            if self.gap.way == "recover":
                expected.append([2])  # the first was killed before its work had said a word
            assert attempts in expected
        assert place.labels() == DONE

    def expected_attempts(self, reached: int) -> list[int]:
        """Which attempts begin: what was counted and did not settle is not counted again."""
        run = self.run
        if self.gap.way == "recover":
            return [1, 2]
        if reached < run.number("runs.start"):
            return [1]
        if reached < run.number(RUNNING):
            return [2]
        if reached < run.number("runs.settle"):
            return [1, 2]
        return [1, 1] if self.gap.drain else [1]


def chosen(deed: str, gaps: Iterable[Gap]) -> list[Gap]:
    """An even part, and every beginning and end; AGENTSMITH_CRASH_FULL=1 tries all."""
    usual = 8 if deed == "SIGKILL" else 16
    every = {"recover": 2 * usual}
    return [gap for gap in gaps if FULL or gap.number % every.get(gap.way, usual) == 0 or gap.name in _BOUNDARIES]


async def present(store: Store, name: str) -> bool:
    return any(process.name == name for process in await store.presence.alive())


async def announced(store: Store) -> bool:
    return await store.signals.count() > 0


async def released(store: Store) -> bool:
    return bool(await store.runs.released())


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[CrashRunner]:
    with RedisServer() as server, server.admin() as admin:
        async with Daemons(tmp_path) as daemons:
            yield CrashRunner(tmp_path, server, admin, daemons)


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("deed", ["SIGKILL", "SIGSTOP"])
async def test_between_every_two_steps_of_a_claim(bench: CrashRunner, deed: str) -> None:
    claim, run = await bench.dry_run("claim"), await bench.dry_run("run")
    # Once the request is on the queue its run may begin, up to the lock that the claim still holds.
    together = claim.gaps[claim.number("queue.push") : claim.number("leases.release")]
    overlapping = [replace(gap, meanwhile=run.number("runs.start")) for gap in together]
    await bench.try_all(deed, run, [*claim.gaps, *overlapping])


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("deed", ["SIGKILL", "SIGSTOP"])
async def test_between_every_two_steps_from_take_to_settle(bench: CrashRunner, deed: str) -> None:
    run = await bench.dry_run("run")
    await bench.try_all(deed, run, [*run.gaps, Gap("renew", 0, "begin"), Gap("renew", 1, "runs.renew")])


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("deed", ["SIGKILL", "SIGSTOP"])
async def test_between_every_two_steps_of_giving_back(bench: CrashRunner, deed: str) -> None:
    run = await bench.dry_run("run", drain=True)
    await bench.try_all(deed, run, [gap for gap in run.gaps if gap.number > run.number(RUNNING)])


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("deed", ["SIGKILL", "SIGSTOP"])
async def test_between_every_two_steps_of_a_recovery(bench: CrashRunner, deed: str) -> None:
    run, recover = await bench.dry_run("run"), await bench.dry_run("recover")
    await bench.try_all(deed, run, recover.gaps)
