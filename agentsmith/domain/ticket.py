"""What a ticket is to the core, whatever tracker it lives in, and how it is named."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NewType

TicketId = NewType("TicketId", str)
"""The canonical identity: `github.com/acme/web#12`, `acme.atlassian.net/WEB-12`, `local/tickets#3`."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_SLUG: Final = 80


@dataclass(frozen=True, slots=True)
class Ticket:
    """A ticket as one read showed it. Labels are spelled as on the platform, foreign ones included."""

    id: TicketId
    key: str
    tracker: str
    title: str
    body: str
    url: str
    labels: frozenset[str]
    open: bool
    revision: str
    author: str = ""
    assignees: frozenset[str] = frozenset()
    updated_at: datetime | None = None
    pull_request: bool = False
    state: str = ""
    """What the platform calls the state that it is in: `open`, `In Progress`; `open` above is what that amounts to."""
    type: str = ""
    """`Bug`, `Task`, `incident`; empty where the platform has no types."""
    components: frozenset[str] = frozenset()
    """Components, or the path of the area, that it belongs to; empty where the platform has none."""
    native: object = field(default=None, compare=False, repr=False)
    """What the platform needs for its next call (an ETag, a node id); opaque to everybody else."""


@dataclass(frozen=True, slots=True)
class Actor:
    """A person or a program on the tracker."""

    id: str
    name: str
    bot: bool = False


def slug(key: str, tracker: str | None = None) -> str:
    """A name for branches and folders: `[A-Za-z0-9._-]` only, never `..`, distinct for distinct keys.

    `tracker` is put in front where the tickets of two trackers could meet in one code repository; its name holds
    no dot, so that `a-b` and `1` cannot look like `a` and `b-1`.
    """
    full = key if tracker is None else f"{tracker}.{key}"
    safe = _UNSAFE.sub("-", full).strip("-.")
    while ".." in safe:
        safe = safe.replace("..", ".")
    if safe == full and len(safe) <= _LONGEST_SLUG and not safe.endswith(".lock"):
        return safe
    digest = hashlib.sha256(full.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe[:_LONGEST_SLUG].strip('-.')}-{digest}".lstrip("-")
