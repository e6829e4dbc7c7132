"""The comment: it says how the ticket stands, and output in it stays output."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentsmith.domain.lifecycle import Status
from agentsmith.domain.report import fenced, sticky_text


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
