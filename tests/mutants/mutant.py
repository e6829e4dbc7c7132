"""Mutants: one safeguard taken out of the product at a time, to see whether the simulation notices.

Each is a file `*.patch` beside this one: a line that says what is wrong with it, and then, per file of the product, the
lines that go (`-`), come (`+`) and stay (` `). There are no line numbers, so that it does not rot when others move;
what it replaces must be there exactly once, so that it cannot quietly become no mutant at all.

What the simulation does not play, a platform's HTTP for one, has a test of its own to notice it: a line `Caught by: `
at the beginning names it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_COPIED: Final = ("agentsmith", "tests/simulation", "tests/support")
_ALL_COPIED: Final = ("agentsmith", "tests", "pyproject.toml", "CONTRIBUTING.md")
_CAUGHT_BY: Final = re.compile(r"^Caught by: *(\S.*)\n", re.MULTILINE)
_BROKEN: Final = re.compile(r"^BROKEN (\S+): (.*)$", re.MULTILINE)
_SEED: Final = re.compile(r"^seed (\d+) again", re.MULTILINE)


class DoesNotApply(Exception):
    """The product has changed, and the mutant must be written anew."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement in one file."""

    path: str
    old: str
    new: str

    def applied(self, text: str) -> str:
        """The file's text with the change; DoesNotApply when what it replaces is not there exactly once."""
        if text.count(self.old) != 1:
            raise DoesNotApply(f"{self.path} has this {text.count(self.old)} times, not once:\n{self.old}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Caught:
    """What gave a mutant away."""

    seed: int
    promise: str
    what: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Mutant:
    """A product with one safeguard less."""

    name: str
    why: str
    edits: tuple[Edit, ...]
    test: str = ""
    """The test that notices it; empty where the simulation does."""

    def changed(self, root: Path) -> dict[str, str]:
        """The files that are different in it, with their texts; DoesNotApply when the product has moved on."""
        texts: dict[str, str] = {}
        for edit in self.edits:
            file = root / edit.path
            before = texts[edit.path] if edit.path in texts else file.read_text() if file.is_file() else ""
            texts[edit.path] = edit.applied(before)
        return texts

    @contextmanager
    def alive(self) -> Iterator[Path]:
        """A copy of the tree in which the mutant lives."""
        changed = self.changed(ROOT)
        with tempfile.TemporaryDirectory(prefix="as-mutant-") as folder:
            root = Path(folder)
            for part in _ALL_COPIED if self.test else _COPIED:
                # With what is compiled already: to compile everything anew would take longer than to play a seed.
                if (ROOT / part).is_dir():
                    shutil.copytree(ROOT / part, root / part)
                else:
                    shutil.copy(ROOT / part, root / part)
            for path, text in changed.items():
                file = root / path
                file.write_text(text)
                for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
                    compiled.unlink()
            yield root

    def hunt(self, *, first: int, seeds: int) -> Caught | None:
        """Play seeds on the mutant until one breaks a promise; None when all of them held."""
        started = time.monotonic()
        options = ("--from", str(first), "--seeds", str(seeds), "--jobs", "1")
        with self.alive() as root:
            # Nothing but the copy may be imported: an installed agentsmith comes after the working directory.
            done = subprocess.run(
                [sys.executable, "-m", "tests.simulation", *options],
                check=False, capture_output=True, text=True, cwd=root, env={**os.environ, "PYTHONPATH": str(root)},
            )  # fmt: skip
        if done.returncode == 0:
            return None
        seed, broken = _SEED.search(done.stdout), _BROKEN.search(done.stdout)
        if seed is None or broken is None:
            raise RuntimeError(f"the simulation of {self.name} itself failed:\n{done.stderr[-3000:]}")
        return Caught(int(seed[1]), broken[1], broken[2], time.monotonic() - started)

    def fails_its_test(self) -> bool:
        """Whether the test that is named for it notices it; RuntimeError where that test could not even begin."""
        with self.alive() as root:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", self.test],
                check=False, capture_output=True, text=True, cwd=root, env={**os.environ, "PYTHONPATH": str(root)},
            )  # fmt: skip
        if done.returncode not in (0, 1):
            raise RuntimeError(f"{self.test} itself failed on {self.name}:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
        return done.returncode == 1


def holds(seed: int) -> bool:
    """Whether the product as it is keeps its promises in this seed; what fails anyway catches nobody."""
    command = [sys.executable, "-m", "tests.simulation", "--from", str(seed), "--seeds", "1", "--jobs", "1"]
    return subprocess.run(command, check=False, capture_output=True, cwd=ROOT).returncode == 0


def parse(name: str, text: str) -> Mutant:
    """Read a patch."""
    head, *sections = re.split(r"^--- ", text, flags=re.MULTILINE)
    named = _CAUGHT_BY.search(head)
    head = _CAUGHT_BY.sub("", head)
    edits = []
    for section in sections:
        path, _, body = section.partition("\n")
        edits += [Edit(path.strip(), *hunk) for hunk in _hunks(body)]
    if not head.strip() or not edits:
        raise DoesNotApply(f"{name} says nothing, or changes nothing")
    return Mutant(name, " ".join(head.split()), tuple(edits), named[1].strip() if named else "")


def _hunks(body: str) -> Iterator[tuple[str, str]]:
    """What goes and what comes, for each run of lines; a line to go after one that came begins the next."""
    lines: list[str] = []
    for line in [*body.splitlines(), "-"]:
        ends = line == "-" or (line.startswith("-") and any(earlier.startswith("+") for earlier in lines))
        if ends and lines:
            yield _side(lines, " -"), _side(lines, " +")
            lines = []
        if line != "-":
            lines.append(line)


def _side(lines: list[str], signs: str) -> str:
    return "".join(f"{line[1:]}\n" for line in lines if line[:1] in signs)


def all_mutants() -> list[Mutant]:
    """Every mutant, by name."""
    return [parse(file.stem, file.read_text()) for file in sorted(Path(__file__).parent.glob("*.patch"))]
