"""Webhook emission: deliveries leave in order, one at a time, with the platform's time-out and no second try.

Posting is synchronous, so that a change of state and its notice are one step; sending happens in `run`
(started by `serve`) or in `settle`. Lost, late, repeated and swapped deliveries are faults, see `faults`.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import ssl
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.faults import FaultBox


@dataclass(slots=True)
class Delivery:
    """One webhook on its way or in the log. `guid` is what a receiver dedupes by; a redelivery keeps it."""

    hook: str
    """The hook it belongs to, in the platform's own words; the platform's delivery log is filtered by it."""
    guid: str
    event: str
    """Event and action as faults match them, e.g. `issues.labeled`."""
    url: str
    headers: dict[str, str]
    body: bytes
    id: int = 0
    redelivery: bool = False
    due: float | None = 0.0
    """Simulated time before which it does not leave; None: when released."""
    delivered_at: float | None = None
    status_code: int = 0
    status: str = "pending"
    duration: float = 0.0
    answer: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    """What the platform wants to remember, e.g. the repository's id."""

    def to_json(self) -> dict[str, Any]:
        """What the control endpoint lists; signature headers are no secret, the payload is left out."""
        names = ("id", "guid", "hook", "event", "url", "redelivery", "status_code", "status", "delivered_at")
        return {name: getattr(self, name) for name in names}


class Outbox:
    """All deliveries of a simulator: those that wait, and the log."""

    def __init__(self, clock: Clock, faults: FaultBox, *, timeout: float = 10.0) -> None:
        self.timeout = timeout
        """Real seconds that a receiver has."""
        self.log: list[Delivery] = []
        self._clock = clock
        self._faults = faults
        self._waiting: deque[Delivery] = deque()
        self._swapped: list[Delivery] = []
        self._numbers = itertools.count(1)
        self._wake = asyncio.Event()
        self._sending = asyncio.Lock()
        clock.watch(lambda: self._wake.set())

    @property
    def held(self) -> list[Delivery]:
        """What has not left yet: late, swapped, or simply next."""
        return [*self._waiting, *self._swapped]

    def post(self, delivery: Delivery) -> Delivery:
        """Queue a delivery; the armed webhook faults are decided here."""
        self._number(delivery)
        logged, copies, swap = True, 0, False
        for fault in self._faults.for_event(delivery.event):
            if fault.kind == "webhook_lost":
                delivery.status, logged = "lost", fault.logged
            elif fault.kind == "webhook_late":
                delivery.due = None if fault.seconds is None else self._clock.now() + fault.seconds
            elif fault.kind == "webhook_repeated":
                copies += fault.copies
            else:
                swap = True
        if logged:
            self.log.append(delivery)
        if delivery.status == "lost":
            delivery.delivered_at = self._clock.now()
            return delivery
        if swap:
            self._swapped.append(delivery)
        else:
            self._waiting += [delivery, *self._swapped]
            self._swapped.clear()
        for _ in range(copies):
            self._waiting.append(self._number(replace(delivery, id=0)))
        self._wake.set()
        return delivery

    def redeliver(self, delivery_id: int) -> Delivery:
        """Send a logged delivery once more with the same guid; LookupError where there is none."""
        for old in self.log:
            if old.id == delivery_id:
                return self.send_again(old)
        raise LookupError(f"no delivery {delivery_id}")

    def send_again(self, old: Delivery) -> Delivery:
        """The same for a delivery at hand, which need not stand in the log."""
        again = replace(old, id=0, redelivery=True, due=0.0, status="pending", status_code=0, delivered_at=None)
        self.log.append(self._number(again))
        self._waiting.append(again)
        self._wake.set()
        return again

    def release(self) -> None:
        """Let everything that is held back leave now."""
        for delivery in self._waiting:
            delivery.due = 0.0
        self._waiting += self._swapped
        self._swapped.clear()
        self._wake.set()

    async def settle(self) -> None:
        """Wait until everything that is due has been sent (or has failed)."""
        await self._drain()

    async def run(self) -> None:
        """Send for ever: what is due now, then whatever becomes due."""
        # Events and locks belong to a loop; a simulator may outlive several of them.
        self._sending, self._wake = asyncio.Lock(), asyncio.Event()
        while True:
            self._wake.clear()
            await self._drain()
            due = [d.due for d in self._waiting if d.due is not None]
            wait = max(0.0, min(due) - self._clock.now()) if due else None
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def reset(self) -> None:
        """Forget everything, sent or not."""
        self.log.clear()
        self._waiting.clear()
        self._swapped.clear()

    def _number(self, delivery: Delivery) -> Delivery:
        delivery.id = next(self._numbers)
        return delivery

    async def _drain(self) -> None:
        async with self._sending:
            if self._next() is None:
                return
            # GitHub and its like do not follow redirects, and a proxy has no place on loopback.
            async with httpx.AsyncClient(verify=_tls(), trust_env=False, timeout=self.timeout) as client:
                while (delivery := self._next()) is not None:
                    self._waiting.remove(delivery)
                    await self._send(client, delivery)

    def _next(self) -> Delivery | None:
        now = self._clock.now()
        return next((d for d in self._waiting if d.due is not None and d.due <= now), None)

    async def _send(self, client: httpx.AsyncClient, delivery: Delivery) -> None:
        began = time.monotonic()
        try:
            answer = await client.post(delivery.url, content=delivery.body, headers=delivery.headers)
        except httpx.TimeoutException:
            delivery.status = "timed out"
        except httpx.HTTPError:
            delivery.status = "failed to connect to host"
        else:
            delivery.status_code, delivery.answer = answer.status_code, answer.text[:1000]
            delivery.status = "OK" if answer.is_success else f"Invalid HTTP Response: {answer.status_code}"
        delivery.duration = round(time.monotonic() - began, 2)
        delivery.delivered_at = self._clock.now()


@functools.cache
def _tls() -> ssl.SSLContext:
    # Building one costs some 20 ms: too much for each batch of deliveries.
    return ssl.create_default_context()
