"""What objects of ours hold: how many entries stand in each of their dicts, sets and lists.

Memory that grows with every ticket is found by comparing two counts, without measuring bytes or time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from agentsmith.bounded import Bounded

_CONTAINERS = (dict, list, set, tuple, frozenset)


def holdings(*roots: object) -> Counter[str]:
    """Entries by `Class.attribute`, of all our objects that can be reached; what cannot outgrow a bound is left out."""
    found: Counter[str] = Counter()
    seen: set[int] = set()
    left: list[object] = list(roots)
    while left:
        thing = left.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, Mapping):
            left += thing.values()
        elif isinstance(thing, _CONTAINERS):
            left += thing
        elif type(thing).__module__.startswith("agentsmith.") and not isinstance(thing, type):
            for name, value in _attributes(thing):
                if isinstance(value, Bounded):
                    continue
                if isinstance(value, dict | list | set):
                    found[f"{type(thing).__name__}.{name}"] += len(value)
                left.append(value)
    return found


def _attributes(thing: object) -> Iterator[tuple[str, Any]]:
    yield from getattr(thing, "__dict__", {}).items()
    for kind in type(thing).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if hasattr(thing, name):
                yield name, getattr(thing, name)
