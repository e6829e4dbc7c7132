"""PipelineRequest: what travels on the queue, as versioned JSON that outlives the process that wrote it."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from agentsmith.domain.ticket import TicketId

VERSION: Final = 1


class MalformedRequest(ValueError):
    """The text is not a request that this release understands; the message says why."""


@dataclass(frozen=True, slots=True)
class PinnedText:
    """Title and body as they were when the ticket was claimed: what the run works on."""

    title: str
    body: str
    sha256: str

    @classmethod
    def of(cls, title: str, body: str) -> PinnedText:
        """Pin the text as it stands now."""
        return cls(title=title, body=body, sha256=text_hash(title, body))


def text_hash(title: str, body: str) -> str:
    """The fingerprint that tells whether a ticket's text changed since it was pinned."""
    return hashlib.sha256(f"{title}\0{body}".encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class PipelineRequest:
    """One piece of work: run `pipeline` for `ticket`. At most one per ticket is waiting at any time."""

    ticket: TicketId
    tracker: str
    key: str
    pipeline: str
    run: str
    fence: int
    attempt: int
    delivery: int
    pinned: PinnedText
    enqueued_at: float
    wake_reason: str | None = None
    priority: int = 0
    workspace: str | None = None
    trace: str | None = None
    asked_by: str | None = None
    """Who asked for this one run by hand; then no trigger is needed."""
    troubles: int = 0
    """How often a run of it broke on something of ours, on a machine that had been well; others count as attempts."""
    labelled: str | None = None
    """By which event the trigger was set, and the trigger: `4711 agent-smith`. Another event means: set again."""

    def to_json(self) -> str:
        """The wire form; `from_json` of it gives an equal request."""
        return json.dumps({"version": VERSION, **asdict(self)}, separators=(",", ":"), sort_keys=True)

    def again(self, *, run: str, fence: int, wake_reason: str | None) -> PipelineRequest:
        """The same work under a new run and fence."""
        return replace(self, run=run, fence=fence, wake_reason=wake_reason)

    @classmethod
    def from_json(cls, text: str | bytes) -> PipelineRequest:
        """Read a request; raises MalformedRequest, and nothing else, for any input."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise MalformedRequest(f"not JSON: {error}") from None
        if not isinstance(data, dict):
            raise MalformedRequest(f"not a JSON object but {type(data).__name__}")
        version = data.pop("version", None)
        if version != VERSION or isinstance(version, bool):
            raise MalformedRequest(f"version {version!r} is not understood; this release reads {VERSION}")
        data.pop("entry", None)  # the name of its entry in a list; no part of the request
        known = {f.name for f in fields(cls)}
        if unknown := sorted(set(data) - known):
            raise MalformedRequest(f"unknown field {unknown[0]!r}")
        _check_types(data)
        try:
            pinned = PinnedText(**data.pop("pinned"))
            return cls(pinned=pinned, **data)
        except TypeError as error:
            raise MalformedRequest(str(error).replace("PipelineRequest.__init__() ", "")) from None


def asked_for(payload: str) -> bool:
    """Whether the request in this wire form was asked for by hand; no for one that nobody can read."""
    try:
        return PipelineRequest.from_json(payload).asked_by is not None
    except MalformedRequest:
        return False


_TEXT: Final = ("ticket", "tracker", "key", "pipeline", "run")
_WHOLE: Final = ("fence", "attempt", "delivery", "priority", "troubles")
_OPTIONAL_TEXT: Final = ("wake_reason", "workspace", "trace", "asked_by", "labelled")


def _check_types(data: dict[str, Any]) -> None:
    for name in _TEXT:
        if not isinstance(data.get(name), str) or not data[name]:
            raise MalformedRequest(f"{name} must be a non-empty text")
    for name in (*_TEXT, *_OPTIONAL_TEXT):
        # Half a character, as JSON allows it, cannot be written to Redis, a file or an environment.
        if isinstance(data.get(name), str) and any("\ud800" <= char <= "\udfff" for char in data[name]):
            raise MalformedRequest(f"{name} is not valid Unicode")
    for name in _WHOLE:
        if name in data and (not isinstance(data[name], int) or isinstance(data[name], bool)):
            raise MalformedRequest(f"{name} must be a whole number")
    for name in _OPTIONAL_TEXT:
        if not isinstance(data.get(name), str | None):
            raise MalformedRequest(f"{name} must be a text or null")
    at = data.get("enqueued_at")
    if not isinstance(at, int | float) or isinstance(at, bool) or not abs(at) < math.inf:
        raise MalformedRequest("enqueued_at must be a number")
    pinned = data.get("pinned")
    if not isinstance(pinned, dict) or not all(isinstance(v, str) for v in pinned.values()):
        raise MalformedRequest("pinned must hold title, body and sha256 as texts")
