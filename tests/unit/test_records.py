"""The record of a run: written whole, read back, listed and pruned."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from agentsmith.config import Pipeline
from agentsmith.pipelines.outcome import StepEnd, Verdict, done
from agentsmith.pipelines.record import FOLDER, Recorder, RunRecord, prune, read, records
from agentsmith.pipelines.worker import Usage
from tests.support.stores import a_request

PIPELINE = Pipeline.model_validate({"steps": [{"run": "make"}, {"run": "make test", "id": "test"}, {"run": "deploy"}]})


def recorder(data: Path, run: str = "r-1") -> Recorder:
    folder = data / FOLDER / run
    folder.mkdir(parents=True)
    return Recorder(folder, a_request(run=run), PIPELINE, fence=7, platform="local")


def test_a_run_is_told_as_it_goes(tmp_path: Path) -> None:
    keeping = recorder(tmp_path)
    keeping.begin(0)
    [live] = records(tmp_path)
    assert [step.state for step in live.steps] == ["running", "waiting", "waiting"]
    assert live.ended is None
    keeping.end(0, done())
    keeping.begin(1)
    keeping.begin(1)
    keeping.spent(1, Usage(10, 2, 0.5))
    keeping.end(1, StepEnd(Verdict.FAILED, "no", "output", code=3, truncated=True))
    keeping.skip(2)
    keeping.conclude("failed", "step failed", "no")
    told = read(tmp_path, "r-1")
    assert told == keeping.record
    assert [(step.id, step.state, step.tries, step.code) for step in told.steps] == [
        ("", "done", 1, None),
        ("test", "failed", 2, 3),
        ("", "skipped", 0, None),
    ]
    assert told.usage == {"input_tokens": 10, "output_tokens": 2, "cost_usd": 0.5}
    assert told.ended is not None
    assert told.steps[1].duration is not None
    data = json.loads((tmp_path / FOLDER / "r-1" / "run.json").read_text())
    assert (data["version"], data["ticket"], data["status"]) == (1, told.ticket, "failed")


def test_a_run_that_is_cut_short_has_no_step_left_running(tmp_path: Path) -> None:
    keeping = recorder(tmp_path)
    keeping.begin(0)
    keeping.conclude(None, "withdrawn", "")
    assert [step.state for step in keeping.record.steps] == ["stopped", "waiting", "waiting"]


def test_a_full_disk_does_not_end_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeping = recorder(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    keeping.begin(0)
    assert keeping.record.steps[0].state == "running"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 99}', '{"version": 1, "steps": 5}', "[" * 100_000])
def test_what_is_no_record_is_left_out(tmp_path: Path, text: str) -> None:
    assert RunRecord.from_json(text) is None
    recorder(tmp_path, "good").save()
    folder = tmp_path / FOLDER / "bad"
    folder.mkdir()
    (folder / "run.json").write_text(text)
    assert [record.run for record in records(tmp_path)] == ["good"]
    assert list(records(tmp_path / "nowhere")) == []


def aged(data: Path, run: str, *, age: float, size: int = 10) -> None:
    """A run of that age and size."""
    folder = data / FOLDER / run
    folder.mkdir(parents=True)
    (folder / "output.log").write_bytes(b"x" * size)
    for path in (folder / "output.log", folder):
        os.utime(path, (time.time() - age, time.time() - age))


def left(data: Path) -> list[str]:
    return sorted(entry.name for entry in (data / FOLDER).iterdir())


def test_old_records_go_and_live_runs_stay(tmp_path: Path) -> None:
    for run, age in (("new", 10.0), ("old", 1000.0), ("older", 2000.0), ("alive", 5000.0)):
        aged(tmp_path, run, age=age)
    gone = prune(tmp_path, keep_for=500, keep_size=10**9, alive=frozenset({"alive"}), now=time.time())
    assert gone == 2
    assert left(tmp_path) == ["alive", "new"]


def test_the_oldest_go_first_when_there_is_no_room(tmp_path: Path) -> None:
    for run, age in (("a", 40.0), ("b", 30.0), ("c", 20.0), ("d", 10.0)):
        aged(tmp_path, run, age=age, size=100_000)
    assert prune(tmp_path, keep_for=1e9, keep_size=250_000, alive=frozenset(), now=time.time()) == 2
    assert left(tmp_path) == ["c", "d"]
    assert prune(tmp_path / "nowhere", keep_for=1, keep_size=1, alive=frozenset(), now=0) == 0


def test_small_files_count_by_their_bytes_not_by_their_blocks(tmp_path: Path) -> None:
    for n in range(20):
        aged(tmp_path, f"run-{n}", age=10.0 + n, size=100)
    assert prune(tmp_path, keep_for=1e9, keep_size=2000, alive=frozenset(), now=time.time()) == 0
    assert prune(tmp_path, keep_for=1e9, keep_size=1999, alive=frozenset(), now=time.time()) == 1


def test_a_link_among_the_runs_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").write_text("x")
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "link").symlink_to(tmp_path / "elsewhere")
    prune(tmp_path, keep_for=0, keep_size=1, alive=frozenset(), now=time.time() + 10)
    assert (tmp_path / "elsewhere" / "precious").exists()
