"""The checker can fail: a history in which something went wrong is told from one in which nothing did."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import checker
from tests.chaos.checker import Line, Verdict, check, read, spread

SECOND = 1_000_000_000
ID = "github.example/acme/web#1"
TICKET = "github/1"
PEOPLES = ["agent-smith", "team-blue"]


def at(seconds: float) -> int:
    return round(seconds * SECOND)


def work(did: str, seconds: float, run: str = "run-1", life: int = 100, **more: Any) -> Line:
    told = {"ticket": TICKET, "id": ID, "run": run, "attempt": 1, "pid": life, "life": life}
    return {"is": "work", "did": did, "at": at(seconds), **told, **more}


def write(seconds: float, before: list[str], after: list[str], **more: Any) -> Line:
    told = {"ticket": TICKET, "id": ID, "begun": at(seconds) - 1000, "hand": "run", "fence": 20, "since": at(seconds)}
    shown = {"before": [*PEOPLES, *before], "after": [*PEOPLES, *after]}
    return {"is": "write", "at": at(seconds), **told, **shown, **more}


def fence(seconds: float, number: int, *, leased: bool = False) -> list[Line]:
    lines: list[Line] = [{"is": "fence", "id": ID, "at": at(seconds), "fence": number}]
    return [*lines, {"is": "lease", "id": ID, "at": at(seconds), "fence": number}] if leased else lines


def final(*labels: str) -> Line:
    return {"is": "final", "at": at(99), "ticket": TICKET, "labels": [*PEOPLES, *labels]}


def opened() -> Line:
    return {"is": "ticket", "at": 0, "ticket": TICKET, "labels": PEOPLES, "plan": "done"}


def well() -> list[Line]:
    """One ticket, claimed under fence 10, run under fence 20, and done."""
    return [
        {"is": "kinds", "names": ["kill"]},
        {"is": "fault", "kind": "kill", "at": at(2), "until": at(2.1), "ends_runs": True},
        opened(),
        *fence(1, 10),
        write(1.1, [], ["agent-smith:enqueued"], hand="lock", fence=10),
        *fence(1.2, 20, leased=True),
        write(1.3, ["agent-smith:enqueued"], ["agent-smith:in-progress"]),
        work("start", 1.4),
        work("beat", 1.5),
        work("beat", 1.55, pid=101),
        work("end", 1.6, code=0),
        write(1.7, ["agent-smith:in-progress"], ["agent-smith:done"]),
        final("agent-smith:done"),
    ]


def counts(verdict: Verdict) -> dict[str, int]:
    """What is not zero, of all that has to be."""
    names = ("overlapping", "lost", "foreign", "fenced_writes", "unrepaired", "revived")
    return {name: count for name in names if (count := getattr(verdict, name))}


def test_a_history_in_which_nothing_went_wrong() -> None:
    verdict = check(well())
    assert counts(verdict) == {}
    assert (verdict.tickets, verdict.runs, verdict.late_landings, verdict.faults) == (1, 1, 0, {"kill": 1})
    assert verdict.ok
    assert verdict.findings == []


def test_the_order_of_the_lines_does_not_matter() -> None:
    assert check(reversed(well())) == check(well())


def test_a_second_run_that_begins_before_the_first_one_said_its_last_word_overlaps() -> None:
    verdict = check([*well(), work("start", 1.5, run="run-2", life=200), work("end", 1.65, "run-2", 200, code=0)])
    assert counts(verdict) == {"overlapping": 1}
    assert not verdict.ok
    assert "run-2" in verdict.findings[0]


def test_a_daemon_that_ends_by_itself_is_found() -> None:
    verdict = check([*well(), {"is": "died", "at": at(1), "who": "receiver-2", "how": "ended with 2: Redis is away"}])
    assert (verdict.died, verdict.ok) == (1, False)
    assert verdict.findings == ["P2 died: receiver-2 ended with 2: Redis is away"]


def test_a_child_that_outlives_its_run_overlaps_too() -> None:
    orphan = work("beat", 1.9, pid=101)
    again = [work("start", 1.8, "run-2", 200), work("end", 1.85, "run-2", 200, code=0)]
    verdict = check([line for line in [*well(), orphan, *again] if line["is"] != "write"])
    assert counts(verdict) == {"overlapping": 1}


def test_the_same_run_begun_twice_by_two_consumers_overlaps() -> None:
    verdict = check([*well(), work("start", 1.5, life=200), work("end", 1.65, life=200, code=0)])
    assert counts(verdict) == {"overlapping": 1}


def test_a_run_that_finds_the_lock_of_another_one_held_overlaps_though_no_words_do() -> None:
    silent = [work("overlap", 1.65, "run-2", 200), work("start", 1.65, "run-2", 200)]
    silent.append(work("end", 1.66, "run-2", 200, code=0))
    assert counts(check([*well(), *silent])) == {"overlapping": 1}


def test_runs_one_after_the_other_do_not_overlap_and_the_gap_is_the_time_to_recover() -> None:
    lines = [line for line in well() if line.get("did") != "end"]
    lines += [work("start", 3.55, "run-2", 200), work("end", 3.6, "run-2", 200, code=0)]
    lines = [line for line in lines if line["is"] != "write" or "agent-smith:done" not in line["after"]]
    verdict = check([*lines, write(3.7, ["agent-smith:in-progress"], ["agent-smith:done"])])
    assert counts(verdict) == {}
    assert (verdict.runs, verdict.interrupted) == (2, 1)
    assert verdict.recovery_s == {"p50": 2.0, "p99": 2.0, "max": 2.0}
    assert verdict.recovery_by_fault == {"kill": {"count": 1, "p50": 2.0, "p99": 2.0, "max": 2.0}}


@pytest.mark.parametrize("shown", ["agent-smith:enqueued", "agent-smith:in-progress", "agent-smith:pending"])
def test_a_ticket_that_does_not_show_an_end_is_lost(shown: str) -> None:
    lines = [*(line for line in well() if line["is"] != "final"), final(shown)]
    assert counts(check(lines)) == {"lost": 1}


def test_a_ticket_without_a_label_is_lost() -> None:
    assert counts(check([*(line for line in well() if line["is"] != "final"), final()])) == {"lost": 1}


def test_a_ticket_whose_label_tells_of_an_end_that_no_run_came_to_is_lost() -> None:
    assert counts(check([line for line in well() if line.get("did") != "end"])) == {"lost": 1}
    failed = [*(line for line in well() if line["is"] != "final"), final("agent-smith:failed")]
    assert counts(check(failed)) == {"lost": 1}


def test_a_ticket_that_nobody_looked_at_in_the_end_is_lost() -> None:
    assert counts(check([line for line in well() if line["is"] != "final"])) == {"lost": 1}


def test_a_request_to_try_again_is_no_end() -> None:
    lines = [{**line, "code": 75} if line.get("did") == "end" else line for line in well()]
    assert counts(check(lines)) == {"lost": 1}


def test_a_write_that_takes_a_label_of_people_along_touches_foreign_labels() -> None:
    lines = [line for line in well() if line["is"] != "final"]
    lines.append({**write(1.8, ["agent-smith:done"], []), "after": ["agent-smith", "agent-smith:done"]})
    verdict = check([*lines, {**final(), "labels": ["agent-smith", "agent-smith:done"]}])
    assert counts(verdict) == {"foreign": 2}, "once as it happened, and once in the end"


def test_a_label_that_a_person_added_and_that_is_gone_was_touched() -> None:
    added = {"is": "person", "at": at(1.45), "ticket": TICKET, "add": ["note"]}
    assert counts(check([*well(), added])) == {"foreign": 1}
    removed = {"is": "person", "at": at(1.46), "ticket": TICKET, "remove": ["note"]}
    assert counts(check([*well(), added, removed])) == {}


def test_an_unknown_label_with_our_prefix_is_foreign() -> None:
    lines = [*well(), write(1.8, ["agent-smith:done", "agent-smith:bug"], ["agent-smith:done"])]
    assert counts(check(lines)) == {"foreign": 1}


def test_a_write_that_a_run_begins_after_a_newer_fence_is_fenced() -> None:
    verdict = check([*well(), *fence(1.65, 30)])
    assert counts(verdict) == {"fenced_writes": 1}
    assert "fence 20" in verdict.findings[0]
    assert not verdict.ok


def test_to_a_run_the_fence_of_another_consumer_counts_too() -> None:
    assert counts(check([*well(), *fence(1.65, 30, leased=True)])) == {"fenced_writes": 1}


def test_to_who_holds_the_lock_the_fence_of_a_consumer_means_nothing() -> None:
    comment = write(1.25, ["agent-smith:enqueued"], ["agent-smith:enqueued"], hand="lock", fence=10)
    assert counts(check([*well(), comment])) == {}
    assert counts(check([*well(), comment, *fence(1.24, 15)])) == {"fenced_writes": 1}


def test_a_write_without_a_fence_is_measured_by_when_its_lock_was_taken() -> None:
    tidy = write(1.9, ["agent-smith:done"], ["agent-smith:done"], hand="lock", fence=None, since=at(1.8))
    assert counts(check([*well(), tidy])) == {}
    assert counts(check([*well(), tidy, *fence(1.85, 30)])) == {"fenced_writes": 1}


def test_a_late_landing_that_was_repaired_is_told_apart() -> None:
    late = write(5, ["agent-smith:done"], ["agent-smith:done", "agent-smith:enqueued"], begun=at(1.15), hand="lock")
    late["fence"] = 10
    lines = [*well(), *fence(1.16, 15), late]
    verdict = check(lines)
    assert counts(verdict) == {}
    assert verdict.late_landings == 1
    assert verdict.ok


def test_a_late_landing_that_still_shows_is_unrepaired() -> None:
    late = write(5, ["agent-smith:done"], ["agent-smith:done", "agent-smith:enqueued"], begun=at(1.15), hand="lock")
    late["fence"] = 10
    lines = [*(line for line in well() if line["is"] != "final"), *fence(1.16, 15), late]
    verdict = check([*lines, final("agent-smith:done", "agent-smith:enqueued")])
    assert counts(verdict) == {"unrepaired": 1}
    assert verdict.late_landings == 1
    assert not verdict.ok


def test_several_labels_in_the_end_are_unrepaired_wherever_they_came_from() -> None:
    lines = [*(line for line in well() if line["is"] != "final"), final("agent-smith:done", "agent-smith:in-progress")]
    assert counts(check(lines)) == {"unrepaired": 1}


def test_a_run_after_the_end_was_shown_is_a_revival() -> None:
    lines = [*well(), work("start", 3, "run-2", 200), work("end", 3.1, "run-2", 200, code=0)]
    assert counts(check(lines)) == {"revived": 1}


def test_a_kind_of_fault_that_never_happened_is_no_proof() -> None:
    lines = [*well(), {"is": "kinds", "names": ["kill", "flush"]}]
    verdict = check(lines)
    assert counts(verdict) == {}
    assert verdict.faults == {"flush": 0, "kill": 1}
    assert verdict.missing == ["flush"]
    assert not verdict.ok


def test_an_empty_history_proves_nothing() -> None:
    assert not check([]).ok


def test_the_spread_of_few_and_many() -> None:
    assert spread([]) == {"p50": None, "p99": None, "max": None}
    assert spread([1.0]) == {"p50": 1.0, "p99": 1.0, "max": 1.0}
    assert spread([float(n) for n in range(101)]) == {"p50": 50.0, "p99": 99.0, "max": 100.0}


def test_an_event_loop_that_was_blocked_for_long_is_named() -> None:
    short, long = (
        {"is": "blocked", "at": 1, "pid": 7, "seconds": seconds, "what": "<Handle>", "where": ["a.py, line 1"]}
        for seconds in (0.04, 0.06)
    )
    assert check([*well(), short]).ok
    verdict = check([*well(), short, long])
    assert (verdict.ok, verdict.blocked, verdict.longest_block_s) == (False, 1, 0.06)
    assert verdict.findings == ["the event loop of 7 was blocked for 0.06 s: a.py, line 1"]


def test_it_reads_a_folder_and_leaves_out_what_was_cut_off(tmp_path: Path) -> None:
    text = "".join(json.dumps(line) + "\n" for line in well())
    (tmp_path / "a.jsonl").write_text(text + '{"is": "wo')
    assert check(read(tmp_path)) == check(well())


@pytest.mark.parametrize(("lines", "code"), [(well(), 0), ([*well(), *fence(1.65, 30)], 1)])
def test_it_judges_a_folder_by_itself(tmp_path: Path, lines: list[Line], code: int) -> None:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    # Isolated from the repository: what it cannot import it cannot share.
    done = subprocess.run(
        [sys.executable, "-I", checker.__file__, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert json.loads(done.stdout)["tickets"] == 1


def test_it_shares_no_code_with_the_product() -> None:
    tree = ast.parse(Path(checker.__file__).read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    strangers = {name for name in imported if name.partition(".")[0] not in sys.stdlib_module_names}
    assert strangers == set(), "the checker may use the standard library only"
