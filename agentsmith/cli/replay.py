"""`agentsmith replay`: the latest webhook deliveries, and one of them fed in again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agentsmith.cli import output, reach, session
from agentsmith.config import Config
from agentsmith.daemon.open import Opened, open_trackers, webhook_readers
from agentsmith.domain.errors import ConfigError, StoreUnavailable
from agentsmith.domain.webhook import BadPayload, TicketEvent
from agentsmith.intake.deliveries import Kept, signal_of
from agentsmith.tickets.explain import when


def replay(file: Path | None, delivery: str | None, *, tracker: str | None, as_json: bool) -> None:
    """Show what was delivered lately, or feed one delivery in again."""
    config = session.begin(file)
    if tracker is not None and tracker not in config.trackers:
        raise ConfigError(f"there is no tracker {tracker!r}; there are: {', '.join(config.trackers)}")
    names = [tracker] if tracker is not None else list(config.trackers)
    if delivery is None:
        _list(asyncio.run(_kept(config, names)), as_json=as_json)
        return
    answer = asyncio.run(_again(config, names, delivery))
    if as_json:
        output.json_result(answer)
    else:
        output.say(f"{answer['ticket']}: {answer['answer']}; see what came of it: agentsmith why {answer['ticket']}")


async def _kept(config: Config, names: list[str]) -> list[tuple[str, Kept]]:
    async with reach.store_if_up(config) as opened:
        return await _deliveries(_reached(opened), names)


async def _deliveries(opened: Opened, names: list[str]) -> list[tuple[str, Kept]]:
    found = [(name, Kept.from_json(text)) for name in names for text in await opened.store.signals.kept(name)]
    return sorted(found, key=lambda pair: pair[1].at)


def _list(found: list[tuple[str, Kept]], *, as_json: bool) -> None:
    if as_json:
        shown = [
            {"id": kept.id, "at": when(kept.at), "tracker": name, "event": kept.event, "key": kept.key}
            for name, kept in found
        ]
        output.json_result(shown)
    elif not found:
        output.say("no webhook was taken within the last three days")
    else:
        rows = [(kept.id, when(kept.at), name, kept.event, kept.key) for name, kept in found]
        output.rows(("Delivery", "When", "Tracker", "Event", "Ticket"), rows)


async def _again(config: Config, names: list[str], delivery: str) -> dict[str, Any]:
    async with reach.store_if_up(config) as opened:
        store = _reached(opened).store
        matches = [(name, kept) for name, kept in await _deliveries(_reached(opened), names) if kept.id == delivery]
        if not matches:
            raise ConfigError(f"there is no delivery {delivery[:80]!r}; list them: agentsmith replay")
        name, kept = matches[-1]
        if not kept.body:
            raise ConfigError("its body was too large to be kept; have the platform send it again")
        reader = webhook_readers(config)[name]
        if reader is None:
            raise ConfigError(f"tracker {name!r} takes no webhooks any more; set its webhook_secret")
        try:
            event = reader.understand(kept.incoming)
        except BadPayload as error:
            raise ConfigError(f"the delivery cannot be read: {error}") from None
        if not isinstance(event, TicketEvent):
            return {"delivery": delivery, "ticket": kept.key, "answer": f"ignored: {event.reason}"}
        async with open_trackers(config) as trackers:
            signal = signal_of(event, trackers[name])
        # Without a name it is not known as seen: what was asked for by hand is done again.
        answer = await store.signals.hand_over(signal, delivery="")
        return {"delivery": delivery, "ticket": signal.ticket, "answer": answer}


def _reached(opened: Opened | None) -> Opened:
    if opened is None:
        raise StoreUnavailable("Redis is not running, so no delivery is known; start agentsmith: agentsmith up")
    return opened
