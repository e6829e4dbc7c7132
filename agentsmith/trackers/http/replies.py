"""From bytes on the wire to an Answer or a typed error: the only place where status codes become domain errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from agentsmith.domain.errors import (
    BadAnswer,
    NotPermitted,
    Refused,
    TrackerError,
    TrackerUnavailable,
    Unauthorized,
)
from agentsmith.redaction import excerpt

REDIRECTS: Final = frozenset({301, 302, 307, 308})
GONE: Final = frozenset({404, 410})
WITHHELD: Final = frozenset({401, 403, 404})
"""How a platform refuses to tell what we would like to know, but can do without."""


class OutcomeUnknown(TrackerUnavailable):
    """A write was sent, but nobody knows whether it was carried out: read before deciding anything."""


class Redirected(BadAnswer):
    """A write was answered with a redirect and not carried out: what it was meant for has moved. Read again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the platform said. `data` is the parsed JSON; None for an empty body."""

    status: int
    headers: Mapping[str, str]
    data: Any
    url: str
    """Where the answer came from, after redirects."""
    etag: str | None = None
    link: str = ""
    unchanged: bool = False
    """A 304: `data` is what the cache held; None where the caller alone knew the ETag."""
    redirected: bool = False
    """Whether `url` is not where the request was sent."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A response, read whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str


async def read_reply(response: httpx.Response, *, most: int) -> Reply:
    """Read the body, decompressed, up to `most` bytes; more raises BadAnswer without holding it in memory."""
    declared = response.headers.get("content-length", "")
    body = bytearray()
    if not declared.isdecimal() or int(declared) <= most:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > most:
                break
        else:
            headers = httpx.Headers(response.headers)
            return Reply(response.status_code, headers, bytes(body), str(response.request.url))
    raise BadAnswer(f"the answer is larger than {most} bytes")


def parsed(reply: Reply, secrets: tuple[str, ...]) -> Any:
    """The JSON in the body (None when it is empty); anything else raises BadAnswer with a short excerpt."""
    if not reply.body:
        return None
    try:
        text = reply.body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadAnswer(f"the answer is not UTF-8 (byte {error.start})") from None
    if not is_json(reply):
        shown = excerpt(text, secrets)
        raise BadAnswer(f"the answer is {_kind(reply) or 'of no declared type'}, not JSON: {shown}")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadAnswer(f"the answer is malformed JSON: {excerpt(text, secrets)}") from None


def is_json(reply: Reply) -> bool:
    """Whether an answer says that it is JSON, or says nothing at all."""
    kind = _kind(reply)
    return not reply.body or kind == "application/json" or kind.endswith("+json")


def _kind(reply: Reply) -> str:
    return reply.headers.get("content-type", "").split(";")[0].strip().lower()


def error_for(reply: Reply, summary: str, *, message: str, missing: type[TrackerError], write: bool) -> TrackerError:
    """The error for a status that nobody asked for. `summary` names the request, `message` is the platform's own."""
    text = f"{summary} was answered with {reply.status}" + (f": {message}" if message else "")
    if reply.status == 401:
        return Unauthorized(f"{text}. Check that the token is right and has not expired")
    if reply.status in GONE:
        if "json" not in reply.headers.get("content-type", ""):
            return BadAnswer(f"{text}. This is no API answer: check base_url")
        return missing(text)
    if reply.status >= 500 or reply.status == 408:
        return OutcomeUnknown(text) if write else TrackerUnavailable(text)
    if reply.status in REDIRECTS:
        return Redirected(text)
    if reply.status >= 400:
        return NotPermitted(text) if reply.status == 403 else Refused(text)
    return BadAnswer(f"{text}, which is not expected here")
