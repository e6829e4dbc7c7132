"""Secrets stop the push: in any commit that it would publish, told by place and kind, never by value."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from agentsmith import redaction
from agentsmith.git import Finding, Pushed, SecretsFound
from agentsmith.git.errors import TooLarge
from agentsmith.git.scan import SHAPES, added, fresh, scan, text_lines
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


@pytest.mark.parametrize(
    "text",
    [
        f'k = "{AWS}"  # pragma: allowlist secret\n',
        'password = "' + 'correcthorsebattery9"  # pragma: allowlist secret\n',
        "# pragma: allowlist nextline secret\n" + 'password = "' + 'correcthorsebattery9"\n',
    ],
)
async def test_a_pragma_that_the_worker_added_counts_for_nothing(bench: Bench, text: str) -> None:
    assert isinstance(await _push(bench, {"a.py": text}), SecretsFound)


async def test_a_pragma_that_was_there_before_counts(bench: Bench) -> None:
    line = 'password = "' + 'correcthorsebattery9"  # pragma: allowlist secret\n'
    bench.person().commit("fixture", {"a.py": f"{line}a = 1\nb = 2\nc = 3\n"})
    bench.person().push()
    # Git takes it for removed in one place and added in another.
    assert isinstance(await _push(bench, {"a.py": f"a = 1\nb = 2\nc = 3\n{line}"}), Pushed)
    changed = line.replace("horse", "mouse")
    assert isinstance(await _push(bench, {"a.py": f"{changed}a = 1\nb = 2\nc = 3\n"}), SecretsFound)


SOME = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7dE9fG1hJ3kL5mN7pQ9rS1tU3vW5xY7zA9bC1dE3fG5hJ7kL9mN1pQ3rS5tU7vW9"
HEX = "0123456789abcdef" * 4
KEYS = {
    "Anthropic API Key": "sk-ant-" + f"api03-{SOME[:93]}AA",
    "OpenAI Token": "sk-proj-" + f"{SOME[:60]}_-{SOME[:20]}",
    "OpenRouter API Key": "sk-or-v1-" + HEX,
    "Groq API Key": "gsk_" + SOME[:52],
    "xAI API Key": "xai-" + SOME[:80],
    "Hugging Face Token": "hf_" + SOME[:34],
    "Replicate Token": "r8_" + SOME[:37],
    "GitHub Token": "github_pat_" + f"11{SOME[:20]}_{SOME[:59]}",
    "GitLab Token": "glpat-" + SOME[:20],
    "Atlassian Token": "ATATT3" + f"xFfGF0{SOME}=1A2B3C4D",
    "Azure DevOps Token": SOME[:76] + "AZDO" + "1aB2",
    "Azure Client Secret": "aB3" + f"8Q~{SOME[:31]}",
    "Azure Storage Account access key": "AccountKey=" + f"{SOME[:86]}==",
    "AWS Access Key": "ASIA" + "QYLPMN5HFIQR7XYA",
    "Google API Key": "AIza" + SOME[:35],
    "Google OAuth Secret": "GOCSPX-" + SOME[:28],
    "Google Service Account Key": '"private_key_id": "' + HEX[:40] + '"',
    "Slack Token": SLACK,
    "Slack Webhook": "https://hooks.slack.com/services/" + "T00000001/B00000001/" + SOME[:24],
    "Stripe Access Key": "sk_live_" + SOME[:24],
    "NPM tokens": "npm_" + SOME[:36],
    "PyPI Token": "pypi-AgE" + SOME[:80],
    "RubyGems Token": "rubygems_" + HEX[:48],
    "Docker Hub Token": "dckr_pat_" + SOME[:27],
    "HashiCorp Vault Token": "hvs." + SOME[:90],
    "Terraform Cloud Token": SOME[:14] + ".atlasv1." + SOME[:67],
    "DigitalOcean Token": "dop_v1_" + HEX,
    "Databricks Token": "dapi" + HEX[:32],
    "SendGrid API Key": "SG." + f"{SOME[:22]}.{SOME[:43]}",
    "Linear API Key": "lin_api_" + SOME[:40],
    "Grafana Token": "glsa_" + f"{SOME[:32]}_{HEX[:8]}",
    "Sentry Token": "sntrys_" + SOME[:60],
    "Shopify Token": "shpat_" + HEX[:32],
    "age Secret Key": "AGE-SECRET-KEY-1" + "QYLPMN5HFI" * 5 + "QYLPMN5H",
    "Private Key": KEY,
}


@pytest.mark.parametrize("path", ["notes.txt", "go.sum", "yarn.lock"])
def test_the_shape_of_every_key_is_known_in_every_file(path: str) -> None:
    assert KEYS.keys() == SHAPES.keys()
    lines = [line for key in KEYS.values() for line in (key, f"{key}  # pragma: allowlist secret")]
    found = {(finding["line"], finding["kind"]) for finding in scan(io.BytesIO(_log(path, lines)), None)}
    for number, kind in enumerate(KEYS):
        assert {(2 * number + 1, kind), (2 * number + 2, kind)} <= found, kind


def test_lock_files_and_placeholders_stop_nothing() -> None:
    hashed = [hashlib.sha512(str(n).encode()).digest() for n in range(300)]
    lock = [f'      "integrity": "sha512-{base64.b64encode(digest).decode()}",' for digest in hashed]
    sums = [f"example.org/x v1.0.{n} h1:{base64.b64encode(d[:32]).decode()}" for n, d in enumerate(hashed)]
    cargo = [f'checksum = "{digest[:32].hex()}"' for digest in hashed]
    docs = ["export K=sk-ant-xxxxxxxxxxxxxxxxxxxxxxxx", "export K=hf_" + "X" * 34]
    for path, lines in {"package-lock.json": lock, "go.sum": sums, "Cargo.lock": cargo, "README.md": docs}.items():
        assert scan(io.BytesIO(_log(path, lines)), None) == [], path


@pytest.mark.parametrize("secret", ["plain-but-ours", "p4ss w0rd: with/odd&signs+ü"])
async def test_every_secret_that_we_know_is_found_however_it_is_written(bench: Bench, secret: str) -> None:
    redaction.register_secret(secret)
    raw = secret.encode()
    wrapped = base64.encodebytes(b"x" * 52 + raw + b"y" * 60)
    contents = {
        "notes.txt": f"it is {secret}\n".encode(),
        "go.sum": raw + b"  # pragma: allowlist secret",
        "image.png": bytes(range(256)) + raw,
        "utf-16": secret.encode("utf-16"),
        "base64": base64.b64encode(raw),
        "base64 inside": base64.b64encode(b"user:" + raw + b"\n"),
        "base64 wrapped": wrapped,
        "json": json.dumps({"k": secret}).encode(),
        "url": b"https://x:" + quote(raw, safe="").encode() + b"@example.org/",
    }
    outcome = await _push(bench, contents)
    assert isinstance(outcome, SecretsFound)
    assert {f.path for f in outcome.findings} == contents.keys()
    assert secret not in str(outcome)
    assert bench.on_server() == ""


async def test_a_secret_that_the_work_takes_away_stops_nothing(bench: Bench) -> None:
    redaction.register_secret("stood-here-before")
    bench.person().commit("long ago", {"old.py": "stood-here-before\na = 1\n"})
    bench.person().push()
    assert isinstance(await _push(bench, {"old.py": "a = 1\n"}), Pushed)


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
