"""What installed packages offer beside what is built in, found by their entry points."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import TypeVar

from agentsmith.domain.errors import ConfigError

T = TypeVar("T")


def with_installed(built_in: Mapping[str, T], kind: type[T], *, group: str, what: str) -> dict[str, T]:
    """Everything by name, what packages offer in the group included; a built-in name cannot be taken."""
    found = dict(built_in)
    for point in entry_points(group=group):
        offered = point.load()
        if not isinstance(offered, kind):
            raise ConfigError(
                f"the package that offers the {what} {point.name!r} ({point.value}) must name a "
                f"{kind.__module__}.{kind.__qualname__}; correct or uninstall it"
            )
        found.setdefault(point.name, offered)
    return found
