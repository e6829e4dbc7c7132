"""From what a person typed to one ticket: key, `tracker:key`, canonical id or URL. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentsmith.domain.errors import ConfigError
from agentsmith.domain.tracker import Tracker

NAMING: Final = (
    "name a ticket by its key (3), tracker:key (local:3), id (local/tickets#3) or URL; "
    "`agentsmith ticket list` shows the local ones"
)


def find(text: str, trackers: Mapping[str, Tracker]) -> tuple[Tracker, str]:
    """The tracker that the ticket lives in, and its key there; ConfigError when it could be none or several."""
    wanted = text.strip()
    name, colon, rest = wanted.partition(":")
    if colon and name in trackers and (named := trackers[name].identify(rest)) is not None:
        return trackers[name], named
    matches = [(tracker, key) for tracker in trackers.values() if (key := tracker.identify(wanted)) is not None]
    if len(matches) == 1:
        return matches[0]
    shown = repr(text[:80])
    if not matches:
        known = ", ".join(trackers) or "none is configured"
        raise ConfigError(f"{shown} names no ticket of any tracker ({known}); {NAMING}")
    choices = ", ".join(f"{tracker.name}:{key}" for tracker, key in matches)
    raise ConfigError(f"{shown} could be a ticket of several trackers; say which: {choices}")
