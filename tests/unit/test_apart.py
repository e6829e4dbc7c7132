"""What a repository or a worker wrote is evaluated in a process of its own, and nowhere else."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import agentsmith
from agentsmith.git.shell import EndedCommand
from agentsmith.pipelines import apart

ROOT = Path(agentsmith.__file__).parent
EVALUATING = re.compile(r"import (?:.*, )?(?:render|make_prompt|read_output)\b|jinja2")
OPERATORS = {
    # The templates of commits, comments and pull requests, and a step's own prompt: whoever runs us wrote them.
    "pipelines/steps/code.py",
    "pipelines/steps/pull_request.py",
    "pipelines/steps/ticket.py",
    "pipelines/steps/agent.py",
    "running/work.py",
}
INSIDE = {"pipelines/apart.py", "pipelines/prompt.py", "pipelines/reports.py", "pipelines/templates.py"}
"""The process of its own, and what it calls."""


def test_nothing_else_evaluates_templates_or_patterns() -> None:
    """Whoever adds a place says here whose text it evaluates; a repository's, a ticket's or a worker's goes apart."""
    found = {str(file.relative_to(ROOT)) for file in ROOT.rglob("*.py") if EVALUATING.search(file.read_text())}
    assert found - INSIDE == OPERATORS
    assert set(apart.SECONDS) == set(apart.TABLE)


class Shell:
    """Runs it as the guard would."""

    ancestor = 0

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        stdin: Path,
        stdout: Path,
        stderr: Path,
        timeout: float,
    ) -> EndedCommand:
        with stdin.open() as i, stdout.open("w") as o, stderr.open("w") as e:
            process = await asyncio.create_subprocess_exec(*argv, env=dict(env), cwd=cwd, stdin=i, stdout=o, stderr=e)
            try:
                async with asyncio.timeout(timeout):
                    return EndedCommand(await process.wait())
            except TimeoutError:
                process.kill()
                await process.wait()
                return EndedCommand(None, timed_out=True)


def given(tmp_path: Path, pattern: str, line: str) -> dict[str, object]:
    output = tmp_path / "output.log"
    output.write_text(line)
    return {"format": {"usage_pattern": pattern}, "parts": [str(output)]}


async def test_a_report_is_read_apart(tmp_path: Path) -> None:
    found = await apart.evaluate(
        Shell(tmp_path), "report", given(tmp_path, r"used (?P<input_tokens>\d+)", "it used 12 of them")
    )
    assert found["usage"]["input_tokens"] == 12
    assert os.listdir(tmp_path) == ["output.log"]


async def test_a_pattern_that_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(apart.SECONDS, "report", 1.0)
    with pytest.raises(apart.TooMuch, match="took longer than 1 s"):
        await apart.evaluate(Shell(tmp_path), "report", given(tmp_path, "(?P<input_tokens>(a+)+)b", "a" * 60))


async def test_what_breaks_says_so(tmp_path: Path) -> None:
    with pytest.raises(apart.TooMuch, match="could not be evaluated: KeyError: 'parts'"):
        await apart.evaluate(Shell(tmp_path), "report", {"format": {}})
