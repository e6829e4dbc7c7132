"""System.Tags: one text for all tags of a work item, and what a move has to make of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from agentsmith.domain.errors import ConfigError
from agentsmith.domain.foreign import Foreign
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.tracker import AlreadySo, LostRace, Move
from agentsmith.trackers.shared import relabel

FIELD: Final = "/fields/System.Tags"
_LONGEST: Final = 400


def split(text: str | None) -> tuple[str, ...]:
    """The tags in their order; of several that differ only in case the first counts."""
    seen: dict[str, str] = {}
    for part in (text or "").split(";"):
        if name := part.strip():
            seen.setdefault(name.casefold(), name)
    return tuple(seen.values())


def joined(tags: Iterable[str]) -> str:
    """The same as Azure DevOps writes it."""
    return "; ".join(tags)


def plan(labels: LabelSet, shown: Sequence[str], move: Move) -> tuple[str, ...] | type[AlreadySo] | type[LostRace]:
    """The tags after `move` on a work item with the tags `shown`, or why nothing must be written."""
    todo = relabel.plan(labels, shown, move)
    return todo if isinstance(todo, type) else only(labels, shown, move.to)


def only(labels: LabelSet, shown: Sequence[str], status: Status | None) -> tuple[str, ...]:
    """The tags with that of `status` as the only lifecycle tag; everything else stays where it is (P3)."""
    surplus = labels.surplus(shown, status)
    left = [tag for tag in shown if tag not in surplus]
    if status is not None and not labels.lifecycle(left):
        left.append(labels.label(status))
    return tuple(left)


def operation(before: Sequence[str], after: Sequence[str]) -> dict[str, Any]:
    """The patch operation: `add` merges, so it is used only on an empty field; `remove` empties it."""
    if not after:
        return {"op": "remove", "path": FIELD}
    return {"op": "replace" if before else "add", "path": FIELD, "value": joined(after)}


def same(one: Iterable[str], other: Iterable[str]) -> bool:
    """Whether both are the same tags; the case is whatever the tag was first written in."""
    return {tag.casefold() for tag in one} == {tag.casefold() for tag in other}


def changed(shown: Sequence[str], todo: Foreign) -> tuple[str, ...]:
    """The tags after foreign ones were added and removed; everything else stays where it is (P3)."""
    return (*(tag for tag in shown if tag not in todo.remove), *todo.add)


def check_foreign(wanted: Foreign) -> Foreign:
    """The same, if Azure DevOps takes these tags; raises ConfigError where it would not."""
    for name in wanted.add:
        if name.startswith("@") or any(ord(c) > 0xFFFF for c in name):
            raise ConfigError(f"Azure DevOps takes no tag {name[:40]!r}: none begins with @ or holds an emoji")
    return wanted


def check(labels: LabelSet) -> None:
    """Raise ConfigError when Azure DevOps would refuse or split one of our tags."""
    for prefix in (labels.prefix, *labels.former_prefixes):
        bad = [c for c in prefix if c in ",;" or ord(c) > 0xFFFF or not c.isprintable()]
        if bad or prefix.startswith("@") or len(prefix) > _LONGEST - 20:
            raise ConfigError(
                f"Azure DevOps takes no tags that begin with {prefix[:40]!r}; choose another label_prefix"
            )
