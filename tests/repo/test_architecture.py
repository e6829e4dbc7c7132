"""The map leads somewhere: every file that it names is there, and its glossary is one that can be read."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "docs" / "architecture.md").read_text()


def section(title: str) -> str:
    return MAP.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    table = [line for line in section(title).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1:]]


def test_every_file_that_the_map_names_is_there() -> None:
    named = set(re.findall(r"\b(?:agentsmith|tests)/[\w/]+(?:\.py)?", MAP))
    assert len(named) > 50, "the map names files"
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_every_file_is_named_in_full() -> None:
    assert re.findall(r"`[\w.]+\.py`", MAP) == []


def test_every_room_is_on_the_map_with_a_file_to_begin_with() -> None:
    rooms = {path.parent.name for path in (ROOT / "agentsmith").glob("*/__init__.py")}
    assert set(re.findall(r"<br/>agentsmith/(\w+)/\w+\.py", section("The rooms"))) == rooms


def test_the_glossary_is_short_sorted_and_says_each_word_once() -> None:
    words = [word for word, _ in rows("Words")]
    assert len(words) <= 40
    assert words == sorted(set(words))


def test_thirty_everyday_changes_have_a_place() -> None:
    assert len(rows("I want to change …")) >= 30


def test_contributors_are_sent_there() -> None:
    assert "docs/architecture.md" in (ROOT / "CONTRIBUTING.md").read_text()
