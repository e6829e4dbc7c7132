"""docs/guarantees.md: every promise with all its parts, and every test that it names is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text()
PARTS = ("Kept by", "Assumes", "Broken by", "Bound", "Shown by")
LOST = (
    "receiver",
    "consumer",
    "leader",
    "Redis, restarted",
    "Redis, emptied",
    "partition",
    "tracker",
    "label",
)


def promises() -> dict[str, str]:
    """Number and text of every promise."""
    return dict(re.findall(r"^## (P\d+) .*?\n(.*?)(?=^## )", PAGE, flags=re.MULTILINE | re.DOTALL))


def named() -> list[tuple[str, str]]:
    """Every test that the page names, by file and name."""
    return re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE)


@cache
def _tests_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text())
    return frozenset(n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def test_all_ten_promises_are_there() -> None:
    assert list(promises()) == [f"P{number}" for number in range(1, 11)]


@pytest.mark.parametrize("number", [f"P{number}" for number in range(1, 11)])
def test_every_promise_has_all_its_parts(number: str) -> None:
    parts = dict(
        re.findall(r"^- \*\*(.+?)\*\*: (.*?)(?=^- \*\*|\Z)", promises()[number], flags=re.MULTILINE | re.DOTALL)
    )
    assert tuple(parts) == PARTS
    assert all(text.strip() for text in parts.values())
    assert "::test_" in parts["Shown by"]


def test_every_test_that_is_named_exists() -> None:
    assert len(named()) > 30
    assert [
        f"{file}::{name}" for file, name in named() if not (ROOT / file).exists() or name not in _tests_in(file)
    ] == []


def test_every_mention_of_a_test_is_understood() -> None:
    assert len(re.findall(r"::test_", PAGE)) == len(named())


def test_what_survives_what_has_every_row_with_bound_and_measurement() -> None:
    table = PAGE.partition("## What survives what")[2]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("| ")
    ]
    head, *body = rows
    assert head == ["Lost", "What survives, and what follows", "Bound", "Measured", "Shown by"]
    for what in LOST:
        assert [row for row in body if what in row[0]], what
    assert all(len(row) == len(head) and all(row) for row in body)
