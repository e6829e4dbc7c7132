"""Packages as pip would leave them: on the path, with a note of their entry points."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest


def install(example: Path, at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process see the package in `example` as installed; `at` is a folder for the note."""
    project = tomllib.loads((example / "pyproject.toml").read_text())["project"]
    note = at / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    note.mkdir(parents=True)
    (note / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    (note / "entry_points.txt").write_text("\n".join(groups))
    monkeypatch.syspath_prepend(str(at))
    monkeypatch.syspath_prepend(str(example))
