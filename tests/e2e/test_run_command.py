"""`agentsmith run`, `runs`, `logs` and `pipelines`: one ticket in the foreground, and what is known of runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentsmith.cli import app, output, records
from agentsmith.config import Pipeline
from agentsmith.pipelines.record import FOLDER, LOG, Recorder
from tests.support.cli import Cli, run_here
from tests.support.json_answers import parsed
from tests.support.stores import a_request

CONFIG = """\
redis: {{url: '{url}', namespace: {namespace}}}
consumer: {{kill_grace: 500ms}}
triggers: [{{label: fix, pipeline: greet}}]
pipelines:
  greet: {{about: Say hello, steps: [{{run: 'echo hello from $AGENTSMITH_TICKET_KEY', name: hello}}]}}
  broken: {{steps: [{{run: 'echo oh no; exit 3'}}]}}
  label-only: {{steps: [{{label: {{add: [seen]}}}}]}}
"""


@pytest.fixture
def cli(tmp_path: Path, redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """Commands that are run right here, on the tests' Redis."""
    cli = Cli(tmp_path)
    cli.configure(CONFIG.format(url=redis_url, namespace=namespace))
    with run_here(cli, monkeypatch):
        yield cli


class Ran:
    """What a command printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *command: str, code: int = 0) -> None:
        found = app.run(command)
        self.out, self.err = capsys.readouterr()
        self.command, self.code = command, code
        assert found == code, self.out + self.err
        assert "Traceback" not in self.out + self.err

    @property
    def data(self) -> Any:
        """The one document that `--json` answers with."""
        return parsed(self.command, self.out, code=self.code)


def ticket(cli: Cli, *labels: str, title: str = "Say hello") -> str:
    return asyncio.run(cli.new(title, *labels))


def labels(cli: Cli, key: str) -> frozenset[str]:
    return asyncio.run(cli.ticket(key)).labels


def test_a_ticket_is_run_by_the_pipeline_of_its_label(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    key = ticket(cli, "fix", "keep")
    said = Ran(capsys, "run", key)
    assert "hello from 1\n" in said.out
    assert "local/tickets#1 is done" in said.out
    assert labels(cli, key) == {"fix", "keep", "agent-smith:done"}


def test_no_label_is_needed_where_the_pipeline_is_named(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    key = ticket(cli)
    said = Ran(capsys, "run", "local/tickets#1", "--pipeline", "greet", "--json").data
    assert (said["ok"], said["status"], said["run"]["pipeline"]) == (True, "done", "greet")
    assert [(step["name"], step["state"]) for step in said["run"]["steps"]] == [("hello", "done")]
    assert labels(cli, key) == {"agent-smith:done"}


def test_a_command_takes_the_place_of_the_agent_or_the_first_command(
    cli: Cli, capsys: pytest.CaptureFixture[str]
) -> None:
    ticket(cli, title="$(touch pwned) `x`")
    said = Ran(capsys, "run", "1", "--", "sh", "-c", 'echo "it is $AGENTSMITH_TICKET_TITLE"')
    assert "it is $(touch pwned) `x`\n" in said.out
    assert "local/tickets#1 is done" in said.out
    key = ticket(cli)
    Ran(capsys, "run", key, "--pipeline", "broken", "--", "true")
    assert labels(cli, key) == {"agent-smith:done"}


def test_a_run_that_does_not_end_in_done_says_no(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    key = ticket(cli)
    said = Ran(capsys, "run", key, "--pipeline", "broken", code=1)
    assert "oh no\n" in said.out
    assert "local/tickets#1 is failed" in said.out
    assert labels(cli, key) == {"agent-smith:failed"}
    again = Ran(capsys, "run", key, "--pipeline", "broken", code=1)
    assert "cannot run now: it is failed; remove the label 'agent-smith:failed'" in again.err
    assert Ran(capsys, "run", key, "--pipeline", "broken", "--json", code=1).data["outcome"] == "not run"


def test_an_interrupt_cancels_the_run(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    key = ticket(cli)
    interrupt = f"kill -INT {os.getpid()}; sleep 60"
    said = Ran(capsys, "run", key, "--actor", "ann", "--", "sh", "-c", interrupt, code=1)
    assert "cancelling the run" in said.err
    assert labels(cli, key) == {"agent-smith:failed"}
    assert "cancelled by ann" in asyncio.run(cli.comments(key))


@pytest.mark.parametrize("as_json", [False, True])
def test_a_dry_run_shows_what_would_happen_and_changes_nothing(
    cli: Cli, capsys: pytest.CaptureFixture[str], *, as_json: bool
) -> None:
    key = ticket(cli, "fix")
    said = Ran(capsys, "run", key, "--dry-run", *(["--json"] if as_json else []))
    if as_json:
        assert (said.data["would_run"], said.data["pipeline"]["name"], said.data["code"]) == (True, "greet", None)
        assert [gate["gate"] for gate in said.data["gates"] if not gate["passed"]] == []
    else:
        assert "Pipeline  greet" in said.out
        assert "Nothing was changed." in said.err
    assert labels(cli, key) == {"fix"}
    assert asyncio.run(cli.comments(key)) == ""
    assert not (cli.data / FOLDER).exists()


def test_a_dry_run_names_the_gate_that_is_shut(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    key = ticket(cli, "fix", "agent-smith:done")
    said = Ran(capsys, "run", key, "--dry-run", code=1)
    assert "shut" in said.out
    assert "It would not run: a gate is shut." in said.err


def test_every_pipeline_is_listed_the_presets_included(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    listed = {one["name"]: one for one in Ran(capsys, "pipelines", "--json").data}
    assert {"fix-bug", "add-feature", "run-script", "greet", "broken"} <= listed.keys()
    assert (listed["greet"]["labels"], listed["greet"]["about"], listed["greet"]["preset"]) == (
        ["fix"],
        "Say hello",
        False,
    )
    assert listed["fix-bug"]["preset"] is True
    assert next(step["kind"] for step in listed["fix-bug"]["steps"]) == "checkout"
    shown = Ran(capsys, "pipelines")
    assert "Say hello" in shown.out
    assert "Agents: " in shown.err


def test_runs_and_their_output_are_found_by_run_and_by_ticket(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = ticket(cli), ticket(cli)
    assert Ran(capsys, "runs").out == "there are no runs on this machine yet\n"
    Ran(capsys, "run", first, "--pipeline", "greet")
    Ran(capsys, "run", second, "--pipeline", "broken", code=1)
    assert [run["outcome"] for run in Ran(capsys, "runs", "--json").data] == ["step failed", "succeeded"]
    [run] = Ran(capsys, "runs", first, "--json").data
    assert (run["ticket"], run["state"]) == ("local/tickets#1", "succeeded")
    for name in (run["run"], run["run"][:-2], first, "local:1"):
        assert Ran(capsys, "logs", name).out == "hello from 1\n"
    assert Ran(capsys, "logs", run["run"], "--follow").out == "hello from 1\n"
    third = ticket(cli)
    assert Ran(capsys, "runs", third).out == "it has no runs on this machine\n"
    assert Ran(capsys, "runs", third, "--json").data == []


def test_the_name_of_a_run_is_never_broken(
    cli: Cli, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Ran(capsys, "run", ticket(cli), "--pipeline", "greet")
    [run] = Ran(capsys, "runs", "--json").data
    monkeypatch.setattr(output, "fancy", lambda *_: True)
    monkeypatch.setenv("COLUMNS", "40")
    assert [line.split()[0] for line in Ran(capsys, "runs").out.splitlines()] == ["Run", run["run"]]


def test_a_tickets_key_is_never_taken_for_the_beginning_of_a_runs_name(
    cli: Cli, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every run's name begins with a 2."""
    first, second = ticket(cli, "fix"), ticket(cli)
    Ran(capsys, "run", first)
    assert second == "2"
    said = Ran(capsys, "logs", second, code=2)
    assert "no run on this machine is called '2', and no ticket of that name was run here" in said.err
    Ran(capsys, "run", second, "--pipeline", "greet")
    assert Ran(capsys, "logs", second).out == "hello from 2\n"
    assert Ran(capsys, "logs", first).out == "hello from 1\n"


def test_a_run_that_was_cut_off_is_not_followed_for_ever(
    cli: Cli, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "_ASK_EVERY", 0.01)
    request = a_request(1, run="20260101-000000-0000cafe")
    folder = cli.data / FOLDER / request.run
    folder.mkdir(parents=True)
    pipeline = Pipeline.model_validate({"steps": [{"run": "true"}]})
    Recorder(folder, request, pipeline, fence=1, platform="local", on_change=lambda: None).save()
    (folder / LOG).write_text("so far\nand no fur")
    said = Ran(capsys, "logs", request.run, "--follow")
    assert said.out == "so far\nand no fur\n"
    assert "was cut off" in said.err
    assert Ran(capsys, "runs", "--json").data[0]["state"] == "cut off"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("run", "99"), "no ticket '99' in local/tickets"),
        (("run", "99", "--dry-run", "--json"), "no ticket '99' in local/tickets"),
        (("run", "elsewhere:1"), "'elsewhere:1' names no ticket"),
        (("run", "1"), "which pipeline? no label of it starts one; say --pipeline, one of greet"),
        (("run", "1", "--pipeline", "greeet"), "there is no pipeline 'greeet'; did you mean `greet`"),
        (("run", "1", "--pipeline", "greeet", "--dry-run"), "there is no pipeline 'greeet'"),
        (("run", "1", "--pipeline", "label-only", "--", "make"), "whose place 'make' could take"),
        (("runs", "99"), "no ticket '99' in local/tickets"),
        (("runs", "99", "--json"), "no ticket '99' in local/tickets"),
        (("logs", "20260101-nothing"), "no run on this machine is called '20260101-nothing'"),
        (("logs", "99", "--follow"), "no run on this machine is called '99'"),
        (("logs", ""), "no run on this machine is called ''"),
        (("logs", "../../etc/passwd"), "no run on this machine is called '../../etc/passwd'"),
        (("logs", "x" * 5000), "no run on this machine is called"),
    ],
    ids=lambda part: " ".join(part)[:40] if isinstance(part, tuple) else "",
)
def test_a_wrong_name_is_bad_input(
    cli: Cli, capsys: pytest.CaptureFixture[str], command: tuple[str, ...], message: str
) -> None:
    key = ticket(cli)
    said = Ran(capsys, *command, code=2)
    assert message in said.data["error"] if "--json" in command else said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert labels(cli, key) == set()
