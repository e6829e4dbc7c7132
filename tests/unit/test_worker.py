"""What a worker says: lines and status file, usage that adds up, and files that stay inside the workspace."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentsmith.pipelines.worker import Said, Usage, keep_artifacts, number, prefix, quoted, read_text

OURS = "::9f2c4b6a8d0e1735::"


def heard(*lines: str) -> Said:
    said = Said(say=OURS)
    for line in lines:
        said.hear(line)
    return said


def test_every_line_that_is_known() -> None:
    told: list[str] = []
    said = Said(say=OURS, on_progress=told.append)
    for line in (
        "progress half way",
        "progress: done soon",
        "question Which database?",
        "summary Fixed it.",
        "session abc-1",
        'usage {"input_tokens": 10, "output_tokens": 2, "cost_usd": 0.25}',
        "usage input_tokens=5 cost_usd=0.5",
        "artifact out/report.html",
        "artifact out/report.html",
        "unheard of",
        "",
    ):
        said.hear(OURS + line)
    assert told == ["half way", "done soon"]
    assert (said.progress, said.question, said.summary, said.session) == (
        "done soon",
        "Which database?",
        "Fixed it.",
        "abc-1",
    )
    assert said.usage == Usage(15, 2, 0.75)
    assert said.artifacts == ["out/report.html"]


@pytest.mark.parametrize("start", ["::", f"::{'0' * 16}::", f"x{OURS}", OURS.upper(), f"::{OURS.strip(':')[:-1]}::"])
def test_without_the_prefix_only_what_decides_nothing_counts(start: str) -> None:
    said = heard(*(start + line for line in ("question Why?", "session x", "usage input_tokens=5", "artifact a")))
    assert (said.question, said.session, bool(said.usage), said.artifacts) == ("", "", False, [])
    assert said.ignored
    bare = heard("::progress half way", "::summary Fixed it.")
    assert (bare.progress, bare.summary, bare.ignored) == ("half way", "Fixed it.", False)


def test_no_two_runs_have_the_same_prefix() -> None:
    assert len({prefix() for _ in range(100)}) == 100
    assert len(prefix()) == len(OURS)


def test_a_said_without_a_prefix_believes_nobody() -> None:
    said = Said()
    said.hear("::question Why?")
    assert said.question == ""


@given(st.lists(st.sampled_from(["::", OURS, "question x", "\n", "\r", " ", OURS.strip(":"), ":"])).map("".join))
def test_what_is_quoted_says_nothing_when_it_is_printed(text: str) -> None:
    shown = quoted(text, OURS)
    assert OURS.strip(":") not in shown
    assert not any(line.startswith("::") for line in shown.split("\n"))
    assert quoted(shown, OURS) == shown


def test_progress_is_one_line_that_only_prints() -> None:
    assert heard("::progress a\x1b[2Jb\u202ec").progress == "a [2Jb c"


def test_a_status_file_of_json(tmp_path: Path) -> None:
    file = tmp_path / "status"
    file.write_text(json.dumps({"question": "Why?", "usage": {"input_tokens": 3}, "artifacts": ["a", "b"], "x": [1]}))
    said = Said()
    said.read_status(file)
    assert (said.question, said.usage.input_tokens, said.artifacts) == ("Why?", 3, ["a", "b"])


def test_a_status_file_of_lines(tmp_path: Path) -> None:
    file = tmp_path / "status"
    file.write_text("anything\n::question Why?\n::artifact a b.txt\n")
    said = Said()
    said.read_status(file)
    assert (said.question, said.artifacts) == ("Why?", ["a b.txt"])


@pytest.mark.parametrize("kind", ["none", "folder", "link", "pipe", "binary", "deep"])
def test_a_status_file_cannot_break_anything(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "status"
    if kind == "folder":
        file.mkdir()
    elif kind == "link":
        (tmp_path / "secret").write_text('{"question": "leak"}')
        file.symlink_to(tmp_path / "secret")
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "binary":
        file.write_bytes(bytes(range(256)))
    elif kind == "deep":
        file.write_text("[" * 100_000)
    said = Said()
    said.read_status(file)
    assert said.question == ""


ODD = (
    *("\ud800", "\udcff", "\u2028", "\u0085", "\x0b", "\x1c", "\r", "\0", "\ufeff", "\U0001f600", "\x1b"),
    "\\ud83d\\ude00",
)


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_P2_whatever_stands_in_a_question_it_is_heard_and_can_be_passed_on(tmp_path: Path, odd: str) -> None:
    text = f"Which {odd} one?"
    told = json.dumps({"question": text, "summary": text, "session": text, "progress": text})[:-1]
    (tmp_path / "json").write_text(told + f', "usage": {{"input_tokens": {"9" * 5000}}}}}')
    (tmp_path / "lines").write_text(f"::question {text}\n", errors="surrogatepass")
    for name in ("json", "lines"):
        said = Said(say=OURS)
        said.read_status(tmp_path / name)
        assert said.question.startswith("Which ")
        assert said.question.endswith(" one?")
        for word in (said.question, said.summary, said.session, said.progress):
            word.encode()  # as everything does that it is passed on to


def test_a_status_file_that_is_too_long_is_told(tmp_path: Path) -> None:
    file = tmp_path / "status"
    file.write_text(json.dumps({"summary": "ü" * 100_000, "question": "Why?"}))
    said = Said()
    said.read_status(file)
    assert (said.question, said.unread) == ("Why?", False)
    file.write_text(json.dumps({"summary": "x" * 2_000_000, "question": "Why?"}))
    said = Said()
    said.read_status(file)
    assert (said.question, said.unread) == ("", True)


def test_artifacts_beyond_the_bound_are_counted() -> None:
    said = heard(*(f"{OURS}artifact {number}" for number in range(60)), f"{OURS}artifact 1")
    assert (len(said.artifacts), said.more_artifacts) == (50, 10)


@given(st.text())
def test_no_line_breaks_anything(text: str) -> None:
    said = heard(f"::{text}", f"{OURS}{text}", f"{OURS}usage {text}", f"::progress {text}")
    assert "\n" not in said.progress
    assert said.usage.input_tokens >= 0


@pytest.mark.parametrize(
    ("value", "expected"),
    [(5, 5), ("4.5k", 4500), ("1,234", 1234), ("2M", 2e6), (-1, 0), (float("nan"), 0), (True, 0), (None, 0), ("x", 0)],
)
def test_amounts(value: object, expected: float) -> None:
    assert number(value) == expected


def test_artifacts_are_copied_from_the_workspace_and_from_nowhere_else(tmp_path: Path) -> None:
    work, folder, secret = tmp_path / "work", tmp_path / "artifacts", tmp_path / "secret"
    (work / "out").mkdir(parents=True)
    (work / "out" / "report.txt").write_text("fine")
    (work / "big").write_bytes(b"x" * 100)
    (work / "link").symlink_to(secret)
    (work / "pipe").unlink(missing_ok=True)
    os.mkfifo(work / "pipe")
    secret.write_text("secret")
    names = ["out/report.txt", "../secret", str(secret), "link", "pipe", "out", "missing", "big", "a\0b"]
    kept, left = keep_artifacts(names, inside=work, folder=folder, limit=50)
    assert kept == ["out__report.txt"]
    assert [file.name for file in folder.iterdir()] == ["out__report.txt"]
    assert (folder / "out__report.txt").read_text() == "fine"
    assert len(left) == len(names) - 1
    assert "outside the workspace" in left[0]
    assert "run.artifact_limit" in left[-2]


def test_P2_no_name_of_an_artifact_fails_the_work_or_takes_anothers_place(tmp_path: Path) -> None:
    work, folder = tmp_path / "work", tmp_path / "artifacts"
    deep = "/".join(["d" * 200] * 10)
    names = [
        *(
            "x/y",
            "x__y",
            "x/_y",
            "x_/y",
            "n" * 255,
            "ü" * 127,
            f"{deep}/f",
            "new\nline",
            "\udcff",
            "-rf",
            " ",
            "a:b|c*?",
        ),
        *("\u2028", "\u202e", "con", "..x", "x/z__"),
    ]
    for name in names:
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_bytes(os.fsencode(name))
    kept, left = keep_artifacts(names, inside=work, folder=folder, limit=100_000)
    assert left == []
    assert len(set(kept)) == len(names)
    assert [(folder / name).read_bytes() for name in kept] == [os.fsencode(name) for name in names]
    assert max(len(name.encode()) for name in kept) <= 200, "and no name is what cannot be shown"


def test_P2_an_artifact_that_cannot_be_copied_is_left_and_named(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "report").write_text("fine")
    (tmp_path / "artifacts").write_text("no folder can be made here")
    kept, left = keep_artifacts(["report"], inside=tmp_path / "work", folder=tmp_path / "artifacts", limit=100)
    assert (kept, left) == ([], ["report: it could not be copied: File exists"])


def test_reading_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x" * 1000)
    assert read_text(tmp_path / "f", limit=10) == "x" * 10
