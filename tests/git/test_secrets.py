"""Secrets stop the push: in any commit that it would publish, told by place and kind, never by value."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from agentsmith.pipelines.git import Finding, Pushed, SecretsFound
from agentsmith.pipelines.git.errors import TooLarge
from agentsmith.pipelines.git.scan import added, fresh, scan, text_lines
from tests.git.conftest import PASSWORD
from tests.support.git_bench import QUICK, Bench, git, write_files

# Put together here, so that this file itself holds none.
AWS = "AKIA" + "QYLPMN5HFIQR7XYA"
GITHUB = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"
KEY = "-----BEGIN " + "RSA PRIVATE KEY-----"
SLACK = "xoxb-" + "1234567890-abcdefghijkl"
AWS_HASH = hashlib.sha1(AWS.encode(), usedforsecurity=False).hexdigest()
LET_PASS = {"filename": "fixture.py", "type": "AWS Access Key", "hashed_secret": AWS_HASH}


async def _push(bench: Bench, files: Mapping[str, str | bytes | None]) -> object:
    checkout = await bench.open()
    write_files(checkout.path, files)
    await checkout.commit("work")
    return await checkout.push(bench.begin_write)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (f'aws = "{AWS}"', "AWS Access Key"),
        (f"token: {GITHUB}", "GitHub Token"),
        (KEY, "Private Key"),
        (f"SLACK={SLACK}", "Slack Token"),
        ("url = https://user:" + "hunter22@example.org/", "Basic Auth Credentials"),
        ('password = "' + 'correcthorsebattery9"', "Secret Keyword"),
    ],
)
def test_kinds(line: str, kind: str) -> None:
    findings = scan(io.BytesIO(_log("src/config.py", ["a = 1", "", line])), None)
    assert {(finding["path"], finding["line"]) for finding in findings} == {("src/config.py", 3)}
    assert kind in {finding["kind"] for finding in findings}


def _log(path: str, lines: list[str]) -> bytes:
    """What `git log` says of one commit that adds one file."""
    head = f"\0{'0' * 40}\0message\n\0\n\ndiff --git a/{path} b/{path}\n--- /dev/null\n+++ b/{path}\n"
    return (head + f"@@ -0,0 +1,{len(lines)} @@\n" + "".join(f"+{line}\n" for line in lines)).encode()


async def test_secret_stops_the_push(bench: Bench) -> None:
    outcome = await _push(bench, {"src/config.py": f"a = 1\n\n{KEY}\n"})
    assert isinstance(outcome, SecretsFound)
    assert [(f.path, f.line, f.kind) for f in outcome.findings] == [("src/config.py", 3, "Private Key")]
    assert bench.on_server() == ""
    assert bench.writes == 0


async def test_the_value_is_nowhere(bench: Bench) -> None:
    outcome = await _push(bench, {"a.py": f'k = "{AWS}"\n'})
    assert AWS not in str(outcome)
    assert AWS not in repr(outcome)
    assert "a.py:1" in str(outcome)


async def test_ordinary_work_passes(bench: Bench) -> None:
    lines = [
        'password = os.environ["PASSWORD"]',
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        'version = "1.2.3"',
        "see http://203.0.113.7/ for more",
        "def token(self) -> str: ...",
    ]
    lock = json.dumps({"packages": {"x": {"integrity": "sha512-" + "Zm9v" * 20}}})
    outcome = await _push(bench, {"a.py": "\n".join(lines) + "\n", "package-lock.json": lock, "go.sum": "x h1:Zm9v=\n"})
    assert isinstance(outcome, Pushed)


async def test_secret_in_a_commit_that_a_later_one_takes_back(bench: Bench) -> None:
    checkout = await bench.open()
    at = checkout.path
    write_files(at, {"a.py": f'k = "{AWS}"\n'})
    git("add", "-A", at=at)
    git("commit", "-q", "-m", "oops", at=at)
    write_files(at, {"a.py": "k = read()\n", "b.py": "b\n"})
    await checkout.commit("Fix it")
    outcome = await checkout.push(bench.begin_write)
    assert isinstance(outcome, Pushed)
    assert outcome.squashed
    assert bench.log() == ["Fix it", "first"]
    assert AWS not in git("log", "-p", "--all", at=bench.origin)
    assert git("rev-parse", "HEAD", at=at) == bench.on_server()
    write_files(at, {"c.py": "c\n"})  # and the branch goes on from there
    await checkout.commit("more")
    await checkout.push(bench.begin_write)
    assert bench.log() == ["more", "Fix it", "first"]


async def test_stopped_work_is_here_for_the_next_run_to_mend(bench: Bench) -> None:
    checkout = await bench.open()
    write_files(checkout.path, {"a.py": f'k = "{AWS}"\n', "b.py": "b\n"})
    outcome = await checkout.save_wip(run="r", pipeline="p", step="s", begin_write=bench.begin_write)
    assert isinstance(outcome, SecretsFound)
    assert bench.on_server() == ""
    again = await bench.open()
    assert again.resumed
    assert AWS in (again.path / "a.py").read_text()
    write_files(again.path, {"a.py": "k = read()\n"})
    await again.commit("mended")
    mended = await again.push(bench.begin_write)
    assert isinstance(mended, Pushed)
    assert AWS not in git("log", "-p", "--all", at=bench.origin)
    assert bench.content("b.py") == "b"


async def test_what_the_server_has_already_is_not_held_against_us(bench: Bench) -> None:
    person = bench.person()
    person.commit("long ago", {"old.py": f'k = "{AWS}"\n'})
    person.push()
    assert isinstance(await _push(bench, {"new.py": "n\n"}), Pushed)
    person.commit("again", {"old2.py": f'k = "{GITHUB}"\n'}, on="main")
    person.push()
    checkout = await bench.open()  # merges that
    assert isinstance(await checkout.push(bench.begin_write), Pushed)


async def test_secret_that_a_merge_brings_in_by_itself(bench: Bench) -> None:
    await _push(bench, {"README.md": "ours\n"})
    bench.person().commit("theirs", {"README.md": "theirs\n"}, on="main")
    bench.person().push()
    checkout = await bench.open()
    write_files(checkout.path, {"README.md": f"both\n{KEY}\n"})
    await checkout.commit("Resolve")
    outcome = await checkout.push(bench.begin_write)
    assert isinstance(outcome, SecretsFound)
    assert {(f.path, f.line) for f in outcome.findings} == {("README.md", 2)}


@pytest.mark.parametrize(
    "attributes", ["* binary\n", "* -diff\n", "*.py diff=nothing\n", ".gitattributes export-ignore\n"]
)
async def test_attributes_do_not_hide_it(bench: Bench, attributes: str) -> None:
    assert isinstance(await _push(bench, {".gitattributes": attributes, "a.py": f'k = "{AWS}"\n'}), SecretsFound)


async def test_names_do_not_hide_it(bench: Bench) -> None:
    names = ("with space.py", 'quo"te.py', "new\nline.py", "ünïcode.py", "++ b", "a/b/c.py", "-x.py", "tab\t.py")
    outcome = await _push(bench, dict.fromkeys(names, f'k = "{AWS}"\n'))
    assert isinstance(outcome, SecretsFound)
    assert {f.path for f in outcome.findings} == {name.replace("\n", "?").replace("\t", "?") for name in names}


async def test_content_does_not_hide_it(bench: Bench) -> None:
    contents = {
        "no newline": f'k = "{AWS}"'.encode(),
        "crlf": f'\r\nk = "{AWS}"\r\n'.encode(),
        "latin-1": f'caf\xe9 k = "{AWS}"\n'.encode("latin-1"),
        "utf-16": f'k = "{AWS}"\n'.encode("utf-16"),
        "long line": b"x" * 200_000 + f' "{AWS}" '.encode() + b"y" * 200_000,
        "diff-like": f'++ b/other.py\n@@ -1 +1 @@\nk = "{AWS}"\n'.encode(),
        "more diff-like": f'diff --git a/x b/x\n+++ b/x\n@@ -0,0 +1,9 @@\n+k = "{AWS}"\n\0'.encode(),
    }
    outcome = await _push(bench, contents)
    assert isinstance(outcome, SecretsFound)
    assert {f.path for f in outcome.findings} == contents.keys()


async def test_secret_in_a_commit_message(bench: Bench) -> None:
    checkout = await bench.open()
    write_files(checkout.path, {"a.py": "a\n"})
    await checkout.commit(f"Use the key\n\nIt is {AWS}")
    outcome = await checkout.push(bench.begin_write)
    assert isinstance(outcome, SecretsFound)
    assert outcome.findings[0].path == "(commit message)"


async def test_secret_in_a_link(bench: Bench) -> None:
    checkout = await bench.open()
    (checkout.path / "link").symlink_to(f"https://x/{GITHUB}")
    await checkout.commit("a link")
    assert isinstance(await checkout.push(bench.begin_write), SecretsFound)


async def test_our_own_credential_is_found_whatever_it_looks_like(http_bench: Bench) -> None:
    outcome = await _push(http_bench, {"notes.md": f"I used {PASSWORD} to push\n"})
    assert isinstance(outcome, SecretsFound)
    assert outcome.findings[0] == replace(
        outcome.findings[0], path="notes.md", line=1, kind="the credential of this repository"
    )
    assert PASSWORD not in str(outcome)


async def test_inline_pragma_lets_a_line_pass(bench: Bench) -> None:
    assert isinstance(await _push(bench, {"a.py": f'k = "{AWS}"  # pragma: allowlist secret\n'}), Pushed)


async def test_baseline_of_the_default_branch_lets_its_findings_pass(bench: Bench) -> None:
    baseline = json.dumps({"version": "1.5.0", "results": {"fixture.py": [LET_PASS]}})
    bench.person().commit("baseline", {".secrets.baseline": baseline})
    bench.person().push()
    assert isinstance(await _push(bench, {"other.py": f'k = "{AWS}"\n'}), SecretsFound)
    assert isinstance(await _push(bench, {"other.py": None, "fixture.py": f'k = "{AWS}"\n'}), Pushed)


async def test_baseline_that_the_worker_wrote_is_not_believed(bench: Bench) -> None:
    baseline = json.dumps({"version": "1.5.0", "results": {"fixture.py": [LET_PASS]}})
    outcome = await _push(bench, {".secrets.baseline": baseline, "fixture.py": f'k = "{AWS}"\n'})
    assert isinstance(outcome, SecretsFound)


@pytest.mark.parametrize(
    "baseline", ["", "not json", "[]", '{"results": []}', '{"results": {"x": 1}, "plugins_used": 3}']
)
async def test_baseline_that_is_broken_allows_nothing(bench: Bench, baseline: str) -> None:
    bench.person().commit("baseline", {".secrets.baseline": baseline})
    bench.person().push()
    assert isinstance(await _push(bench, {"a.py": f'k = "{AWS}"\n'}), SecretsFound)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def test_baseline_names_no_code_that_would_run(bench: Bench, tmp_path: Path) -> None:
    marker = tmp_path / "it-ran"
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(marker)!r}, 'w')\ndef f(line): return True\n")
    baseline = json.dumps(
        {
            "version": "1.5.0",
            "plugins_used": [
                {"name": "Evil", "path": f"file://{evil}"},
                {"name": "ArtifactoryDetector", "path": f"file://{evil}"},
                {"name": "AWSKeyDetector"},
            ],
            "filters_used": [
                {"path": f"file://{evil}::f"},
                {"path": "os.system"},
                {"path": "detect_secrets.filters.common.is_ignored_due_to_verification_policies", "min_level": 2},
                {"path": "detect_secrets.filters.regex.should_exclude_file", "pattern": ["^tests/"]},
            ],
            "results": {},
        }
    )
    bench.person().commit("baseline", {".secrets.baseline": baseline})
    bench.person().push()
    outcome = await _push(bench, {"a.py": f'k = "{AWS}"\n', "tests/b.py": f'k = "{AWS}"\n'})
    assert isinstance(outcome, SecretsFound)
    assert {f.path for f in outcome.findings} == {"a.py"}
    assert "it-ran" not in names(tmp_path)


async def test_more_than_can_be_searched_is_not_pushed(bench: Bench) -> None:
    checkout = await bench.open(bounds=replace(QUICK, scanned=10_000))
    write_files(checkout.path, {"big.txt": "line\n" * 10_000})
    await checkout.commit("big")
    with pytest.raises(TooLarge):
        await checkout.push(bench.begin_write)
    assert bench.on_server() == ""


def test_a_merge_adds_only_what_no_parent_has() -> None:
    log = (
        b"\0" + b"0" * 40 + b"\0merge\n\0\n\ndiff --cc a.py\nindex 1,2..3\n--- a/a.py\n+++ b/a.py\n"
        b"@@@ -1,2 -1,2 +1,3 @@@\n- gone\n -gone too\n+ from the second\n +from the first\n++new\n"
        b"@@@ -9,0 -9,1 +10,1 @@@\n++last\n --- not a heading\n"
    )
    pieces = [(piece.path, piece.lines) for piece in added(io.BytesIO(log))]
    assert pieces == [("(commit message)", [(1, b"merge"), (2, b"")]), ("a.py", [(3, b"new"), (10, b"last")])]


def test_lines_of_binary_files_are_not_read() -> None:
    assert text_lines([(1, bytes(range(256)))]) == []
    assert text_lines([(7, b"a\0b\0")]) == [(7, "ab")]


def test_long_lines_are_cut_with_an_overlap() -> None:
    pieces = text_lines([(3, b"x" * 20_000)])
    assert {number for number, _ in pieces} == {3}
    assert max(len(text) for _, text in pieces) <= 8192
    assert sum(len(text) for _, text in pieces) == 20_000 + 512 * (len(pieces) - 1)


def test_repeated_lines_are_read_once_but_for_pragmas() -> None:
    lines = [(1, "a"), (2, "b"), (3, "a"), (4, "# pragma: x"), (5, "a"), (6, "# pragma: x"), (7, "b"), (8, "b")]
    assert [number for number, _ in fresh(lines, set())] == [1, 2, 4, 5, 6, 7]
    assert fresh([(1, "a")], {"a"}) == []


def test_finding_says_where() -> None:
    assert str(Finding("a.py", 3, "AWS Access Key", "0" * 40)) == "a.py:3: AWS Access Key (commit 000000000000)"
