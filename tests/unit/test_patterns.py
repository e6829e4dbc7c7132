"""No pattern of ours can be kept busy by a text that was written for it.

Ticket texts, comments, webhooks and what a worker prints are matched on the event loop, where a second is a lease that
is not renewed. For each pattern texts are made of its own parts that almost match, again and again.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import agentsmith

c: Any = importlib.import_module("re._constants")  # of which no types are known
parser: Any = importlib.import_module("re._parser")
ROOT: Final = Path(agentsmith.__file__).parent
LENGTHS: Final = (24, 30, 250, 1000, 4000, 10_000, 60_000)
"""From short to long: what takes too long already is not tried any longer."""
MOST: Final = 0.1
"""Seconds of processor time; a linear search of such a text takes a thousandth of it, a quadratic one seconds."""
ANCHORED: Final = {"compile", "match", "fullmatch"}
CALLS: Final = {*ANCHORED, "search", "sub", "subn", "split", "findall", "finditer"}
REPEATS: Final = (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT)
CATEGORIES: Final = {
    c.CATEGORY_DIGIT: r"\d",
    c.CATEGORY_SPACE: r"\s",
    c.CATEGORY_WORD: r"\w",
    c.CATEGORY_NOT_SPACE: r"\S",
    c.CATEGORY_NOT_WORD: r"\W",
}


def patterns() -> Iterator[tuple[str, str | bytes, bool]]:
    """Every pattern that stands in the code, with its place, and whether it is looked for anywhere in a text.

    `x` stands for parts that are filled in. The simulators are left out: nothing of a ticket's hangs on them.
    """
    for file in sorted(ROOT.rglob("*.py")):
        if file.is_relative_to(ROOT / "simulators"):
            continue
        source = file.read_text()
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=how), args=[first, *_]):
                    if how in CALLS and (text := _text(first)):
                        where = f"{file.relative_to(ROOT)}:{node.lineno}"
                        yield where, text, not {how, *_uses(source, node.lineno)} <= ANCHORED


def _uses(source: str, line: int) -> set[str]:
    """What is done with a pattern that is given a name in this line."""
    name = re.match(r"(\w+)(?:: Final)? = re\.compile\(", source.splitlines()[line - 1])
    return set(re.findall(rf"\b{name[1]}\.(\w+)", source)) or {"search"} if name else set()


def _text(node: ast.expr) -> str | bytes | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
    return None


def sample(item: tuple[Any, Any]) -> str:
    """A short text that this part of a pattern matches."""
    kind, what = item
    if kind is c.LITERAL:
        return chr(what)
    if kind is c.IN:
        return _of_class(what)
    if kind in REPEATS:
        times: int = max(1, min(what[0], 10))
        return "".join(map(sample, flat(what[2]))) * times
    return "a" if kind in (c.ANY, c.NOT_LITERAL) else ""


def _of_class(items: list[tuple[Any, Any]]) -> str:
    source = ""
    for kind, what in items:
        if kind is c.NEGATE:
            source += "^"
        elif kind is c.LITERAL:
            source += re.escape(chr(what))
        elif kind is c.RANGE:
            source += f"{re.escape(chr(what[0]))}-{re.escape(chr(what[1]))}"
        elif kind is c.CATEGORY:
            source += CATEGORIES.get(what, "")
    found = re.search(f"[{source}]", "a1 -_/<=:.\"'(\n" + "".join(map(chr, range(33, 256))))
    return found[0] if found else "a"


def flat(items: Any) -> Iterator[tuple[Any, Any]]:
    """The parts in a row: groups opened, the first of alternatives."""
    for kind, what in items:
        if kind is c.SUBPATTERN:
            yield from flat(what[3])
        elif kind is c.BRANCH:
            yield from flat(what[1][0])
        else:
            yield kind, what


def texts_against(pattern: str | bytes, length: int) -> Iterator[str]:
    """Texts in which it begins to match at many places: its beginnings repeated, and each with a long tail."""
    source = pattern if isinstance(pattern, str) else pattern.decode("latin-1")
    pieces = [sample(item) for item in flat(parser.parse(source))]
    beginnings = {"".join(pieces[:end]) for end in range(1, len(pieces) + 1)} | set(pieces)
    for beginning in sorted(beginnings - {""}):
        yield beginning * (length // len(beginning))
    for piece in sorted(set(pieces) - {""}):
        yield "".join(pieces[: pieces.index(piece) + 1]) + piece * (length // len(piece))


def longest(pattern: str | bytes, anywhere: bool = True) -> tuple[float, str]:
    """How long the slowest of these texts takes, and how it begins."""
    compiled, worst = re.compile(pattern), (0.0, "")
    for text in itertools.chain.from_iterable(texts_against(pattern, length) for length in LENGTHS):
        subject: Any = text if isinstance(pattern, str) else text.encode("latin-1", "replace")
        began = time.thread_time()
        compiled.fullmatch(subject)
        (compiled.search if anywhere else compiled.match)(subject)
        worst = max(worst, (time.thread_time() - began, text[:60]))
        if worst[0] > MOST:
            break
    return worst


def test_no_pattern_takes_more_than_its_time() -> None:
    found = list(patterns())
    assert len(found) > 60
    slow = {place: took for place, pattern, anywhere in found if (took := longest(pattern, anywhere))[0] > MOST}
    assert slow == {}


@pytest.mark.parametrize("pattern", ["<[a-z][^>]*>", "(a+)+b$"])
def test_a_slow_pattern_is_found(pattern: str | bytes) -> None:
    assert longest(pattern)[0] > MOST
