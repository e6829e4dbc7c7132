"""Whole lives of tickets, by a real daemon: on the built-in tracker, and by webhook on a platform's simulator."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from agentsmith import privacy
from agentsmith.bench.figures import Reading, quantile
from agentsmith.bench.ground import SLOTS, TIMES, TRIGGER, BenchTrouble, Daemon, Ground, daemon, rate, working
from agentsmith.demo.venue import LOCAL, PROJECT, Engine, LocalVenue, Seen, Venue
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.signal import Signal
from agentsmith.domain.ticket import TicketId, slug
from agentsmith.store import Store
from agentsmith.trackers.local.settings import DEFAULT_FILE
from agentsmith.trackers.local.tickets import LocalTickets

_SIMULATED: Final = "github"
_REQUESTS: Final = 12
"""Requests that a whole life takes on a platform, the look-up of who labelled included."""
_STARTED: Final = "started"
_WORK: Final = f'touch "$HOME/{_STARTED}"'
_DONE_WITHIN: Final = 120.0
_LOOK_EVERY: Final = 0.01


async def measure(ground: Ground) -> list[Reading]:
    """The rows of this module."""
    return [*await _on_local(ground), *await _on_a_platform(ground)]


async def _on_local(ground: Ground) -> list[Reading]:
    room, tickets = ground.room(LOCAL), ground.times(100)
    config = working(ground, room, LOCAL, {"platform": LOCAL, "project": PROJECT}, _WORK)
    async with (
        daemon(room, config) as up,
        LocalTickets(path=room / "data" / DEFAULT_FILE, project=PROJECT, name=LOCAL) as local,
        Store(ground.url, times=TIMES, namespace=room.name) as store,
    ):
        venue = LocalVenue(local)

        async def announce(key: str) -> None:
            ticket = TicketId(f"local/{PROJECT}#{key}")
            await store.signals.send([Signal(LOCAL, key, ticket, cause="labelled")])

        venue.connect(Engine("", announce))
        raw = await rate(tickets, SLOTS, _spawn)
        return await _lives(ground, Place(room, venue, LOCAL, up), tickets=tickets, raw=raw)


async def _on_a_platform(ground: Ground) -> list[Reading]:
    # Imported late: whoever asks for other rows need not wait for a web server.
    from agentsmith.demo.simulated import SimulatedVenue
    from agentsmith.simulators import serve
    from agentsmith.simulators.playgrounds import PLAYGROUNDS

    room, tickets, stage = ground.room(_SIMULATED), ground.times(100), PLAYGROUNDS[_SIMULATED]()
    try:
        async with serve(stage.simulator):
            venue, raw = SimulatedVenue(stage), 0.0
            key = stage.tickets.open("To be read")
            async with httpx.AsyncClient(headers={"authorization": f"Bearer {stage.token}"}) as client:

                async def bare() -> None:
                    for _ in range(_REQUESTS):
                        url = f"{stage.simulator.api_url}/repos/{stage.project}/issues/{key}"
                        (await client.get(url)).raise_for_status()
                    await _spawn()

                raw = await rate(tickets, SLOTS, bare)
            async with daemon(room, working(ground, room, _SIMULATED, stage.tracker(), _WORK)) as up:
                venue.connect(Engine(f"http://127.0.0.1:{up.port}/webhooks/{_SIMULATED}", _nothing))
                stage.simulator.forget_requests()
                readings = await _lives(ground, Place(room, venue, _SIMULATED, up), tickets=tickets, raw=raw)
                asked = len(stage.simulator.requests) / (tickets + _alone(ground))
            return [*readings, Reading(f"life on {_SIMULATED}: requests per ticket", "", asked)]
    finally:
        stage.simulator.git.remove()


@dataclass(frozen=True, slots=True)
class Place:
    """Where tickets live: people's side of them, and who works on them."""

    room: Path
    venue: Venue
    tracker: str
    up: Daemon

    def started(self, key: str) -> float | None:
        """When the ticket's first step began, by the clock of the file system."""
        home = self.room / "data" / "workspaces" / slug(key, self.tracker) / "home"
        try:
            return (home / _STARTED).stat().st_mtime
        except FileNotFoundError:
            return None

    async def done(self, keys: Collection[str]) -> None:
        """Return when all of these tickets are done."""
        give_up = time.monotonic() + _DONE_WITHIN
        while left := [t.key for t in await self.venue.tickets() if t.key in keys and not _is_done(t)]:
            if time.monotonic() > give_up:
                raise BenchTrouble(f"not done within {_DONE_WITHIN:.0f} s: tickets {', '.join(left[:5])}")
            await asyncio.sleep(_LOOK_EVERY)


def _is_done(ticket: Seen) -> bool:
    return LabelSet().statuses(ticket.labels) == {Status.DONE}


async def _lives(ground: Ground, place: Place, *, tickets: int, raw: float) -> list[Reading]:
    """All at once for the rate, and then one after the other for how soon work begins."""
    where = f"life on {place.tracker}"
    keys = [(await place.venue.open(f"Ticket {number}", ())).key for number in range(tickets)]
    used, asked = place.up.processor_seconds(), await _asked(ground)
    started = time.perf_counter()
    for key in keys:
        await place.venue.label(key, TRIGGER)
    await place.done(keys)
    done = tickets / (time.perf_counter() - started)
    readings = [
        Reading(f"{where}, {SLOTS} slots", "/s", done, raw),
        *(
            Reading(f"{where}: Redis {what} per ticket", "", (count - asked[what]) / tickets)
            for what, count in (await _asked(ground)).items()
        ),
    ]
    if used is not None and (now := place.up.processor_seconds()) is not None:
        readings.append(Reading(f"{where}: processor time per ticket", "ms", (now - used) * 1000 / tickets))
    begun = [await _begins(place) for _ in range(_alone(ground))]
    readings.append(Reading(f"{where}: label to first step, p50", "ms", quantile(begun, 0.5)))
    readings.append(Reading(f"{where}: label to first step, p99", "ms", quantile(begun, 0.99)))
    return readings


async def _begins(place: Place) -> float:
    key = (await place.venue.open("One at a time", ())).key
    labelled = time.time()
    await place.venue.label(key, TRIGGER)
    await place.done([key])
    started = place.started(key)
    if started is None:
        raise BenchTrouble(f"ticket {key} is done, and its step was never carried out")
    return max(0.0, started - labelled) * 1000


def _alone(ground: Ground) -> int:
    return ground.times(30)


async def _asked(ground: Ground) -> dict[str, int]:
    """What the server was asked so far: scripts, and all commands, those inside of scripts included."""
    each = await ground.store.redis.info("commandstats")
    total = await ground.store.redis.info("stats")
    scripts = each.get("cmdstat_evalsha", {}).get("calls", 0)
    return {"scripts": int(scripts), "commands": int(total["total_commands_processed"])}


async def _spawn() -> None:
    """What the step is for the system: a shell that does next to nothing."""
    process = await asyncio.create_subprocess_exec("sh", "-c", "true", env=privacy.bare())
    await process.wait()


async def _nothing(_: str) -> None:
    """The platform tells by itself."""
