"""Agents as data: what is started, and what their output tells. The samples have the shapes that the programs print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentsmith.config.agents import PRESETS, Agent
from agentsmith.pipelines.agents import argv_for, format_of, reads_stdin
from agentsmith.pipelines.reports import read_output, safe_session
from agentsmith.pipelines.worker import Usage

PROMPT = Path("/runs/r1/prompt.md")

CLAUDE = [
    {"type": "system", "subtype": "init", "session_id": "5c0f-1", "tools": ["Read"], "model": "m"},
    {
        "type": "assistant",
        "message": {"content": [{"type": "text", "text": "hm"}], "usage": {"input_tokens": 1}},
        "session_id": "5c0f-1",
    },
    {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "Fixed the parser.",
        "session_id": "5c0f-1",
        "total_cost_usd": 0.12,
        "usage": {"input_tokens": 1200, "output_tokens": 300, "cache_read_input_tokens": 9},
    },
]
CODEX = [
    {"type": "thread.started", "thread_id": "0199-ab"},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "i0", "type": "agent_message", "text": "Fixed the parser."}},
    {"type": "turn.completed", "usage": {"input_tokens": 1200, "cached_input_tokens": 9, "output_tokens": 300}},
]
GEMINI = [
    {"type": "init", "timestamp": "t", "session_id": "g-1", "model": "m"},
    {"type": "message", "timestamp": "t", "role": "assistant", "content": "Fixed", "delta": True},
    {"type": "result", "timestamp": "t", "status": "success", "stats": {"input_tokens": 1200, "output_tokens": 300}},
]
OPENCODE = [
    {"type": "step_start", "sessionID": "ses_1", "part": {"type": "step-start"}},
    {"type": "text", "sessionID": "ses_1", "part": {"type": "text", "text": "Fixed the parser."}},
    {"type": "step_finish", "sessionID": "ses_1", "part": {"cost": 0.05, "tokens": {"input": 1000, "output": 200}}},
    {"type": "step_finish", "sessionID": "ses_1", "part": {"cost": 0.07, "tokens": {"input": 200, "output": 100}}},
]
AIDER = """\
Aider v0.86.2
Tokens: 1.0k sent, 200 received. Cost: $0.05 message, $0.05 session.
Applied edit to parser.py
Tokens: 200 sent, 3.1k cache hit, 100 received. Cost: $0.07 message, $0.12 session.
"""


def printed(tmp_path: Path, *lines: object) -> Path:
    """An output with these lines between others."""
    file = tmp_path / "output.log"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    file.write_text("\n".join(["npm warn something", *texts, "{broken", "::progress x"]))
    return file


@pytest.mark.parametrize(
    ("name", "lines", "session", "cost", "answer"),
    [
        ("claude", CLAUDE, "5c0f-1", 0.12, "Fixed the parser."),
        ("codex", CODEX, "0199-ab", 0.0, "Fixed the parser."),
        ("gemini", GEMINI, "g-1", 0.0, ""),
        ("opencode", OPENCODE, "ses_1", 0.12, "Fixed the parser."),
        ("aider", [AIDER], "", 0.12, ""),
    ],
)
def test_each_preset_reads_its_program(
    tmp_path: Path, name: str, lines: list[object], session: str, cost: float, answer: str
) -> None:
    report = read_output(format_of(PRESETS[name]), [printed(tmp_path, *lines)])
    assert report.session == session
    assert report.usage == Usage(1200, 300, cost)
    assert report.answer == answer


@pytest.mark.parametrize("size", [1, 7, 100])
def test_lines_that_go_over_from_one_part_to_the_next_count_once(tmp_path: Path, size: int) -> None:
    whole = printed(tmp_path, *CODEX).read_bytes()
    parts = [tmp_path / f"part.{start // size}" for start in range(0, len(whole), size)]
    for number, part in enumerate(parts):
        part.write_bytes(whole[number * size : (number + 1) * size])
    report = read_output(format_of(PRESETS["codex"]), parts)
    assert (report.usage, report.session, report.answer) == (Usage(1200, 300), "0199-ab", "Fixed the parser.")


def test_a_part_that_is_gone_costs_only_what_it_held(tmp_path: Path) -> None:
    parts = [printed(tmp_path, *CODEX), tmp_path / "gone"]
    assert read_output(format_of(PRESETS["codex"]), parts).usage == Usage(1200, 300)


@pytest.mark.parametrize("name", PRESETS)
def test_a_new_session_and_an_old_one(name: str) -> None:
    agent = PRESETS[name]
    new = argv_for(agent, prompt_file=PROMPT, session="")
    assert new[0] == name
    assert "{" not in " ".join(new)
    assert reads_stdin(agent) == (str(PROMPT) not in new)
    if agent.resume is not None:
        assert "s-1" in argv_for(agent, prompt_file=PROMPT, session="s-1")
    else:
        assert argv_for(agent, prompt_file=PROMPT, session="s-1") == new


def test_further_arguments_stand_before_the_dash_that_means_standard_input() -> None:
    argv = argv_for(PRESETS["codex"], prompt_file=PROMPT, session="", args=("--model", "x"))
    assert argv[-3:] == ("--model", "x", "-")
    argv = argv_for(PRESETS["claude"], prompt_file=PROMPT, session="s", args=("--model", "x"))
    assert argv[-4:] == ("--resume", "s", "--model", "x")


@pytest.mark.parametrize("text", ["--dangerous", "a b", "$(x)", "a\nb", "", "-", "x" * 300])
def test_a_session_that_could_be_something_else_is_forgotten(tmp_path: Path, text: str) -> None:
    """It comes out of a program's output, and would stand in a command line."""
    assert safe_session(text) == ""
    file = printed(tmp_path, {"session_id": text})
    assert read_output(format_of(PRESETS["claude"]), [file]).session == ""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=500))
def test_whatever_it_prints_reading_never_fails(tmp_path: Path, output: bytes) -> None:
    file = tmp_path / "output.log"
    file.write_bytes(b'{"session_id": {"a": 1}, "usage": 5, "result": []}\n' + output)
    for agent in PRESETS.values():
        read_output(format_of(agent), [file])


def test_five_lines_make_an_agent() -> None:
    agent = Agent.model_validate(
        {
            "command": ["my-agent", "--json"],
            "resume": ["my-agent", "--continue", "{session}"],
            "env": ["MY_KEY"],
            "session": "id",
            "usage": {"input_tokens": "tokens.in"},
        }
    )
    assert argv_for(agent, prompt_file=PROMPT, session="7") == ("my-agent", "--continue", "7")
