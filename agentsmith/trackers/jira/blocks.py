"""Our comment's text in its parts: code between fences, folds, and lines of everything else. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

_FENCE: Final = re.compile(r"(`{3,})([A-Za-z0-9_+-]*)")
_OPEN: Final = re.compile(r"<details><summary>(?P<title>[\w .,:']*\w[\w .,:']*)</summary>")
"""A title of letters only, so that it means the same wherever it stands in a document or in markup."""
_CLOSE: Final = "</details>"
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]")
"""Line feed and tab may stay; Jira refuses some of the others and shows none of them."""


@dataclass(frozen=True, slots=True)
class Code:
    """What stood between two fences; never empty."""

    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines without a blank one between them; never empty."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """What takes no room until somebody opens it; never empty, and no fold is in another."""

    title: str
    parts: tuple[Code | Lines, ...]


def clean(text: str) -> str:
    """The text without control characters and without what UTF-8 lacks."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace").decode("utf-8")
    return _CONTROLS.sub("", text)


def blocks(text: str) -> Iterator[Code | Lines | Fold]:
    """The parts in their order; a fence or a fold that is never closed is a line like others."""
    lines, at, folds = text.split("\n"), 0, True
    while at < len(lines):
        found = _OPEN.fullmatch(lines[at]) if folds else None
        if found:
            parts, end = _parts(lines, at + 1, _is_end)
            folds = end < len(lines)  # where one is not closed, none of those after it is
            if parts and folds:
                yield Fold(found["title"], tuple(parts))
                at = end + 1
                continue
        first, at = at, at + 1 if found else at
        parts, at = _parts(lines, at, _is_beginning if folds else _is_nothing, held=lines[first:at])
        yield from parts


def _parts(
    lines: list[str], at: int, ends: Callable[[str], bool], held: Sequence[str] = ()
) -> tuple[list[Code | Lines], int]:
    """The parts up to a line that ends them, and the number of that line; `held` are lines that came before."""
    parts: list[Code | Lines] = []
    held = list(held)
    while at < len(lines) and not ends(lines[at]):
        fence = _FENCE.fullmatch(lines[at])
        end = lines.index(fence[1], at + 1) if fence and fence[1] in lines[at + 1 :] else None
        if (fence and end is not None) or not lines[at].strip():
            if held:
                parts.append(Lines(tuple(held)))
                held = []
            if fence and end is not None:
                if code := "\n".join(lines[at + 1 : end]):
                    parts.append(Code(fence[2], code))
                at = end
        else:
            held.append(lines[at])
        at += 1
    return [*parts, Lines(tuple(held))] if held else parts, at


def _is_beginning(line: str) -> bool:
    return _OPEN.fullmatch(line) is not None


def _is_end(line: str) -> bool:
    return line == _CLOSE


def _is_nothing(_: str) -> bool:
    return False


def folded(title: str, content: str) -> str:
    """A fold as text; under a title that is not like ours the content alone."""
    opening = f"<details><summary>{title}</summary>"
    return f"{opening}\n\n{content}\n\n{_CLOSE}" if _OPEN.fullmatch(opening) else content


def fenced(block: Code, fence: str) -> str:
    """Code as text."""
    return f"{fence}{block.language}\n{block.text}\n{fence}"


def free_fence(lines: Iterable[str]) -> str:
    """The shortest fence that none of these lines could be taken for."""
    taken = {len(found[1]) for line in lines if (found := _FENCE.fullmatch(line))}
    return "`" * next(length for length in count(3) if length not in taken)


def cut(text: str, length: int) -> str:
    """The beginning of a text, with the fence and the fold closed that it was cut through."""
    kept = text[:length]
    fence, fold = "", False
    for line in kept.split("\n"):
        if fence:
            fence = "" if line == fence else fence
        elif found := _FENCE.fullmatch(line):
            fence = found[1]
        else:
            fold = line != _CLOSE and (fold or bool(_OPEN.fullmatch(line)))
    return kept + (f"\n{fence}" if fence else "") + (f"\n\n{_CLOSE}" if fold else "")
