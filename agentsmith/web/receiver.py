"""The receiver of webhooks: verify on the raw bytes, hand over durably, answer. Fails closed.

It answers 202 once the signal stands in Redis, 200 for what is authentic but uninteresting or was seen before, 401 for
what cannot be verified, 404 for an unknown tracker, 413 and 415 for what is too large or not JSON, 408 for a body that
does not come, and 503 while Redis is away or more comes in than there is room for. Never 500 and never 410: platforms
switch a hook off for less.

Whatever can be refused without the body is refused before it is read: anybody may send us something.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from agentsmith import metrics
from agentsmith.domain.conversation import command_in
from agentsmith.domain.lifecycle import LabelSet, resolve
from agentsmith.domain.ticket import Actor
from agentsmith.domain.tracker import Tracker
from agentsmith.domain.webhook import (
    BadPayload,
    BadSignature,
    Incoming,
    Proof,
    TicketEvent,
    Uninteresting,
    WebhookReader,
)
from agentsmith.intake.deliveries import Kept, signal_of
from agentsmith.store import AWAY, Store
from agentsmith.web.room import Crowded, Room

log = structlog.get_logger()

_IN_FLIGHT: Final = 16 * 1024 * 1024
"""Bytes of all bodies that are being read: the largest that we take of any platform, or a thousand usual ones."""
_LONGEST_LENGTH: Final = 18
"""Digits."""
_READ_WITHIN: Final = 10.0
_NOBODY: Final = "-"
"""What an unknown tracker is counted as: strangers make up no names."""


@dataclass(slots=True)
class Desk:
    """One tracker's deliveries: who reads them and where they go."""

    tracker: Tracker
    reader: WebhookReader | None
    """None: no secret is configured, so nothing can be verified and everything is refused."""
    me: Actor | None = None
    """Our own account, once it is known: what we say ourselves is no news."""


class _Refused(Exception):
    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Receiver:
    """Takes deliveries in."""

    def __init__(self, store: Store, desks: Mapping[str, Desk], *, read_within: float = _READ_WITHIN) -> None:
        self._store, self._desks, self._read_within = store, desks, read_within
        self.room = Room(_IN_FLIGHT)

    async def receive(self, request: Request) -> Response:
        """Answer one delivery; never raises."""
        name = request.path_params["tracker"]
        desk = self._desks.get(name)
        status, text = (404, "there is no such tracker") if desk is None else await self._answer(name, desk, request)
        metrics.WEBHOOKS.labels(name if desk else _NOBODY, str(status)).inc()
        # A reason may quote half a character, which JSON can hold and UTF-8 cannot.
        shown = text.encode("utf-8", "replace").decode()
        return JSONResponse({"answer": shown}, status_code=status)

    async def _answer(self, name: str, desk: Desk, request: Request) -> tuple[int, str]:
        try:
            if desk.reader is None:
                raise _Refused(401, "this tracker has no webhook_secret, so it is polled and takes no webhooks")
            incoming = await self._incoming(desk.reader, request)
            return await self._hand_over(desk, _understood(desk.reader, incoming), incoming)
        except BadSignature as error:
            return self._refused(name, 401, str(error))
        except _Refused as refusal:
            return self._refused(name, refusal.status, str(refusal))
        except AWAY as error:
            self._store.outage.noticed(error)
            return 503, "the queue is away; send it again"
        except ClientDisconnect:
            return 400, "the connection was closed before the body was complete"
        except Exception as error:
            # 503 asks for a redelivery; a 500 would put some platforms' hooks on probation.
            log.error("a webhook broke the receiver", tracker=name, exc_info=error)
            return 503, "something went wrong; send it again"

    def _refused(self, name: str, status: int, why: str) -> tuple[int, str]:
        log.info("webhook refused", tracker=name, status=status, why=why)
        return status, why

    async def _incoming(self, reader: WebhookReader, request: Request) -> Incoming:
        """The delivery, proved to be authentic."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
        if kind != "application/json":
            raise _Refused(415, "send application/json")
        declared = request.headers.get("content-length", "0")
        if not declared.isascii() or not declared.isdecimal():
            raise _Refused(400, "the content length is not a number")
        if len(declared) > _LONGEST_LENGTH or int(declared) > reader.largest:
            raise _Refused(413, "the body is too large")
        headers = {name.casefold(): value for name, value in request.headers.items()}
        peer = request.client.host if request.client else ""
        head = Incoming(headers, b"", peer, str(request.path_params.get("secret", "")))
        return replace(head, body=await self._body(request, reader.largest, reader.proof(head, now=time.time())))

    async def _body(self, request: Request, largest: int, proof: Proof) -> bytes:
        try:
            async with self.room.reading(self._read_within) as reading:
                async for chunk in request.stream():
                    reading.take(chunk)
                    if reading.size > largest:
                        raise _Refused(413, "the body is too large")
                    proof.feed(chunk)
                proof.check()
                return reading.whole()
        except Crowded:
            raise _Refused(503, "more comes in than there is room for; send it again") from None
        except TimeoutError:
            raise _Refused(408, "the body did not come in time") from None

    async def _hand_over(self, desk: Desk, event: TicketEvent | Uninteresting, incoming: Incoming) -> tuple[int, str]:
        if isinstance(event, Uninteresting):
            log.debug("webhook ignored", tracker=desk.tracker.name, event_name=event.event, why=event.reason)
            return 200, f"ignored: {event.reason}"
        if _is_our_own_word(event, desk):
            return 200, "ignored: this is what we said ourselves"
        signal = signal_of(event, desk.tracker)
        told = await self._store.intents.last_published(signal.ticket)
        if _is_our_own_write(event, desk.tracker.labels, told):
            return 200, "ignored: this is what we wrote ourselves"
        telling = desk.reader.telling if desk.reader else frozenset()
        kept = Kept.of(event, incoming, telling, at=time.time())
        word = await self._store.signals.hand_over(signal, delivery=event.id, keep=kept.to_json())
        self._store.outage.over()
        return 200 if word == "seen" else 202, word


def _understood(reader: WebhookReader, incoming: Incoming) -> TicketEvent | Uninteresting:
    try:
        return reader.understand(incoming)
    except BadPayload as error:
        # Authentic: an error status would only get the hook switched off.
        return Uninteresting("", "unreadable", str(error))


def _is_our_own_word(event: TicketEvent, desk: Desk) -> bool:
    """A comment of our own account that is no command; a person who shares the account with us may write those."""
    if event.remark is None or desk.me is None or event.remark.author.id != desk.me.id:
        return False
    return command_in(event.remark.text, desk.tracker.labels.prefix) is None


def _is_our_own_write(event: TicketEvent, labels: LabelSet, told: object) -> bool:
    """A change of lifecycle labels alone, after which the ticket shows what we published last.

    Who did it does not matter: a person who shares the token with us and changes the status makes it differ.
    """
    if event.changed is None or event.labels is None or told is None:
        return False
    only_ours = all(labels.status_of(label) is not None for label in event.changed)
    return only_ours and resolve(labels.statuses(event.labels)) is told
