"""The command line as a person uses it: real processes, a real Redis, the built-in tracker."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentsmith.domain.ticket import slug
from agentsmith.store.server.binary import find_binary
from tests.support.cli import SLOW, Cli, command
from tests.support.embedded import servers_of
from tests.support.private import open_to_others
from tests.support.processes import descendants, is_alive
from tests.support.wait import wait_until

CONFIG = """\
consumer: {slots: 1, drain_timeout: 200ms, kill_grace: 500ms, stop_poll: 20ms}
trackers:
  local: {platform: local, poll_interval: 50ms}
triggers:
  - {label: agent-smith, pipeline: quick}
  - {label: agent-smith:long, pipeline: long}
  - {label: agent-smith:bad, pipeline: bad}
pipelines:
  quick: {steps: [{run: "true"}]}
  long: {steps: [{run: 'echo $$ > "$HOME/pid"; sleep 600'}]}
  bad: {steps: [{run: "echo this is why >&2; exit 3"}]}
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    cli.configure(CONFIG)
    yield cli
    assert servers_of(cli.data) == []


async def test_label_a_ticket_and_its_label_tells_how_it_went(cli: Cli) -> None:
    # What happens at once, happened by the signal that the command sent.
    cli.configure(CONFIG.replace("poll_interval: 50ms", "poll_interval: 1h"))
    with cli.up() as daemon:
        served = await daemon.ready()
        url = f"http://127.0.0.1:{served['port']}/readyz"
        assert (await asyncio.to_thread(urllib.request.urlopen, url)).read() == b"ready\n"
        made = cli.json("ticket", "new", "--title", "Say hello", "--label", "agent-smith", "--label", "mine")
        await cli.wait_for_label(made["key"], "agent-smith:done")
        failing = cli.json("ticket", "new", "--title", "Break")["key"]
        assert cli.run("ticket", "label", failing, "agent-smith:bad").stderr == ""
        await cli.wait_for_label(failing, "agent-smith:failed")
        shown = cli.json("ticket", "show", failing)
        assert shown["labels"] == ["agent-smith:bad", "agent-smith:failed"]
        assert "this is why" in shown["comments"][0]["body"]
        assert "this is why" in cli.run("ticket", "show", failing).stdout
        assert open_to_others(cli.data) == [], "tickets and records are for our user alone"
        daemon.signal(signal.SIGTERM)
        assert await daemon.exit_code() == 0
    assert open_to_others(cli.data) == []
    listed = cli.run("ticket", "list").stdout.splitlines()
    assert [line.split()[:2] for line in listed[1:]] == [["1", "done"], ["2", "failed"]]


async def test_status_shows_queue_runs_and_processes(cli: Cli) -> None:
    with cli.up() as daemon:
        await daemon.ready()
        for number in (1, 2, 3):
            await cli.new(f"Number {number}", "agent-smith:long")
            label = "agent-smith:in-progress" if number == 1 else "agent-smith:enqueued"
            await cli.wait_for_label(str(number), label)
        await _child_of(cli, "1")
        seen = cli.json("status")
        assert seen["queued"] == 2
        [running] = seen["running"]
        assert (running["title"], running["pipeline"], bool(running["step"])) == ("Number 1", "long", True)
        assert seen["redis"]["reachable"] is True
        assert [(q["position"], q["key"], q["pipeline"], q["title"]) for q in seen["queue"]] == [
            (1, "2", "long", "Number 2"),
            (2, "3", "long", "Number 3"),
        ]
        assert [(r["key"], r["alive"]) for r in seen["running"]] == [("1", True)]
        (process,) = seen["processes"]
        assert process["pid"] == daemon.process.pid
        assert process["roles"] == ["consumer", "housekeeping", "poller", "receiver"]
        assert {leader["role"]: leader["holder"] for leader in seen["leaders"]} == dict.fromkeys(
            ("poller", "housekeeping"), process["name"]
        )
        assert seen["dead_letters"] == 0
        text = cli.run("status").stdout
        assert "Running: 1" in text
        assert "agentsmith ticket list --label agent-smith:failed" in text
        assert cli.json("dead-letters", "list") == []
        await _watch_twice(cli)


async def _watch_twice(cli: Cli) -> None:
    watching = await asyncio.create_subprocess_exec(
        *command("status", "--watch"), cwd=cli.folder, env=cli.environ, stdout=asyncio.subprocess.PIPE
    )
    assert watching.stdout is not None
    shown = 0
    async with asyncio.timeout(SLOW):
        while shown < 2:
            shown += b"Queued: 2" in await watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        rest = await watching.stdout.read()
    assert b"Traceback" not in rest
    assert await watching.wait() == 130


def test_status_of_nothing_starts_nothing(cli: Cli) -> None:
    seen = cli.json("status")
    assert seen["redis"]["reachable"] is False
    assert seen["queue"] is None
    assert [f["status"] for f in seen["filters"]] == ["pending", "enqueued", "in-progress", "waiting", "done", "failed"]
    told = cli.run("ticket", "new", "--title", "Later", "--label", "agent-smith")
    assert "start one: agentsmith up" in told.stderr
    assert not (cli.data / "redis").exists()


async def test_cancel_stops_a_run_and_empties_the_queue(cli: Cli) -> None:
    with cli.up() as daemon:
        await daemon.ready()
        await cli.new("Long", "agent-smith:long")
        child = await _child_of(cli, "1")
        await cli.new("Queued", "agent-smith:long")
        await cli.wait_for_label("2", "agent-smith:enqueued")
        assert cli.json("cancel", "2", "--actor", "ann")["outcome"] == "unqueued"
        assert "Stopped before it started: cancelled by ann" in await cli.comments("2")
        assert cli.run("cancel", "local:1", "--actor", "ann").stdout.startswith("local/tickets#1 was stopped")
        assert not is_alive(child)
        assert "Stopped: cancelled by ann" in await cli.comments("1")
        for key in ("1", "2"):
            assert "agent-smith:failed" in (await cli.ticket(key)).labels
        told = cli.run("cancel", "1", code=1)
        assert told.stderr == "local/tickets#1 is neither running nor queued: its label says failed\n"
        closed = await cli.new("Closed")
        async with cli.desk() as desk:
            await desk.close(closed, actor="ann")
            await desk.label(closed, "agent-smith:long", actor="ann")
        assert "it is closed, and so it will not start" in cli.run("cancel", closed, code=1).stderr


async def _child_of(cli: Cli, key: str) -> int:
    """The process that works on the ticket, once it does."""
    noted = cli.data / "workspaces" / slug(key, "local") / "home" / "pid"
    await wait_until(lambda: noted.exists() and bool(noted.read_text().strip()), what="it runs", within=SLOW)
    return int(noted.read_text())


async def test_retry_runs_it_again(cli: Cli) -> None:
    with cli.up() as daemon:
        await daemon.ready()
        await cli.new("Break", "agent-smith:bad")
        await cli.wait_for_label("1", "agent-smith:failed")
        runs = cli.data / "runs"
        assert len(list(runs.iterdir())) == 1
        # A daemon that is kept waiting by its machine for more than five seconds was `sent` the wish, and no more.
        assert cli.json("retry", "1")["outcome"] in ("enqueued", "started", "ended", "sent")
        await wait_until(lambda: len(list(runs.iterdir())) == 2, what="a second run", within=SLOW)
        await cli.wait_for_label("1", "agent-smith:failed")
        await cli.new("Long", "agent-smith:long")
        await cli.wait_for_label("2", "agent-smith:in-progress")
        await wait_until(lambda: cli.json("retry", "2")["outcome"] == "follow-up", what="it is noted", within=SLOW)
        assert cli.run("retry", "2").stdout == "local/tickets#2 is running; it will run once more afterwards\n"
        told = cli.run("retry", await cli.new("Idle"), code=1)
        assert "no trigger label is on the ticket" in told.stderr


async def test_retry_without_a_daemon_waits_for_one(cli: Cli) -> None:
    await cli.new("Old", "agent-smith", "agent-smith:failed")
    assert "as soon as a daemon is up" in cli.run("retry", "1").stdout
    with cli.up() as daemon:
        await daemon.ready()
        await cli.wait_for_label("1", "agent-smith:done")


async def test_roles_can_be_split_over_processes(cli: Cli) -> None:
    with (
        cli.up("--role", "poller", "--role", "housekeeping") as first,
        cli.up("--role", "consumer") as second,
        cli.up("--role", "receiver") as third,
    ):
        for daemon in (first, second, third):
            await daemon.ready()
        assert [p["roles"] for p in sorted(cli.json("status")["processes"], key=lambda p: str(p["roles"]))] == [
            ["consumer"],
            ["housekeeping", "poller"],
            ["receiver"],
        ]
        await cli.new("Together", "agent-smith")
        await cli.wait_for_label("1", "agent-smith:done")


async def test_a_stop_is_bounded_and_gives_the_run_back(cli: Cli) -> None:
    with cli.up() as daemon:
        await daemon.ready()
        await cli.new("Long", "agent-smith:long")
        await cli.wait_for_label("1", "agent-smith:in-progress")
        daemon.signal(signal.SIGINT)
        assert await daemon.exit_code() == 0
        assert "agent-smith:enqueued" in (await cli.ticket("1")).labels


async def test_a_second_signal_ends_at_once(cli: Cli) -> None:
    cli.configure(CONFIG.replace("drain_timeout: 200ms", "drain_timeout: 10m"))
    with cli.up() as daemon:
        await daemon.ready()
        await cli.new("Long", "agent-smith:long")
        child = await _child_of(cli, "1")
        daemon.signal(signal.SIGTERM)
        await wait_until(lambda: daemon.event("draining") is not None, what="it drains", within=SLOW)
        started = descendants(daemon.process.pid)
        assert child in started
        daemon.signal(signal.SIGTERM)
        assert await daemon.exit_code() == 130
        await wait_until(lambda: not is_alive(child), what="its guard ended the run", within=SLOW)
        # Nothing waits for a server that ended with its daemon, as whoever gives the lease back did for 100 seconds.
        await wait_until(lambda: not [pid for pid in started if is_alive(pid)], what="nothing is left", within=SLOW)


async def test_a_role_that_dies_ends_the_process_with_the_cause(cli: Cli) -> None:
    once = cli.folder / "once"
    once.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] || mkdir "{cli.folder}/started" || exit 1\nexec "{find_binary(None)}" "$@"\n'
    )
    once.chmod(0o755)
    cli.configure(f"redis: {{server: {once}}}\n")
    with cli.up() as daemon:
        await daemon.ready()
        for pid in servers_of(cli.data):
            os.kill(pid, signal.SIGKILL)
        assert await daemon.exit_code() == 2
        last = daemon.log.read_text().splitlines()[-1]
        assert last.startswith("error: ")
        assert "embedded Redis server" in last
        assert "Traceback" not in daemon.log.read_text()


async def test_a_tracker_that_is_away_stops_nothing(cli: Cli) -> None:
    web = "web: {platform: github, repository: acme/web, token: secret, base_url: 'http://127.0.0.1:1'}"
    cli.configure(CONFIG.replace("trackers:", f"trackers:\n  {web}"))
    await cli.new("Nearby", "agent-smith")
    with cli.up() as daemon:
        await daemon.ready()
        warned = daemon.event("the tracker does not answer, it will be asked again")
        assert warned is not None
        assert warned["tracker"] == "web"
        await cli.wait_for_label("1", "agent-smith:done")
        told = cli.run("ticket", "show", "web:1", code=2)
        assert "tracker 'web' is not local but github" in told.stderr


def test_a_reader_that_leaves_is_no_trouble(cli: Cli) -> None:
    line = " ".join(command("config", "schema"))
    done = subprocess.run(
        ["/bin/sh", "-c", f"{line} | head -c 1"], cwd=cli.folder, env=cli.environ, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("{", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete_commands(cli: Cli, shell: str) -> None:
    script = cli.run(environ={"_AGENTSMITH_COMPLETE": f"source_{shell}"}).stdout
    assert "agentsmith" in script
    words = {"bash": {"COMP_WORDS": "agentsmith dead-", "COMP_CWORD": "1"}}.get(
        shell, {"_TYPER_COMPLETE_ARGS": "agentsmith dead-", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    )
    found = cli.run(environ={"_AGENTSMITH_COMPLETE": f"complete_{shell}", **words}).stdout
    assert "dead-letters" in found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete_names(cli: Cli, shell: str) -> None:
    cli.run("ticket", "new", "--title", "$(touch evil); `touch evil`", "--label", "x")
    cli.run("run", "1", "--", "true")
    [run] = cli.json("runs")

    def offered(*words: str) -> str:
        line = " ".join(["agentsmith", *words])
        told = {"COMP_WORDS": line, "COMP_CWORD": str(len(words)), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
        told |= {"_TYPER_COMPLETE_ARGS": line, "_AGENTSMITH_COMPLETE": f"complete_{shell}"}
        done = cli.run(environ=told)
        assert (done.stderr, "evil" in done.stdout) == ("", False)
        return done.stdout

    assert "fix-bug" in offered("run", "1", "--pipeline", "fix")
    assert run["run"] in offered("logs", run["run"][:4])
    assert "1" in offered("why", "1").split("arguments")[-1]
    assert "local" in offered("webhooks", "check", "lo")
    cli.configure("nonsense: [")
    assert "fix-bug" not in offered("run", "1", "--pipeline", "fix")


def test_beside_json_everything_goes_to_standard_error(cli: Cli) -> None:
    done = cli.run("ticket", "new", "--title", "x", "--label", "agent-smith", "--json")
    assert json.loads(done.stdout)["key"] == "1"
    assert "agentsmith up" in done.stderr
