"""The receiver of webhooks: verify on the raw bytes, hand over durably, answer. Fails closed.

It answers 202 once the signal stands in Redis, 200 for what is authentic but uninteresting or was seen before, 401 for
what cannot be verified, 404 for an unknown tracker, 413 and 415 for what is too large or not JSON, 408 for a body that
does not come, and 503 while Redis is away. Never 500 and never 410: platforms switch a hook off for less.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from agentsmith.domain.lifecycle import LabelSet, resolve
from agentsmith.domain.signal import Signal
from agentsmith.domain.tracker import Tracker
from agentsmith.domain.webhook import BadPayload, BadSignature, Incoming, TicketEvent, Uninteresting, WebhookReader
from agentsmith.store import AWAY, Store

log = structlog.get_logger()

LARGEST_BODY: Final = 25 * 1024 * 1024
"""GitHub sends no more; the others send less."""
_READ_WITHIN: Final = 10.0


@dataclass(frozen=True, slots=True)
class Desk:
    """One tracker's deliveries: who reads them and where they go."""

    tracker: Tracker
    reader: WebhookReader | None
    """None: no secret is configured, so nothing can be verified and everything is refused."""


class _Refused(Exception):
    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Receiver:
    """Takes deliveries in."""

    def __init__(self, store: Store, desks: Mapping[str, Desk], *, read_within: float = _READ_WITHIN) -> None:
        self._store, self._desks, self._read_within = store, desks, read_within

    async def receive(self, request: Request) -> Response:
        """Answer one delivery; never raises."""
        name = request.path_params["tracker"]
        desk = self._desks.get(name)
        if desk is None:
            return _answer(404, "there is no such tracker")
        try:
            incoming = await self._incoming(request)
            event = self._verified(desk, incoming)
            return await self._hand_over(desk, event)
        except _Refused as refusal:
            log.info("webhook refused", tracker=name, status=refusal.status, why=str(refusal))
            return _answer(refusal.status, str(refusal))
        except AWAY as error:
            self._store.outage.noticed(error)
            return _answer(503, "the queue is away; send it again")
        except ClientDisconnect:
            return _answer(400, "the connection was closed before the body was complete")
        except Exception as error:
            # 503 asks for a redelivery; a 500 would put some platforms' hooks on probation.
            log.error("a webhook broke the receiver", tracker=name, exc_info=error)
            return _answer(503, "something went wrong; send it again")

    async def _incoming(self, request: Request) -> Incoming:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
        if kind != "application/json":
            raise _Refused(415, "send application/json")
        try:
            declared = int(request.headers.get("content-length", "0"))
        except ValueError:
            raise _Refused(400, "the content length is not a number") from None
        if declared > LARGEST_BODY:
            raise _Refused(413, "the body is too large")
        body = bytearray()
        try:
            async with asyncio.timeout(self._read_within):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > LARGEST_BODY:
                        raise _Refused(413, "the body is too large")
        except TimeoutError:
            raise _Refused(408, "the body did not come in time") from None
        headers = {name.casefold(): value for name, value in request.headers.items()}
        peer = request.client.host if request.client else ""
        return Incoming(headers, bytes(body), peer, str(request.path_params.get("secret", "")))

    def _verified(self, desk: Desk, incoming: Incoming) -> TicketEvent | Uninteresting:
        if desk.reader is None:
            raise _Refused(401, "this tracker has no webhook_secret, so it is polled and takes no webhooks")
        try:
            return desk.reader.read(incoming, now=time.time())
        except BadSignature as error:
            raise _Refused(401, str(error)) from None
        except BadPayload as error:
            # Authentic: an error status would only get the hook switched off.
            return Uninteresting("", "unreadable", str(error))

    async def _hand_over(self, desk: Desk, event: TicketEvent | Uninteresting) -> Response:
        if isinstance(event, Uninteresting):
            log.debug("webhook ignored", tracker=desk.tracker.name, event_name=event.event, why=event.reason)
            return _answer(200, f"ignored: {event.reason}")
        ticket = desk.tracker.ticket_id(event.key)
        told = await self._store.intents.last_published(ticket)
        if _is_our_own_write(event, desk.tracker.labels, told):
            return _answer(200, "ignored: this is what we wrote ourselves")
        signal = Signal(desk.tracker.name, event.key, ticket, cause=f"webhook {event.event}")
        word = await self._store.signals.hand_over(signal, delivery=event.id)
        self._store.outage.over()
        return _answer(200 if word == "seen" else 202, word)


def _is_our_own_write(event: TicketEvent, labels: LabelSet, told: object) -> bool:
    """A change of lifecycle labels alone, after which the ticket shows what we published last.

    Who did it does not matter: a person who shares the token with us and changes the status makes it differ.
    """
    if event.changed is None or event.labels is None or told is None:
        return False
    only_ours = all(labels.status_of(label) is not None for label in event.changed)
    return only_ours and resolve(labels.statuses(event.labels)) is told


def _answer(status: int, text: str) -> Response:
    return JSONResponse({"answer": text}, status_code=status)
