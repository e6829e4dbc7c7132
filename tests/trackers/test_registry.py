"""Platforms come from the product and from installed packages; the documented example is one of those."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from agentsmith.config import load
from agentsmith.domain.errors import ConfigError
from agentsmith.trackers import registry
from agentsmith.trackers.http import UNTOLD, WITHHELD, Shared

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "tracker-plugin"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example as pip would leave it: its package on the path, and a note of its entry point."""
    note = tmp_path / "agentsmith_notebook-0.1.0.dist-info"
    note.mkdir()
    (note / "METADATA").write_text("Metadata-Version: 2.1\nName: agentsmith-notebook\nVersion: 0.1.0\n")
    section, _, line = (
        (EXAMPLE / "pyproject.toml").read_text().partition('[project.entry-points."agentsmith.trackers"]')
    )
    assert section
    name, _, value = line.strip().partition(" = ")
    (note / "entry_points.txt").write_text(f"[agentsmith.trackers]\n{name} = {value.strip(chr(34))}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLE))


@pytest.mark.usefixtures("installed")
async def test_an_installed_package_adds_a_platform(tmp_path: Path) -> None:
    file = tmp_path / "agentsmith.yaml"
    file.write_text(f"trackers:\n  notes:\n    platform: notebook\n    file: {tmp_path}/notes.sqlite3\n")
    config = load(file, platforms=registry.settings_models(), environ={"HOME": str(tmp_path)})
    tracker = registry.build(config, Shared())["notes"]
    assert (await tracker.me()).bot
    assert [ticket async for ticket in tracker.find("agent-smith")] == []
    await tracker.aclose()


def test_trackers_of_earlier_releases_find_what_they_import() -> None:
    assert UNTOLD == WITHHELD


def test_the_built_in_platforms_are_there() -> None:
    assert registry.platforms().keys() >= {"github", "gitlab", "azure-devops", "jira", "local"}


def test_something_else_behind_an_entry_point_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint(name="broken", value="os:getcwd", group=registry.ENTRY_POINTS)
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: [point] if group == registry.ENTRY_POINTS else []
    )
    with pytest.raises(ConfigError, match=r"'broken' \(os:getcwd\) must name a"):
        registry.platforms()["broken"]
