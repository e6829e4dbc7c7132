"""What docs/workers.md and docs/pipelines.md show works as it stands."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from agentsmith.config import Pipeline
from agentsmith.config.steps import BUILT_IN
from agentsmith.pipelines.outcome import ExitCode
from agentsmith.pipelines.words import values
from agentsmith.pipelines.worker import Said
from tests.support.cli import Cli
from tests.support.config_platforms import load_text
from tests.support.embedded import servers_of

DOCS = Path(__file__).parents[2] / "docs"
WORKERS = (DOCS / "workers.md").read_text()
PIPELINES = (DOCS / "pipelines.md").read_text()


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page."""
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    yield cli
    assert servers_of(cli.data) == []


def test_the_one_liner_works(cli: Cli) -> None:
    program, *arguments = shlex.split(blocks(WORKERS, "sh")[0])
    assert program == "agentsmith"
    for _ in range(3):
        cli.run("ticket", "new", "--title", "Count the words")
    done = cli.run(*arguments)
    assert "local/tickets#3 is done" in done.stdout
    [run] = cli.json("runs", "3")
    assert (run["outcome"], run["summary"]) == ("succeeded", "counted")
    assert [step["progress"] for step in run["steps"] if step["state"] == "done"] == ["counting"]
    assert "::progress counting" in cli.run("logs", "3").stdout


def test_the_pipeline_of_the_page_works(cli: Cli) -> None:
    cli.configure(blocks(WORKERS, "yaml")[0])
    cli.run("ticket", "new", "--title", "Say $(hi)", "--body", "the body")
    done = cli.run("run", "1", "--pipeline", "greet")
    assert "working on Say $(hi)\nthe body\n" in done.stdout


def test_the_status_file_of_the_page_parks_the_ticket(cli: Cli) -> None:
    cli.run("ticket", "new", "--title", "Ask")
    cli.run("run", "1", "--", "sh", "-c", blocks(WORKERS, "sh")[1], code=1)
    shown = cli.json("ticket", "show", "1")
    assert "agent-smith:waiting" in shown["labels"]
    assert "Which database?" in shown["comments"][0]["body"]


def test_every_exit_code_and_line_is_on_the_page() -> None:
    for code in ExitCode:
        assert f"| {code.value} |" in WORKERS
    said = {name for name in Said.__dataclass_fields__ if not name.startswith("on_")} - {
        "say",
        "ignored",
        "unread",
        "more_artifacts",
    }
    assert said == {"progress", "question", "summary", "session", "usage", "artifacts"}
    for word in said:
        assert f"| `{word.removesuffix('s')}" in WORKERS


@pytest.mark.parametrize("text", blocks(WORKERS, "yaml") + blocks(PIPELINES, "yaml"))
def test_every_configuration_on_the_pages_is_right(tmp_path: Path, text: str) -> None:
    data = yaml.safe_load(text)
    if isinstance(data, list):
        Pipeline.model_validate({"steps": data})
    else:
        load_text(tmp_path, text)


def test_every_step_and_its_settings_are_on_the_page() -> None:
    for kind, settings in BUILT_IN.items():
        row = re.search(rf"^\| `{kind}` \|.*$", PIPELINES, re.MULTILINE)
        assert row, kind
        missing = [name for name in settings.model_fields if f"`{name}`" not in PIPELINES]
        assert missing == [], kind


def test_every_name_of_a_template_is_on_the_page() -> None:
    tree = ast.parse(inspect.getsource(values))
    [names] = [node for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    found = [str(key.value) for key in names.keys if isinstance(key, ast.Constant)]
    assert len(found) > 10
    assert [name for name in found if f"`{name}" not in PIPELINES] == []
