"""Our comment's text in its parts: code between fences, and lines of everything else. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_FENCE: Final = re.compile(r"```([A-Za-z0-9_+-]*)")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]")
"""Line feed and tab may stay; Jira refuses some of the others and shows none of them."""


@dataclass(frozen=True, slots=True)
class Code:
    """What stood between two fences."""

    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines without a blank one between them; never empty."""

    lines: tuple[str, ...]


def clean(text: str) -> str:
    """The text without control characters and without what UTF-8 lacks."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace").decode("utf-8")
    return _CONTROLS.sub("", text)


def blocks(text: str) -> Iterator[Code | Lines]:
    """The parts in their order; a fence that is never closed is a line like others."""
    lines, at = text.split("\n"), 0
    held: list[str] = []
    while at < len(lines):
        fence = _FENCE.fullmatch(lines[at])
        end = lines.index("```", at + 1) if fence and "```" in lines[at + 1 :] else None
        if (fence and end is not None) or not lines[at].strip():
            if held:
                yield Lines(tuple(held))
                held = []
            if fence and end is not None:
                yield Code(fence[1], "\n".join(lines[at + 1 : end]))
                at = end
        else:
            held.append(lines[at])
        at += 1
    if held:
        yield Lines(tuple(held))
