"""`agentsmith status`: what is queued, running and waiting, who does it, and where to look at it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from agentsmith.cli import output, reach, session
from agentsmith.cli.status_view import view
from agentsmith.config import Config
from agentsmith.daemon.open import Opened, open_trackers
from agentsmith.domain.errors import ConfigError, StoreRefused
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.outcomes import OutcomeName
from agentsmith.domain.request import MalformedRequest, PipelineRequest
from agentsmith.domain.ticket import TicketId
from agentsmith.pipelines.record import read
from agentsmith.store import Presence, Store
from agentsmith.store.server.home import ServerHome
from agentsmith.tickets import explain

_REFRESH: Final = 1.0
_MOST: Final = 100
"""Requests on the queue that are read: there may be a hundred thousand more, and nobody reads those."""
_LEADERS: Final = ("poller", "housekeeping")


def status(file: Path | None, *, as_json: bool, watch: bool) -> None:
    """Show it once, or until interrupted."""
    if watch and as_json:
        raise ConfigError("--watch never ends and --json is one document; give one of them")
    config = session.begin(file)
    if watch:
        asyncio.run(_watch(config))
        return
    seen = asyncio.run(output.patiently(gather(config), "waiting for Redis"))
    if as_json:
        output.json_result(seen)
    else:
        for line in view(seen, fancy=output.fancy()):
            output.show(line)


async def _watch(config: Config) -> None:
    while True:
        seen = await gather(config)
        if output.fancy():
            output.console().clear()
        for line in view(seen, fancy=output.fancy()):
            output.show(line)
        await asyncio.sleep(_REFRESH)


async def gather(config: Config) -> dict[str, Any]:
    """Everything as data; None where it cannot be known, because an outage is not an empty list (P9)."""
    async with reach.store_if_up(config) as opened:
        seen: dict[str, Any] = {
            "redis": {
                "reachable": opened is not None,
                "version": opened.version if opened else None,
                "where": reach.shown_address(config) or f"our own, data in {config.data_dir}",
                "settling": await opened.store.presence.settling() if opened else None,
                "problem": await _problem(config, opened),
            },
            **(
                await _work(opened, config)
                if opened
                else dict.fromkeys(("queued", "queue", "running", "waiting", "asking"))
            ),
            **(await _staff(opened) if opened else dict.fromkeys(("leaders", "processes"))),
            **(
                await _left_over(opened)
                if opened
                else dict.fromkeys(("dead_letters", "unpublished", "signals", "refused"))
            ),
        }
    async with open_trackers(config) as trackers:
        seen["triggers"] = [{"label": trigger.label, "pipeline": trigger.pipeline} for trigger in config.triggers]
        seen["filters"] = [
            {"tracker": name, "status": status.value, "filter": tracker.filter_hint(status)}
            for name, tracker in trackers.items()
            for status in Status
        ]
    return seen


async def _problem(config: Config, opened: Opened | None) -> str | None:
    """What keeps Redis from working, or our own from starting, and what to do about it."""
    if opened is None:
        lack = ServerHome(config.data_dir).lack_of_room()
        return str(lack) if lack else None
    try:
        await opened.store.prove()
    except StoreRefused as refused:
        return str(refused)
    return None


async def _work(opened: Opened, config: Config) -> dict[str, Any]:
    store = opened.store
    running = [
        {
            "ticket": lease.ticket,
            "tracker": lease.tracker,
            "key": lease.key,
            "run": lease.run,
            "consumer": lease.consumer,
            "since": _iso(lease.since),
            "for_seconds": _age(lease.since),
            "alive": await store.runs.lease(lease.ticket) is not None,
            **_doing(config.data_dir, lease.run),
        }
        for lease in sorted(await store.runs.running(), key=lambda lease: lease.since)
    ]
    first = await store.queue.next_ones(_MOST)
    return {
        "queued": await store.queue.depth(),
        "queue": [_queued(position, payload) for position, payload in enumerate(first, start=1)],
        "running": running,
        "waiting": [{"ticket": ticket, "until": _iso(until)} for ticket, until in await store.intents.waiting()],
        "asking": [await _asking(store, ticket, since) for ticket, since in await store.questions.parked()],
    }


async def _asking(store: Store, ticket: TicketId, since: float) -> dict[str, Any]:
    """What the ticket's worker asked; where it asked nothing, why nobody works on it."""
    question = await store.questions.of(ticket)
    asked = question.text if question is not None and not question.answered else None
    # A ticket whose run parked it was claimed before, which explains nothing.
    looks = [look for look in await store.looks.of(ticket) if look.outcome != OutcomeName.CLAIMED] if not asked else []
    return {
        "ticket": ticket,
        "since": _iso(since),
        "for_seconds": _age(since),
        "question": asked or None,
        "why": explain.summary(looks[-1]) if looks else None,
    }


def _doing(data_dir: Path, run: str) -> dict[str, str | float | None]:
    """What a run is about and where it stands; a run on another machine has its record there."""
    record = read(data_dir, run)
    if record is None:
        return dict.fromkeys(("title", "pipeline", "step", "step_seconds"))
    begun = [(step.name, _age(step.started)) for step in record.steps if step.started is not None]
    step, seconds = begun[-1] if begun else (None, None)
    return {"title": record.title, "pipeline": record.pipeline, "step": step, "step_seconds": seconds}


def _queued(position: int, payload: str) -> dict[str, Any]:
    try:
        request = PipelineRequest.from_json(payload)
    except MalformedRequest as error:
        return {"position": position, "ticket": None, "problem": str(error)}
    return {
        "position": position,
        "ticket": request.ticket,
        "tracker": request.tracker,
        "key": request.key,
        "title": request.pinned.title,
        "pipeline": request.pipeline,
        "run": request.run,
        "since": _iso(request.enqueued_at),
        "for_seconds": _age(request.enqueued_at),
    }


async def _staff(opened: Opened) -> dict[str, Any]:
    presence = opened.store.presence
    processes = await presence.alive()
    return {
        "leaders": [await _leader(presence, role) for role in _LEADERS],
        "processes": [
            {
                "name": process.name,
                "host": process.host,
                "pid": process.pid,
                "roles": list(process.roles),
                "slots": process.slots,
                "version": process.version,
                "started": _iso(process.started),
                "problem": process.problem or None,
                "trouble": process.trouble or None,
            }
            for process in sorted(processes, key=lambda process: process.started)
        ],
    }


async def _leader(presence: Presence, role: str) -> dict[str, Any]:
    leader, cycle = await presence.leader(role), await presence.last_cycle(role)
    return {
        "role": role,
        "holder": leader.holder if leader else None,
        "since": _iso(leader.since) if leader else None,
        "for_seconds": _age(leader.since) if leader else None,
        "fence": leader.fence if leader else None,
        "last_cycle": _iso(cycle.at) if cycle else None,
        "last_cycle_seconds_ago": _age(cycle.at) if cycle else None,
        "last_cycle_did": cycle.what if cycle else None,
    }


async def _left_over(opened: Opened) -> dict[str, Any]:
    store = opened.store
    noted = [await store.intents.of(ticket) for ticket in await store.intents.to_look_at(now=float("inf"))]
    return {
        "dead_letters": await store.queue.count_dead_letters(),
        "unpublished": [
            {"ticket": intent.ticket, "to": intent.to.value if intent.to else None, "outcome": intent.outcome}
            for intent in noted
            if intent is not None and intent.decided
        ],
        "signals": await store.signals.count(),
        "refused": [explain.refusal_data(refusal) for refusal in await store.refusals.standing()],
    }


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _age(since: float) -> float:
    return round(max(0.0, time.time() - since), 3)
