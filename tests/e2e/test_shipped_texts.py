"""Documentation and example configuration come with the program: in a checkout, and in a wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.cli import Cli

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def pages() -> dict[str, str]:
    return {file.relative_to(DOCS).with_suffix("").as_posix(): file.read_text() for file in DOCS.rglob("*.md")}


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def test_every_page_is_listed_by_name_and_title(cli: Cli) -> None:
    listed = {page["name"]: page["title"] for page in cli.json("docs")}
    assert listed == {name: text.splitlines()[0].removeprefix("# ") for name, text in pages().items()}
    shown = cli.run("docs").stdout
    assert all(name in shown for name in listed)
    assert "install" in listed


@pytest.mark.parametrize("asked", ["trackers/github", "github", "docs/trackers/github.md", "GitHub"])
def test_a_page_is_printed_as_it_is_under_every_name_that_people_try(cli: Cli, asked: str) -> None:
    text = (DOCS / "trackers" / "github.md").read_text()
    assert cli.run("docs", asked).stdout == text
    assert cli.json("docs", asked) == {"name": "trackers/github", "title": "GitHub", "text": text}


def test_no_page_hides_another() -> None:
    last_names = [name.rpartition("/")[2] for name in pages()]
    assert len(set(last_names)) == len(last_names)


@pytest.mark.parametrize(("asked", "near"), [("instal", "install"), ("trackers/gitlb", "trackers/gitlab")])
def test_an_unknown_page_is_answered_with_the_nearest(cli: Cli, asked: str, near: str) -> None:
    said = cli.run("docs", asked, code=2).stderr
    assert f"did you mean `{near}`?" in said
    assert "operations" in said, "all of them are named"


@pytest.mark.parametrize("asked", ["../README", "/etc/passwd", "zzzz", ""])
def test_nothing_but_pages_is_printed(cli: Cli, asked: str) -> None:
    done = cli.run("docs", asked, code=2)
    assert done.stdout == ""
    assert "there is no page" in done.stderr


def test_the_example_is_a_configuration_that_is_right(cli: Cli) -> None:
    example = cli.run("config", "example").stdout
    assert example == (ROOT / "config.example.yaml").read_text()
    cli.configure(example)
    assert cli.json("config", "check")["ok"]


def test_a_wheel_has_them_too(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    built = subprocess.run([*pip, "--wheel-dir", tmp_path, ROOT], check=False, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)  # what pip does with it, but for the script and the notes

    def python(*arguments: str) -> str:
        env = {**os.environ, "PYTHONPATH": str(site)}
        command = [sys.executable, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=env, cwd=tmp_path).stdout

    found = python("-c", "import agentsmith; print(agentsmith.__file__)").strip()
    assert Path(found).is_relative_to(site), "else this would be about the checkout"
    listed = python("-m", "agentsmith", "docs")
    assert all(name in listed for name in pages())
    assert python("-m", "agentsmith", "docs", "install") == (DOCS / "install.md").read_text()
    assert python("-m", "agentsmith", "config", "example") == (ROOT / "config.example.yaml").read_text()
