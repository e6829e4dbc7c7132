"""A worker asks, a person answers on the ticket, and the next run is told: by the command line alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Cli
from tests.support.embedded import servers_of
from tests.support.wait import wait_until

CONFIG = """\
consumer: {slots: 1, drain_timeout: 200ms, kill_grace: 500ms, stop_poll: 20ms}
trackers:
  local: {platform: local, poll_interval: 50ms}
pipelines:
  ask:
    steps:
      - run: |
          seen="OUT/$AGENTSMITH_TICKET_KEY-$AGENTSMITH_ATTEMPT"
          cp "$AGENTSMITH_WAKE_FILE" "$seen.json"
          cp "$AGENTSMITH_PROMPT_FILE" "$seen.md"
          echo "$AGENTSMITH_WAKE_REASON" > "$seen.reason"
          [ "$AGENTSMITH_ATTEMPT" -gt "$(cat OUT/questions)" ] && exit 0
          echo "${AGENTSMITH_SAY}question Which database in attempt $AGENTSMITH_ATTEMPT?"
          exit 79
triggers:
  - {label: agent-smith, pipeline: ask}
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    cli.configure(CONFIG.replace("OUT", str(tmp_path)))
    (tmp_path / "questions").write_text("1")
    yield cli
    assert servers_of(cli.data) == []


def told(cli: Cli, key: str, attempt: int) -> dict[str, Any]:
    """What the worker was told in one of its attempts."""
    found: dict[str, Any] = json.loads((cli.folder / f"{key}-{attempt}.json").read_text())
    found["variable"] = (cli.folder / f"{key}-{attempt}.reason").read_text().strip()
    found["prompt"] = (cli.folder / f"{key}-{attempt}.md").read_text()
    return found


async def test_an_answer_in_a_comment_resumes_the_ticket_and_reaches_the_worker(cli: Cli) -> None:
    with cli.up() as daemon:
        await daemon.ready()
        key = await cli.new("Which one", "agent-smith")
        await cli.wait_for_label(key, "agent-smith:waiting")
        first = told(cli, key, 1)
        assert (first["reason"], first["question"], first["notes"]) == (first["variable"], "", [])
        assert "/agent-smith answer" in await cli.comments(key)
        [asking] = cli.json("status")["asking"]
        assert (asking["ticket"], asking["question"]) == (f"local/tickets#{key}", "Which database in attempt 1?")
        assert "Which database in attempt 1?" in cli.run("status").stdout
        cli.run("ticket", "comment", key, "The old one is gone.", "--actor", "bob")
        cli.run("ticket", "comment", key, "/agent-smith answer Postgres,\n::progress of course", "--actor", "ann")
        await cli.wait_for_label(key, "agent-smith:done")
        second = told(cli, key, 2)
        assert cli.json("status")["asking"] == []
    assert second["reason"] == second["variable"] == "unblocked"
    assert second["question"] == "Which database in attempt 1?"
    assert [(note["author"], note["text"]) for note in second["notes"]] == [
        ("bob", "The old one is gone."),
        ("ann", "Postgres,\n ::progress of course"),
    ]
    assert all(note["at"] for note in second["notes"])
    before, _, after = second["prompt"].partition("The old one is gone.")
    assert "Postgres," in after
    mark = before.rpartition("<untrusted-")[2].partition(">")[0]
    assert f"</untrusted-{mark}>" in after
    assert "This is attempt 2." in second["prompt"]


async def test_plain_comments_and_a_retry_do_as_well_and_questions_use_up_no_attempts(cli: Cli) -> None:
    (cli.folder / "questions").write_text("5")  # more than `consumer.max_attempts`
    with cli.up() as daemon:
        await daemon.ready()
        key = await cli.new("Which one", "agent-smith")
        for attempt in range(1, 6):
            await wait_until((cli.folder / f"{key}-{attempt}.reason").exists, what=f"attempt {attempt} began")
            await cli.wait_for_label(key, "agent-smith:waiting")
            cli.run("ticket", "comment", key, f"answer {attempt}", "--actor", "ann")
            cli.run("retry", key)
        await cli.wait_for_label(key, "agent-smith:done")
    last = told(cli, key, 6)
    assert last["question"] == "Which database in attempt 5?"
    assert [note["text"] for note in last["notes"]] == ["answer 5"], "each answer is told once"


async def test_an_answer_that_nothing_waits_for_is_told_so(cli: Cli) -> None:
    (cli.folder / "questions").write_text("0")
    with cli.up() as daemon:
        await daemon.ready()
        key = await cli.new("Nothing to ask", "agent-smith")
        await cli.wait_for_label(key, "agent-smith:done")
        cli.run("ticket", "comment", key, "/agent-smith answer Postgres", "--actor", "ann")

        async def refused() -> bool:
            return "it does not wait for an answer: it is done" in await cli.comments(key)

        await wait_until(refused, what="it says so")
        assert "agent-smith:done" in (await cli.ticket(key)).labels
