"""What people read says what it means for them, and does not name inner parts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PUZZLING = re.compile(r"\b(fence[sd]?|barracks|farewells?|settling|settled)\b", re.IGNORECASE)
FOR_MACHINES = re.compile(r"redis\.call|return settling\(|CREATE TABLE|INSERT INTO")


def texts(source: str) -> Iterator[str]:
    """Every text of several words that is no documentation of the code."""
    tree = ast.parse(source)
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in told
            and " " in node.value
        ):
            yield node.value


def test_no_message_puzzles_its_reader() -> None:
    puzzling = {
        f"{path.relative_to(ROOT)}: {text}"
        for path in (ROOT / "agentsmith").rglob("*.py")
        for text in texts(path.read_text())
        if PUZZLING.search(text) and not FOR_MACHINES.search(text)
    }
    assert puzzling == set()


def test_no_help_puzzles_its_reader() -> None:
    assert PUZZLING.findall((ROOT / "docs" / "commands.md").read_text()) == []


@pytest.mark.parametrize("text", ["'a newer fence stands'", "f'{x} is fenced off'", "log('the farewell failed')"])
def test_what_puzzles_is_found(text: str) -> None:
    assert any(PUZZLING.search(found) for found in texts(f"x = {text}"))
