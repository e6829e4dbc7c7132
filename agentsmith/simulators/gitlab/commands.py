"""Commands in texts: lines that begin with `/`, carried out with the rights of whoever wrote the text.

As in GitLab, carriage returns are dropped first, code blocks and quote blocks are left alone, a name counts in any
letters, and a line whose name is no command stays text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

NAMES = (
    "close",
    "reopen",
    "label",
    "labels",
    "unlabel",
    "remove_label",
    "relabel",
    "title",
    "lock",
    "unlock",
    "confidential",
)
"""What issues and merge requests both know; a merge request knows more."""
_FENCES = ("```", "~~~", ">>>")


@dataclass(frozen=True, slots=True)
class Extracted:
    """What is left of a text, and the commands that were in it."""

    text: str
    commands: tuple[tuple[str, str], ...]


def extract(body: str, names: Sequence[str] = NAMES) -> Extracted:
    """Take the commands of these names out of a text."""
    command = _pattern(tuple(names))
    kept: list[str] = []
    commands: list[tuple[str, str]] = []
    fence: str | None = None
    for line in body.replace("\r", "").split("\n"):
        opening = next((mark for mark in _FENCES if line.startswith(mark)), None)
        if fence is None and opening is not None:
            fence = opening
        elif fence is not None and opening == fence:
            fence = None
        elif fence is None and (found := command.fullmatch(line)):
            commands.append((found[1].lower(), (found[2] or "").strip()))
            continue
        kept.append(line)
    return Extracted("\n".join(kept).rstrip(), tuple(commands))


@cache
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"/({'|'.join(names)})(?: ([^\n]*))?\s*", re.I)
