"""What agentsmith tells about itself: why a ticket did or did not run, and how fast the queue is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import SLOW, Cli
from tests.support.embedded import servers_of
from tests.support.wait import wait_until

CONFIG = """\
consumer: {slots: 1, drain_timeout: 200ms, kill_grace: 500ms, stop_poll: 20ms}
trackers:
  local: {platform: local, poll_interval: 50ms}
triggers:
  - {label: agent-smith, pipeline: held}
pipelines:
  held: {steps: [{run: 'until [ -e "$HOME/go" ]; do sleep 0.05; done'}]}
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    cli.configure(CONFIG)
    yield cli
    assert servers_of(cli.data) == []


async def test_why_tells_what_stopped_a_ticket_and_what_lets_it_run(cli: Cli) -> None:
    async def answer(key: str) -> dict[str, Any]:
        """What `why` says, once it knows of a look."""
        told: dict[str, Any] = {}

        async def asked() -> bool:
            told.update(await asyncio.to_thread(cli.json, "why", key))
            return bool(told["looks"])

        await wait_until(asked, what=f"ticket {key} was looked at", within=SLOW)
        return told

    with cli.up() as daemon:
        await daemon.ready()
        key = await cli.new("Wait for me")
        assert "not looked at within the last 30 days" in cli.run("why", key).stdout

        # No trigger: the signal of the command has it looked at, and the gate says what is missing.
        cli.run("ticket", "label", key, "mine")
        told = await answer(key)
        (rejected,) = told["looks"]
        assert (told["ticket"], told["reachable"], told["now"]) == (
            "local/tickets#1",
            True,
            "neither queued nor running",
        )
        shut = [(gate["gate"], gate["remedy"]) for gate in rejected["gates"] if not gate["passed"]]
        assert (rejected["outcome"], shut) == ("Rejected", [("one trigger matches", "add one of: 'agent-smith'")])
        shown = cli.run("why", key).stdout
        assert "so: it was not claimed: no trigger label is on the ticket" in shown
        assert [line for line in shown.splitlines() if "loop limit" in line and "not looked at" in line]

        # Claimed and running, with a second one behind it.
        async with cli.desk() as desk:
            await desk.label(key, "agent-smith", actor="ann")
        await cli.wait_for_label(key, "agent-smith:in-progress")
        second = await cli.new("Behind it", "agent-smith")
        await cli.wait_for_label(second, "agent-smith:enqueued")
        told = await answer(key)
        assert told["now"].startswith("running: run ")
        claimed = next(look for look in told["looks"] if look["outcome"] == "Claimed")
        assert {gate["passed"] for gate in claimed["gates"]} == {True}
        assert (await answer(second))["now"] == "queued: 0 before it"

        # Finished: the lease is given back before the label says so.
        for folder in (cli.data / "workspaces").glob("local.*"):
            (folder / "home" / "go").touch()
        await cli.wait_for_label(key, "agent-smith:done")
        told = await answer(key)
        assert (told["now"], told["stop_requested"]) == ("neither queued nor running", None)
        assert told["looks"][0]["outcome"] == "Rejected"


def test_why_and_quota_without_a_daemon_say_that_nothing_is_known(cli: Cli) -> None:
    key = cli.json("ticket", "new", "--title", "Nobody is there")["key"]
    assert cli.json("why", key) == {"ticket": "local/tickets#1", "reachable": False, "now": None, "looks": None}
    assert "nothing is known" in cli.run("why", key).stdout
    assert cli.json("quota") == {"reachable": False, "credentials": None}
    assert "nothing is known" in cli.run("quota").stdout


def test_why_of_what_names_no_ticket_is_bad_input(cli: Cli) -> None:
    assert "name a ticket by its key (3)" in cli.run("why", "seven", code=2).stderr
