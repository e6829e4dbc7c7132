"""PipelineRequest: what travels on the queue, as versioned JSON that outlives the process that wrote it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from agentsmith.domain.ticket import TicketId

VERSION: Final = 1


class MalformedRequest(ValueError):
    """The text is no request: it does not even say which run of which pipeline on which ticket."""


class NewerRequest(MalformedRequest):
    """A newer release wrote it in a form that this one cannot read: one that can may be there, or come."""


@dataclass(frozen=True, slots=True)
class PinnedText:
    """Title and body as they were when the ticket was claimed: what the run works on."""

    title: str
    body: str
    sha256: str

    @classmethod
    def read(cls, data: object) -> PinnedText:
        """What was pinned, as JSON tells it; where it does not, all is empty: nobody knows what was vetted."""
        match data:
            case {"title": str(title), "body": str(body), "sha256": str(sha256)}:
                return cls(title, body, sha256)
        return cls("", "", "")

    @classmethod
    def of(cls, title: str, body: str) -> PinnedText:
        """Pin the text as it stands now."""
        return cls(title=title, body=body, sha256=text_hash(title, body))


def text_hash(title: str, body: str) -> str:
    """The fingerprint that tells whether a ticket's text changed since it was pinned."""
    return hashlib.sha256(f"{title}\0{body}".encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What keeps work wanted that was begun: the label that started it, or a person who asked for it by hand.

    Without either, as older releases left it, whoever looks goes by their own triggers.
    """

    trigger: str = ""
    by_hand: bool = False


def event_and_label(event: str, label: str) -> str:
    """By which event a trigger was set, and the trigger, as requests and leases tell it; empty without an event."""
    return f"{event} {label}" if event else ""


def label_in(labelled: str) -> str:
    """The trigger that `event_and_label` put there."""
    return labelled.partition(" ")[2]


@dataclass(frozen=True, slots=True)
class PipelineRequest:
    """One piece of work: run `pipeline` for `ticket`. At most one per ticket is waiting at any time."""

    ticket: TicketId
    tracker: str
    key: str
    pipeline: str
    run: str
    fence: int = 0
    attempt: int = 0
    delivery: int = 0
    pinned: PinnedText = PinnedText("", "", "")
    enqueued_at: float = 0.0
    wake_reason: str | None = None
    priority: int = 0
    workspace: str | None = None
    trace: str | None = None
    asked_by: str | None = None
    """Who asked for this one run by hand; then no trigger is needed."""
    trigger: str | None = None
    """The label that started it: only when that one is gone is it no longer wanted, whoever looks."""
    troubles: int = 0
    """How often a run of it broke on something of ours, on a machine that had been well; others count as attempts."""
    labelled: str | None = None
    """By which event the trigger was set, and the trigger: `4711 agent-smith`. Another event means: set again."""
    unknown: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What a newer release added, which is passed on as it is."""

    @property
    def wanted(self) -> Wanted:
        """What keeps it wanted."""
        return Wanted(self.trigger or label_in(self.labelled or ""), by_hand=self.asked_by is not None)

    def to_json(self) -> str:
        """The wire form; `from_json` of it gives an equal request."""
        payload = asdict(self)
        unknown = payload.pop("unknown")
        return json.dumps({**unknown, "version": VERSION, **payload}, separators=(",", ":"), sort_keys=True)

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
        version = data.pop("version", VERSION)
        if isinstance(version, int) and version > VERSION and isinstance(data.get("ticket"), str):
            raise NewerRequest(f"version {version} is newer than this release, which reads {VERSION}")
        data.pop("entry", None)  # the name of its entry in a list; no part of the request
        for name in _IDENTITY:
            if not isinstance(data.get(name), str) or not data[name]:
                raise MalformedRequest(f"{name} must be a non-empty text")
            if not _is_text(data[name]):
                raise MalformedRequest(f"{name} is not valid Unicode")
        found = {name: data.pop(name) for name in _IDENTITY}
        for name, fits in _WITH_DEFAULTS.items():
            value = data.pop(name, None)
            if fits(value):
                found[name] = value
        return cls(pinned=PinnedText.read(data.pop("pinned", None)), **found, unknown=data)


def started_by(payload: str) -> Wanted:
    """What keeps the request in this wire form wanted; one that we cannot read is for others to judge."""
    try:
        return PipelineRequest.from_json(payload).wanted
    except MalformedRequest:
        return Wanted(by_hand=True)


def asked_for(payload: str) -> bool:
    """Whether the request in this wire form was asked for by hand; no for one that nobody can read."""
    try:
        return PipelineRequest.from_json(payload).asked_by is not None
    except MalformedRequest:
        return False


def _is_text(value: object) -> bool:
    """Half a character, as JSON allows it, cannot be written to Redis, a file or an environment."""
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf


_IDENTITY: Final = ("ticket", "tracker", "key", "pipeline", "run")
"""What a request cannot do without. Everything else has a default, and counts as missing where it is not what we know:
processes of different releases share one Redis."""
_WITH_DEFAULTS: Final[Mapping[str, Callable[[object], bool]]] = {
    **dict.fromkeys(("fence", "attempt", "delivery", "priority", "troubles"), _is_whole),
    **dict.fromkeys(("wake_reason", "workspace", "trace", "asked_by", "labelled", "trigger"), _is_text),
    "enqueued_at": _is_time,
}
