"""The signals inbox: hints to look at a ticket, taken and acknowledged like requests.

A signal for a ticket that already waits in the inbox is merged. Once taken it no longer absorbs others, because
whatever they announce may be newer than what the taker reads. Those that are put off are merged too: the next look sees
what all of them announced.

What waits is marked in an index, by the name of its entry. Whatever takes an entry out of a list takes its mark along
in the same step, so no mark can outlive its entry and swallow what comes later; `heal` removes one that did so anyway.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from agentsmith.domain.signal import Signal, SignalKind
from agentsmith.domain.ticket import TicketId
from agentsmith.store.entries import name_in, new_name
from agentsmith.store.keys import DELIVERY_MS, REJECTED_MS, Keys
from agentsmith.store.leases import Lease
from agentsmith.store.redis_commands import Commands
from agentsmith.store.scripts import signals as scripts

_HOLDABLE: Final = (SignalKind.LOOK, SignalKind.RETRY)
"""What may be held back for want of room; a command is obeyed or not."""


class Signals:
    """Hints, from send to acknowledge."""

    def __init__(self, redis: Commands, keys: Keys, *, settle_ms: int) -> None:
        self._redis, self._keys, self._settle_ms = redis, keys, settle_ms

    async def send(self, signals: Iterable[Signal], *, leading: Lease | None = None) -> int | None:
        """Put signals into the inbox; answers how many were not merged into waiting ones.

        With `leading` that lease must still stand, in the same step: None says that it does not, and nothing was sent.
        """
        flat = [part for signal in signals for part in (signal.topic, signal.to_json(), str(int(signal.labelled)))]
        if not flat:
            return 0
        sent = await scripts.Send(
            inbox=self._keys.inbox,
            index=self._keys.inbox_index,
            leading=[leading.key] if leading else [],
            term=leading.token if leading else "",
            name=new_name(),
            signals=flat,
        ).on(self._redis)
        return sent if sent >= 0 else None

    async def hand_over(
        self, signal: Signal, *, delivery: str, keep: str = ""
    ) -> Literal["accepted", "merged", "seen"]:
        """Take a webhook's signal in, once per delivery.

        The delivery counts as seen only if the signal stands in the inbox, in one step: what failed may be sent again.
        `keep` is what is remembered of the delivery, so that it can be replayed.
        """
        k = self._keys
        named = hashlib.sha256(delivery.encode("utf-8", "replace")).hexdigest()[:32]
        tracker = signal.tracker
        return await scripts.HandOver(
            seen=k.delivery(tracker, named),
            inbox=k.inbox,
            index=k.inbox_index,
            announced=k.announced(signal.ticket),
            deliveries=k.deliveries(tracker),
            topic=signal.topic,
            payload=signal.to_json(),
            seen_ms=DELIVERY_MS if delivery else 0,
            delivery=keep,
            labelled=signal.labelled,
            name=new_name(),
        ).on(self._redis)

    async def kept(self, tracker: str) -> list[str]:
        """The latest deliveries that were handed over, oldest first, as `hand_over` was told to keep them."""
        return list(await self._redis.lrange(self._keys.deliveries(tracker), 0, -1))

    async def announced(self, tickets: Sequence[TicketId]) -> dict[TicketId, float]:
        """When a webhook last told of these tickets, in seconds since the epoch; of others it did not."""
        found = await self._redis.mget([self._keys.announced(t) for t in tickets]) if tickets else []
        return {ticket: float(at) / 1000 for ticket, at in zip(tickets, found, strict=True) if at}

    async def take(self, consumer: str, *, wait: float) -> str | None:
        """Move the oldest signal to the taker's list, waiting up to `wait` seconds for one."""
        return await self._redis.blmove(self._keys.inbox, self._keys.inbox_processing(consumer), wait, "LEFT", "RIGHT")

    async def opened(self, signal: Signal) -> Signal:
        """The signal with all that was merged into it; from now on others are not. Call before reading the ticket."""
        noted = await scripts.Opened(index=self._keys.inbox_index, topic=signal.topic, name=signal.entry).on(
            self._redis
        )
        return replace(signal, labelled=True) if noted else signal

    async def acknowledge(self, consumer: str, payload: str) -> None:
        """The signal was dealt with."""
        k = self._keys
        await scripts.Acknowledge(processing=k.inbox_processing(consumer), index=k.inbox_index, entry=payload).on(
            self._redis
        )

    async def later(self, consumer: str, payload: str, signal: Signal, *, wait: float) -> None:
        """What was taken as `payload` could not be dealt with: it comes back as `signal` in `wait` seconds.

        Several that are put off come back as one, when the first of them would.
        """
        k = self._keys
        await scripts.Later(
            processing=k.inbox_processing(consumer),
            index=k.inbox_index,
            later=k.inbox_later,
            payloads=k.later_payloads,
            taken=payload,
            topic=signal.topic,
            again=signal.to_json(),
            wait_ms=round(wait * 1000),
        ).on(self._redis)

    async def hold(self, consumer: str, payload: str, signal: Signal, *, places: Sequence[str]) -> None:
        """There is no room for the ticket: keep the signal until there is; `ripen` sees to that."""
        k = self._keys
        await scripts.Hold(
            processing=k.inbox_processing(consumer),
            index=k.inbox_index,
            held=k.held,
            payloads=k.held_payloads,
            lines=k.held_lines,
            taken=payload,
            topic=signal.topic,
            entry=json.dumps({"payload": signal.to_json(), "places": list(places)}),
            line_of=k.held_line(""),
        ).on(self._redis)

    async def held(self, tickets: Sequence[TicketId]) -> frozenset[TicketId]:
        """Those of the tickets that wait for room."""
        asked = [f"{kind.value}:{ticket}" for ticket in tickets for kind in _HOLDABLE]
        waiting = set(await scripts.Held(held=self._keys.held, topics=asked).on(self._redis)) if asked else set()
        return frozenset(t for t in tickets if any(f"{kind.value}:{t}" in waiting for kind in _HOLDABLE))

    async def send_later(self, signal: Signal, *, wait: float) -> None:
        """Put a signal into the inbox once `wait` seconds have passed."""
        await scripts.SendLater(
            later=self._keys.inbox_later,
            payloads=self._keys.later_payloads,
            topic=signal.topic,
            payload=signal.to_json(),
            wait_ms=round(wait * 1000),
        ).on(self._redis)

    async def ripen(self, limits: Mapping[str, int] | None = None) -> float | None:
        """Move signals whose time has come into the inbox, and those for which there is room within `limits` by now.

        Answers the seconds until the next look is worth while.
        """
        k = self._keys
        left = await scripts.Ripen(
            inbox=k.inbox,
            later=k.inbox_later,
            later_payloads=k.later_payloads,
            held=k.held,
            payloads=k.held_payloads,
            inbox_index=k.inbox_index,
            index=k.queue_index,
            running=k.running,
            reservations=k.reservations,
            lines=k.held_lines,
            places_of=k.places(""),
            limits=json.dumps(dict(limits or {})),
            name=new_name(),
            line_of=k.held_line(""),
        ).on(self._redis)
        return left / 1000 if left >= 0 else None

    async def in_hand(self, consumer: str) -> list[str]:
        """What was taken and not acknowledged, also when the answer to a take was lost."""
        return list(await self._redis.lrange(self._keys.inbox_processing(consumer), 0, -1))

    async def put_back(self, consumer: str) -> int:
        """Return a dead taker's signals to the inbox, under new names; -1 when it may be alive."""
        k = self._keys
        return await scripts.PutBack(
            inbox=k.inbox,
            processing=k.inbox_processing(consumer),
            index=k.inbox_index,
            alive=k.consumer(consumer),
            epoch=k.epoch,
            settling_key=k.settling,
            settle=self._settle_ms,
            name=new_name(),
        ).on(self._redis)

    async def heal(self, consumers: Iterable[str]) -> int:
        """Forget marks whose entry is neither in the inbox nor in the hands of any of these; answers how many.

        The lists are read one after another, so an entry that is moved meanwhile may be missed: that costs a look.
        """
        marks = await self._redis.hgetall(self._keys.inbox_index)
        if not marks:
            return 0
        lists = [self._keys.inbox, *map(self._keys.inbox_processing, consumers)]
        waiting = {name_in(entry) for key in lists for entry in await self._redis.lrange(key, 0, -1)}
        gone = [(topic, mark) for topic, mark in marks.items() if mark.partition("+")[0] not in waiting]
        for topic, mark in gone:
            await scripts.Unmark(index=self._keys.inbox_index, topic=topic, mark=mark).on(self._redis)
        return len(gone)

    async def note_rejected(self, ticket: TicketId, revision: str) -> None:
        """A gate turned the ticket away as it stands."""
        await self._redis.set(self._keys.rejected(ticket), revision, px=REJECTED_MS)

    async def rejected(self, tickets: Sequence[TicketId]) -> dict[TicketId, str]:
        """The revisions in which these tickets were turned away lately."""
        found = await self._redis.mget([self._keys.rejected(t) for t in tickets]) if tickets else []
        return {ticket: revision for ticket, revision in zip(tickets, found, strict=True) if revision}

    async def count(self) -> int:
        """How many signals wait, those for later and those without room included."""
        inbox = await self._redis.llen(self._keys.inbox)
        later = await self._redis.zcard(self._keys.inbox_later)
        held = await self._redis.zcard(self._keys.held)
        return int(inbox) + int(later) + int(held)
