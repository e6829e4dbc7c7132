"""`agentsmith why`: every gate between a ticket and its run, what was seen there, when, and what to do about it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.text import Text

from agentsmith.cli import finding, output, reach, session
from agentsmith.config import Config
from agentsmith.domain.gates import Gate
from agentsmith.domain.ticket import TicketId
from agentsmith.opening import open_trackers
from agentsmith.store import Store
from agentsmith.store.reasons import Look


@dataclass(frozen=True, slots=True)
class Known:
    """What Redis knows about a ticket right now; it never guesses what it does not."""

    where: str
    looks: list[Look]
    unpublished: str | None
    stop: str | None


def why(text: str, file: Path | None, *, as_json: bool) -> None:
    """Show why the ticket does or does not run."""
    config = session.begin(file)
    ticket, known = asyncio.run(_ask(config, text))
    if as_json:
        output.json_result(_as_data(ticket, known))
    else:
        _show(ticket, known, config)


async def _ask(config: Config, text: str) -> tuple[TicketId, Known | None]:
    async with open_trackers(config) as trackers:
        tracker, key = finding.find(text, trackers)
        ticket = tracker.ticket_id(key)
    async with reach.store_if_up(config) as opened:
        return ticket, await _known(opened.store, ticket) if opened else None


async def _known(store: Store, ticket: TicketId) -> Known:
    lease, position = await store.runs.lease(ticket), await store.queue.position(ticket)
    due = dict(await store.intents.waiting()).get(ticket)
    intent = await store.intents.of(ticket)
    if lease is not None:
        where = f"running: run {lease.run} on {lease.consumer}, for {output.ago(time.time() - lease.since)}"
    elif position is not None:
        where = f"queued: {position} before it"
    elif await store.queue.holds(ticket):
        where = "taken by a consumer, about to start"
    elif due is not None:
        where = f"waiting until {_when(due)}"
    else:
        where = "not in hand"
    decided = f"{intent.outcome}: the tracker has not taken it yet" if intent and intent.decided else None
    return Known(where, await store.reasons.of(ticket), decided, await store.runs.stop_requested(ticket))


def _as_data(ticket: TicketId, known: Known | None) -> dict[str, Any]:
    if known is None:
        return {"ticket": ticket, "reachable": False, "now": None, "looks": None}
    return {
        "ticket": ticket,
        "reachable": True,
        "now": known.where,
        "unpublished": known.unpublished,
        "stop_requested": known.stop,
        "looks": [
            {
                "first": _when(look.first),
                "last": _when(look.last),
                "cause": look.cause,
                "outcome": look.outcome,
                "why": look.why,
                "gates": [
                    {"gate": g.gate.value, "passed": g.passed, "saw": g.saw, "remedy": g.remedy} for g in look.gates
                ],
            }
            for look in known.looks
        ],
    }


def _show(ticket: TicketId, known: Known | None, config: Config) -> None:
    output.say(ticket)
    if known is None:
        output.say("Redis is not running, so nothing is known; start agentsmith: agentsmith up")
        return
    output.say(f"now      {known.where}")
    for name, text in (("decided", known.unpublished), ("stop", known.stop)):
        if text:
            output.say(f"{name:8} {output.clean(text)}")
    if not known.looks:
        every = ", ".join(f"{name} {settings.rhythm}" for name, settings in config.trackers.items())
        output.say("It was not looked at within the last 30 days, so what the gates would say is unknown.")
        output.say(f"It is looked at when its trigger label is found: {every}. Is a daemon up? agentsmith status")
        return
    *earlier, latest = known.looks
    _show_look(latest)
    for look in reversed(earlier):
        output.say(f"before, {_span(look)}: {_summary(look)}")


def _show_look(look: Look) -> None:
    output.title(f"Looked at {_span(look)}, because of: {output.clean(look.cause) or 'unknown'}")
    results = {result.gate: result for result in look.gates}
    body: list[list[str | Text]] = []
    for gate in Gate:
        result = results.get(gate)
        if result is None:
            body.append([Text("-", style="dim"), gate.value, "not looked at", ""])
        else:
            mark = Text("ok", style="green") if result.passed else Text("no", style="red")
            body.append([mark, gate.value, result.saw, result.remedy])
    if look.gates:
        output.rows(("", "Gate", "What was seen", "What to do"), body)
    output.say(f"so: {_summary(look)}")


def _summary(look: Look) -> str:
    words = {
        "Claimed": "it was claimed",
        "Rejected": "it was not claimed",
        "Deferred": "it is tried again later",
        "AlreadyClaimed": "nothing was to do",
    }
    shut = next((result.saw for result in look.gates if not result.passed), "")
    return ": ".join(part for part in (words.get(look.outcome, look.outcome), output.clean(look.why or shut)) if part)


def _span(look: Look) -> str:
    return _when(look.last) if look.first == look.last else f"{_when(look.first)} to {_when(look.last)}"


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
