"""What an entry of a list says, whatever its name."""

from __future__ import annotations

from collections.abc import Iterable

from agentsmith.store.entries import name_in


def bare(entry: str) -> str:
    """The entry without its name: put back and taken again, it is still the same message."""
    return "{" + entry.removeprefix("{").removeprefix(f'"entry":"{name_in(entry)}",') if name_in(entry) else entry


def all_bare(entries: Iterable[str]) -> list[str]:
    """The same for several."""
    return [bare(entry) for entry in entries]
