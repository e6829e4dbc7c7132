"""What is built in and what installed packages offer, by name. Each is imported when it is first asked for.

A command that opens a ticket should not wait for four platforms that it never speaks to, nor for a look at every
package that is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from agentsmith.domain.errors import ConfigError

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Offers(Mapping[str, T]):
    """By name. A built-in name cannot be taken by a package."""

    kind: type[T]
    """What a package has to name by its entry point."""
    group: str
    """That of the entry points."""
    what: str
    """The same for people."""
    built_in: Mapping[str, Callable[[], T]]

    def __getitem__(self, name: str) -> T:
        if (load := self.built_in.get(name)) is not None:
            return load()
        point = self._points()[name]
        found = point.load()
        if not isinstance(found, self.kind):
            raise ConfigError(
                f"the package that offers the {self.what} {name!r} ({point.value}) must name a "
                f"{self.kind.__module__}.{self.kind.__qualname__}; correct or uninstall it"
            )
        return found

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in self._points()

    def __iter__(self) -> Iterator[str]:
        return iter({**self.built_in, **self._points()})

    def __len__(self) -> int:
        return sum(1 for _ in self)

    __eq__, __hash__ = object.__eq__, object.__hash__  # known apart without loading anything

    def _points(self) -> dict[str, Any]:
        from importlib.metadata import entry_points

        return {point.name: point for point in entry_points(group=self.group)}


@dataclass(frozen=True, eq=False)
class SettingsOf(Mapping[str, Any]):
    """How each of the offers is configured."""

    offers: Offers[Any]

    def __getitem__(self, name: str) -> Any:
        return self.offers[name].settings

    def __contains__(self, name: object) -> bool:
        return name in self.offers

    def __iter__(self) -> Iterator[str]:
        return iter(self.offers)

    def __len__(self) -> int:
        return len(self.offers)

    __eq__, __hash__ = object.__eq__, object.__hash__
