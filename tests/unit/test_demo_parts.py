"""The parts of the demo that need no process: its plan, its configuration, its timeline."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from agentsmith.cli import demo_command
from agentsmith.demo.actors import gathered
from agentsmith.demo.stage import CODE_TRIGGERS, ENGINE, TRIGGERS, Stage, StageFright, write_config
from agentsmith.demo.story import Played, is_alive, plan
from agentsmith.demo.timeline import Moment, Timeline, moment_of
from agentsmith.demo.venue import LocalVenue, Seen
from agentsmith.domain.lifecycle import Status
from agentsmith.simulators.playgrounds import PLAYGROUNDS
from tests.support.cli import SLOW, quiet_logs


def line(event: str = "transition", **fields: object) -> bytes:
    """A log line as the processes write it."""
    told = {
        "timestamp": "2026-01-02T03:04:05.678Z",
        "event": event,
        "ticket": "local/demo#3",
        "run": "r1",
        "from": "enqueued",
        "to": "in-progress",
        "outcome": "started",
        **fields,
    }
    return json.dumps(told).encode() + b"\n"


@pytest.mark.parametrize("coding", [False, True])
@pytest.mark.parametrize("count", [3, 6, 50])
def test_one_ticket_fails_one_loses_its_consumer_the_others_succeed(count: int, coding: bool) -> None:
    parts = plan(count, coding=coding)
    assert len(parts) == count
    assert [part.ends for part in parts].count(Status.FAILED) == 1
    assert [part.killed for part in parts].count(True) == 1
    assert len({part.title for part in parts}) == count
    assert {part.trigger for part in parts} == set(CODE_TRIGGERS if coding else TRIGGERS)
    assert [part.coding for part in parts if part.killed] == [coding]


@pytest.mark.parametrize("speed", [1, 7, 20, 40])
def test_the_configuration_holds_at_every_speed(speed: float, tmp_path: Path) -> None:
    config = write_config(tmp_path, 1 / speed, "local", LocalVenue.settings)
    assert float(config.lease.ttl) == pytest.approx(120 / speed)
    assert float(config.housekeeping.sweep_every) == pytest.approx(5 / speed)
    assert float(config.trackers["local"].poll_interval) == pytest.approx(2 / speed)
    assert config.consumer.slots == 1
    assert config.data_dir.is_relative_to(tmp_path)


@pytest.mark.parametrize("platform", ["github", "gitlab", "azure-devops"])
def test_a_code_host_has_a_pipeline_that_ends_in_a_pull_request(platform: str, tmp_path: Path) -> None:
    config = write_config(tmp_path, 0.05, platform, PLAYGROUNDS[platform]().tracker(), coding=True)
    kinds = [step.kind for step in config.pipelines["implement"].steps]
    assert kinds == ["checkout", "agent", "verify", "commit", "push", "pull_request"]
    assert config.run.checkpoint_every is not None
    assert config.code_of(platform) is not None


def test_a_transition_becomes_a_moment() -> None:
    moment = moment_of("consumer-1", line())
    assert moment == Moment(1767323045.678, "started", "3", "consumer-1", "r1", "enqueued", "in-progress")
    assert moment.ms(1767323045.0) == 678


@pytest.mark.parametrize(
    ("ticket", "key"), [("127.0.0.1:80/acme/web#12", "12"), ("acme.atlassian.net/WEB-12", "WEB-12")]
)
def test_the_key_is_the_end_of_every_platforms_id(ticket: str, key: str) -> None:
    moment = moment_of("engine", line(ticket=ticket))
    assert moment is not None
    assert moment.ticket == key


def test_a_ticket_has_ended_once_it_shows_one_final_label_and_the_log_tells_it() -> None:
    played = Played(Timeline({}))
    ended, between = frozenset({"mine", "agent-smith:done"}), frozenset({"agent-smith:in-progress", "agent-smith:done"})
    for labels, told, open_ in ((between, "done", ["1"]), (ended, "in-progress", ["1"]), (ended, "done", [])):
        played.timeline.note(Moment(0.0, "", ticket="1", to=told))
        played.tickets = {"1": Seen("1", "x", labels)}
        assert played.open == open_, (labels, told)
        played.timeline.moments.clear()


@pytest.mark.parametrize("text", [b"", b"no json", b"[]", line("up")])
def test_other_lines_are_no_moments(text: bytes) -> None:
    assert moment_of("engine", text) is None


def test_the_timeline_reads_whole_lines_once_and_sorts_them(tmp_path: Path) -> None:
    logs = {"a": tmp_path / "a.log", "b": tmp_path / "b.log"}
    timeline = Timeline(logs)
    assert timeline.catch_up() == []
    late, early = line(timestamp="2026-01-02T03:04:06.000Z"), line(timestamp="2026-01-02T03:04:05.000Z", ticket="x#1")
    logs["a"].write_bytes(late + early[:20])
    assert [moment.ticket for moment in timeline.catch_up()] == ["3"]
    with logs["a"].open("ab") as log:
        log.write(early[20:])
    assert [moment.ticket for moment in timeline.catch_up()] == ["1"]
    assert timeline.catch_up() == []
    assert [moment.ticket for moment in timeline.in_order()] == ["1", "3"]
    assert [moment.to for moment in timeline.moves("3")] == ["in-progress"]


def test_a_dead_process_is_not_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(process.pid)  # a zombie by now
    assert not is_alive(process.pid)
    assert is_alive(os.getpid())


def played(*, as_json: bool) -> bool:
    return demo_command.demo(tracker="local", tickets=6, speed=20, keep=False, as_json=as_json, program=lambda _: 0)


def test_a_process_that_gets_its_part_runs_it_where_it_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTSMITH_DATA_DIR", "/absent")

    def program(arguments: Sequence[str]) -> int:
        told = (*arguments, os.getcwd(), os.environ.get("AGENTSMITH_DATA_DIR"), os.getpgrp() == os.getpid())
        os.write(1, " ".join(map(str, told)).encode())
        return 7

    with gathered(2, program) as troupe:
        process = troupe.start(["up", "--role", "poller"], tmp_path, tmp_path / "log")
        assert process.wait(SLOW) == 7
        assert process.poll() == 7
        process.send_signal(signal.SIGTERM)  # to nobody: its number may be somebody else's by now
    assert (tmp_path / "log").read_text() == f"up --role poller {tmp_path} None True"


def test_a_process_is_killed_by_its_pid(tmp_path: Path) -> None:
    def program(_: Sequence[str]) -> int:
        signal.pause()
        return 0

    with gathered(1, program) as troupe:
        process = troupe.start([], tmp_path, tmp_path / "log")
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0)
        process.kill()
        assert process.wait(SLOW) == -signal.SIGKILL


def test_where_a_fork_is_not_safe_processes_are_started_afresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    with gathered(1, lambda _: 7) as troupe:
        process = troupe.start(["--version"], tmp_path, tmp_path / "log")
        assert process.wait(SLOW) == 0
    assert (tmp_path / "log").read_text().startswith("agentsmith ")


async def test_the_play_waits_until_the_engine_says_where_it_listens(tmp_path: Path) -> None:
    config = write_config(tmp_path, 1.0, "local", LocalVenue.settings)
    log, looks, connected = tmp_path / f"{ENGINE}.log", iter(range(9)), list[Any]()
    told = ["", '{"event": "up"}\n{"event": "serv', '{"event": "up"}\n{"event": "serving", "port": 4711}\n']

    async def alive() -> list[int]:
        log.write_text(told[next(looks)])
        return [1, 2, 3]

    parts: Any = {
        "store": SimpleNamespace(presence=SimpleNamespace(alive=alive)),
        "tracker": SimpleNamespace(name="local"),
        "venue": SimpleNamespace(connect=connected.append),
        "troupe": SimpleNamespace(start=lambda *_: SimpleNamespace(poll=lambda: None)),
    }
    await Stage(tmp_path, config, **parts).raise_curtain()
    assert [engine.receiver.partition("/webhooks")[0] for engine in connected] == [f"http://{config.server.host}:4711"]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_process_that_dies_is_told_and_cleared_away(
    as_json: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def no_show(*_: object, **__: object) -> NoReturn:
        raise StageFright("the demo's process 'engine' ended with exit code 2: error: why")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(demo_command, "_interruptible", no_show)
    with quiet_logs():
        assert played(as_json=as_json) is False
    shown = capsys.readouterr()
    assert shown.err == "error: the demo's process 'engine' ended with exit code 2: error: why\n"
    assert (json.loads(shown.out)["ok"] is False) if as_json else (shown.out == "")
    assert list(tmp_path.iterdir()) == []
