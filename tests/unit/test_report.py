"""The comment: it says how the ticket stands, and output in it stays output."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentsmith.domain.lifecycle import Status
from agentsmith.domain.report import StepLine, account, duration_text, fenced, in_queue, sticky_text


def code_blocks(markdown: str) -> list[str]:
    """The contents of the fenced code blocks, by CommonMark's rule for what closes one."""
    blocks: list[str] = []
    fence = ""
    for line in markdown.split("\n"):
        if fence:
            if re.fullmatch(rf" {{0,3}}`{{{len(fence)},}} *", line):
                fence = ""
            else:
                blocks[-1] += line + "\n"
        elif opened := re.fullmatch(r" {0,3}(`{3,})[^`]*", line):
            fence = opened[1]
            blocks.append("")
    assert not fence, "left open"
    return blocks


@given(st.text(st.sampled_from("`\n a~>#")) | st.text())
@example("```")
@example("```\n````\n```text")
@example("`" * 50)
@example("no newline at the end")
@example("")
def test_output_cannot_leave_its_block(output: str) -> None:
    assert code_blocks(f"before\n\n{fenced(output)}\n\nafter") == [output.rstrip() + "\n"]


@pytest.mark.parametrize("status", [*Status, None])
def test_the_comment_says_how_the_ticket_stands(status: Status | None) -> None:
    text = sticky_text(status, run="r-1", attempt=2, note="because")
    assert text.startswith("**agentsmith**: this ticket ")
    assert "Run `r-1`, attempt 2" in text
    assert "\n\nbecause\n" in text
    assert ("agentsmith retry" in text) == (status is Status.FAILED)


def test_what_befell_earlier_runs_is_told_below() -> None:
    text = sticky_text(Status.ENQUEUED, run="r-3", history=("run r-1 died", "run r-2 died"))
    assert "Before that:\n- run r-1 died\n- run r-2 died\n" in text
    assert "Before that" not in sticky_text(Status.ENQUEUED, run="r-3")


def test_every_status_has_words_of_its_own() -> None:
    headlines = {sticky_text(status, run="r").splitlines()[0] for status in (*Status, None)}
    assert len(headlines) == len(Status) + 1


def test_a_first_comment_counts_no_attempt() -> None:
    assert sticky_text(Status.ENQUEUED, run="r-1").endswith("Run `r-1`")


STEPS = (
    StepLine("checkout", "done", 2.04),
    StepLine("agent: claude", "running", None, "reading `x` @everyone\n<b>"),
    StepLine("verify", "red", 65.0),
    StepLine("deploy", "timed out", 4000.0),
    StepLine("publish", "skipped"),
    StepLine("notify", "waiting"),
)


def test_a_run_is_told_step_by_step_with_its_end_and_what_to_do() -> None:
    text = account(note="It failed.", steps=STEPS, output="line\n" * 3000, links=("see there",), hints=("do this",))
    assert text.startswith("It failed.\n\n- ✅ `checkout` (2.0 s)\n")
    assert "- ▶️ `agent: claude` — `reading 'x' @everyone <b>`" in text
    assert "- 🟥 `verify` (65 s)" in text
    assert "- ❌ `deploy` (1 h 7 min) — timed out" in text
    assert "- ⏭️ `publish`\n- ⬜ `notify`" in text
    assert "\n\nsee there\n\n<details><summary>The last of its output</summary>\n\n```text\n" in text
    assert text.endswith("</details>\n\ndo this")
    assert len(text) < 5000


def test_a_run_with_nothing_to_tell_says_nothing() -> None:
    assert account() == ""
    assert account(output="  \n") == ""


@given(st.text())
def test_the_names_of_steps_cannot_become_markup(name: str) -> None:
    line = account(steps=[StepLine(name, "done")])
    assert "\n" not in line
    assert line.count("`") in (0, 2)


@pytest.mark.parametrize(("before", "said"), [(0, "next in the queue"), (2, "number 3 in the queue")])
def test_the_place_in_the_queue(before: int, said: str) -> None:
    assert said in in_queue(before)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0.0 s"), (0.34, "0.3 s"), (12.4, "12 s"), (119, "119 s"), (300, "5 min"), (4800, "1 h 20 min")],
)
def test_spans_as_people_say_them(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
