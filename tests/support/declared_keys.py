"""The table at the top of store/keys.py as data: which keys may exist, of what type, and for how long."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from agentsmith.store import keys

_UNITS: Final = {"hour": keys.HOUR_MS, "hours": keys.HOUR_MS, "day": keys.DAY_MS, "days": keys.DAY_MS}
"""Times in shorter units are defaults that a configuration, or a test, may change."""


@dataclass(frozen=True, slots=True)
class Family:
    """One row of the table."""

    name: str
    type: str
    lives: str

    @property
    def permanent(self) -> bool:
        """Whether keys of this family never expire."""
        return self.lives == "for ever"

    @property
    def longest(self) -> int | None:
        """The longest time to live in ms; None where there is none, or the configuration says."""
        amount, _, unit = self.lives.partition(" ")
        return int(amount) * _UNITS[unit] if unit in _UNITS else None

    def matches(self, key: str) -> bool:
        """Whether `key` (without its namespace) belongs to this family."""
        pattern = "".join(
            ".+" if part.startswith("{") else re.escape(part) for part in re.split(r"(\{\w+\})", self.name)
        )
        return re.fullmatch(pattern, key, flags=re.DOTALL) is not None


def families() -> list[Family]:
    """Every row of the table."""
    rows = re.findall(r"^\| (\S+)\s+\| (\w+)\s+\| .*? \| ([\w ]+?)\s+\|$", keys.__doc__ or "", flags=re.MULTILINE)
    return [Family(*row) for row in rows]


FAMILIES: Final = families()


def complaints(found: Mapping[str, tuple[str, int]], namespaces: tuple[str, ...]) -> list[str]:
    """What is wrong with these keys (name to type and time to live): undeclared, immortal, mortal, another type."""
    wrong = []
    for name, (kind, ttl) in found.items():
        namespace, _, key = name.partition(":")
        key = key.removeprefix("shadow:")  # a shadow keeps the same, apart
        family = next((f for f in FAMILIES if f.matches(key)), None)
        if namespace not in namespaces:
            wrong.append(f"{name}: not in the namespace")
        elif family is None:
            wrong.append(f"{name}: not in the table of store/keys.py")
        elif kind != family.type:
            wrong.append(f"{name}: a {kind}, declared as {family.type}")
        elif family.permanent and ttl != -1:
            wrong.append(f"{name}: would be forgotten in {ttl} ms, declared to live for ever")
        elif not family.permanent and ttl == -1:
            wrong.append(f"{name}: immortal, declared to live {family.lives}")
        elif family.longest is not None and ttl > family.longest:
            wrong.append(f"{name}: lives {ttl} ms, declared to live {family.lives}")
    return wrong
