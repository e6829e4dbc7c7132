"""Labels that are not ours: what a pipeline may add and remove, and what of it is left to write (T17). Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from agentsmith.domain.errors import ConfigError

_LONGEST: Final = 255
_SEPARATORS: Final = ",;"

Ours = Callable[[Iterable[str]], frozenset[str]]
"""Those of some labels that show a status: `LabelSet.lifecycle`, or a platform's own reading of it."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """Foreign labels to add and to remove, each once."""

    add: tuple[str, ...]
    remove: tuple[str, ...]

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to write."""
        return not self.add and not self.remove

    def left(self, shown: Iterable[str], *, exact: bool = False) -> Foreign:
        """What of it is not so yet on a ticket with these labels; `exact` where upper and lower case are not one.

        Labels to remove come back as the ticket spells them.
        """
        fold = _as_it_is if exact else str.casefold
        there: dict[str, list[str]] = {}
        for name in shown:
            there.setdefault(fold(name), []).append(name)
        add = tuple(name for name in self.add if fold(name) not in there)
        return Foreign(add, tuple(name for label in self.remove for name in sorted(there.get(fold(label), ()))))


def foreign(ours: Ours, add: Collection[str], remove: Collection[str]) -> Foreign:
    """The labels without surrounding blanks, each once; raises ConfigError for one that must not be touched."""
    wanted, unwanted = (tuple(dict.fromkeys(name.strip() for name in names)) for names in (add, remove))
    for name in (*wanted, *unwanted):
        _check(name)
    if lifecycle := sorted(ours((*wanted, *unwanted))):
        raise ConfigError(
            f"the label {lifecycle[0]!r} is a lifecycle label, which agentsmith alone sets and removes; name another"
        )
    removed = {name.casefold() for name in unwanted}
    if both := [name for name in wanted if name.casefold() in removed]:
        raise ConfigError(f"the label {both[0]!r} is to be added and removed at once; keep one of the two")
    return Foreign(wanted, unwanted)


def _check(name: str) -> None:
    if not name:
        raise ConfigError("a label is empty; name it")
    if len(name) > _LONGEST or any(ord(c) < 32 or ord(c) == 127 or 0xD800 <= ord(c) <= 0xDFFF for c in name):
        raise ConfigError(f"{name[:40]!r} is not a label; use one line of at most {_LONGEST} characters")
    if any(sign in name for sign in _SEPARATORS):
        # Where a list of labels is one text, this would be two, and the second could be one of ours.
        raise ConfigError(f"the label {name[:40]!r} holds ',' or ';', which separate labels; use another name")


def _as_it_is(name: str) -> str:
    return name
