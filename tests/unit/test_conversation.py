"""Commands in comments: the first line, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentsmith.domain.conversation import CommentCommand, Verb, command_in


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/agent-smith retry", CommentCommand(Verb.RETRY, "retry")),
        ("  /Agent-Smith   CANCEL  \nbecause I say so", CommentCommand(Verb.CANCEL, "cancel", "because I say so")),
        ("/agent-smith why\r\n", CommentCommand(Verb.WHY, "why")),
        ("\u200b/agent-smith why", CommentCommand(Verb.WHY, "why")),
        ("/agent-smith", CommentCommand(None, "")),
        ("/agent-smith dance", CommentCommand(None, "dance")),
        ("/agent-smith retry please", CommentCommand(None, "retry please")),
        (
            "/agent-smith answer  Use  Postgres\n\nand this",
            CommentCommand(Verb.ANSWER, "answer", "Use  Postgres\n\nand this"),
        ),
        ("/agent-smith ANSWER\r\nbelow", CommentCommand(Verb.ANSWER, "answer", "below")),
        ("/agent-smith answer", CommentCommand(Verb.ANSWER, "answer")),
        ("/agent-smith answers", CommentCommand(None, "answers")),
        ("/agent-smithy retry", None),
        ("agent-smith retry", None),
        ("Please say\n/agent-smith retry", None),
        ("> /agent-smith retry", None),
        ("`/agent-smith retry`", None),
        ("", None),
        ("\n/agent-smith retry", None),
    ],
)
def test_only_the_first_line_counts(text: str, command: CommentCommand | None) -> None:
    assert command_in(text, "agent-smith") == command


def test_another_prefix_is_another_name() -> None:
    assert command_in("/bot retry", "bot") == CommentCommand(Verb.RETRY, "retry")
    assert command_in("/agent-smith retry", "bot") is None


@given(st.text(max_size=80))
def test_whatever_people_write_is_read(text: str) -> None:
    found = command_in(text, "agent-smith")
    assert found is None or text.lstrip("\ufeff\u200b").lstrip().casefold().startswith("/agent-smith")
