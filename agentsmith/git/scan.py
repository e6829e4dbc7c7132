"""Searches the added lines of a series of commits for secrets: for the shapes of keys that providers give out, in files
of every kind, and with the detectors of detect-secrets, which know to leave lock files and the like alone.

A program of its own, started by path: what it reads was written by a worker, and no line of it may stall or bring down
the process that renews the lease. Imports the library and nothing of ours. In: a file with the output of
`git log -p` in the form that `secrets.py` asks for, and the path of a baseline or `-`. Out: the findings as JSON,
without the values.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any, BinaryIO

MESSAGE = "(commit message)"
LINE_LIMIT = 8 * 1024
OVERLAP = 512
MOST_FINDINGS = 200
# A public address is no secret; the library counts it as one.
NOT_SECRET = frozenset({"IPPublicDetector"})
# Names whose checksums the library takes for keys, beside those that it knows itself.
CHECKSUMS = (
    r"(^|/)(pnpm-lock\.yaml|go\.sum|bun\.lock|deno\.lock|npm-shrinkwrap\.json|gradle\.lockfile|MODULE\.bazel\.lock)$"
)
EXCLUSION = "detect_secrets.filters.regex.should_exclude_"
BUILT_IN_EXCLUSIONS = frozenset(f"{EXCLUSION}{what}" for what in ("line", "file", "secret"))
# What the keys of common providers look like; each begins with what no hash or word begins with by chance.
SHAPES = {
    "Anthropic API Key": r"sk-ant-[\w-]{20,}",
    "OpenAI Token": r"sk-(?:proj|svcacct|admin|None)-[\w-]{20,}|sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}",
    "OpenRouter API Key": r"sk-or-v1-[0-9a-f]{64}",
    "Groq API Key": r"gsk_[A-Za-z0-9]{52}",
    "xAI API Key": r"xai-[A-Za-z0-9]{80}",
    "Hugging Face Token": r"(?:hf|api_org)_[A-Za-z0-9]{34}",
    "Replicate Token": r"r8_[A-Za-z0-9]{37}",
    "GitHub Token": r"gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_\w{22,255}",
    "GitLab Token": r"gl(?:pat|rt|rtr|dt|cbt|ptt|ft|imt|agent|soat|oas|ffct)-[\w.-]{20,}|GR1348941[\w-]{20}",
    "Atlassian Token": r"AT(?:ATT3|CTT3|BB|STT3)[\w=.-]{20,}",
    "Azure DevOps Token": r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}",
    "Azure Client Secret": r"[\w~.]{3}\dQ~[\w~.-]{31,34}",
    "Azure Storage Account access key": r"AccountKey=[A-Za-z0-9+/]{86}==",
    "AWS Access Key": r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Z0-9])",
    "Google API Key": r"AIza[\w-]{35}",
    "Google OAuth Secret": r"GOCSPX-[\w-]{28}|ya29\.[\w-]{40,}",
    "Google Service Account Key": r"(?<=\")private_key_id\"\s{0,9}:\s{0,9}\"[0-9a-f]{40}",
    "Slack Token": r"xox[abceoprs](?:-[A-Za-z0-9]{6,}){2,}|xapp-\d-[A-Z0-9]{6,}-\d{6,}-[0-9a-f]{20,}",
    "Slack Webhook": r"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9+/]{40,}",
    "Stripe Access Key": r"[rs]k_live_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{24,}",
    "NPM tokens": r"npm_[A-Za-z0-9]{36}",
    "PyPI Token": r"pypi-AgE[\w-]{50,}",
    "RubyGems Token": r"rubygems_[0-9a-f]{48}",
    "Docker Hub Token": r"dckr_[op]at_[\w-]{27,}",
    "HashiCorp Vault Token": r"hv[sbr]\.[\w-]{24,}",
    "Terraform Cloud Token": r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}",
    "DigitalOcean Token": r"do[opr]_v1_[0-9a-f]{64}",
    "Databricks Token": r"dapi[0-9a-f]{32}",
    "SendGrid API Key": r"SG\.[\w-]{22}\.[\w-]{43}",
    "Linear API Key": r"lin_api_[A-Za-z0-9]{40}",
    "Grafana Token": r"glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}|glc_[A-Za-z0-9+/]{32,}",
    "Sentry Token": r"sntry[su]_[\w+/=-]{40,}",
    "Shopify Token": r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
    "age Secret Key": r"AGE-SECRET-KEY-1[A-Z0-9]{58}",
    "Private Key": r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----",
}
_KINDS = tuple(SHAPES)
_SHAPE = re.compile(r"(?<![A-Za-z0-9])(?:" + "|".join(f"({shape})" for shape in SHAPES.values()) + ")")
# What documentation writes where a key would stand.
_PLACEHOLDER = re.compile(r"EXAMPLE|[xX.*0]{8,}|(.)\1{15,}")
_HUNK = re.compile(rb"(@@+) (.*?) @@+")
_RANGE = re.compile(rb"([-+])(\d+)(?:,(\d+))?\Z")
_ESCAPES = {ord("a"): 7, ord("b"): 8, ord("t"): 9, ord("n"): 10, ord("v"): 11, ord("f"): 12, ord("r"): 13}


@dataclass(slots=True)
class Added:
    """The lines that one commit added to one file, each with its number there."""

    commit: str
    path: str
    lines: list[tuple[int, bytes]] = field(default_factory=list)
    removed: set[bytes] = field(default_factory=set)
    """The lines that it took away."""


def added(log: BinaryIO) -> Iterator[Added]:
    """Read the log. Counts the lines of each hunk, so that no content can pass for a heading."""
    commit, current = "", Added("", "")
    while line := log.readline():
        if line.startswith(b"\0"):
            if current.lines:
                yield current
            commit = line[1:].split(b"\0")[0].decode("ascii", "replace")
            message = line.split(b"\0", 2)[2] if line.count(b"\0") >= 2 else b""
            while not message.rstrip(b"\n").endswith(b"\0") and (more := log.readline()):
                message += more
            text = message.rstrip(b"\n").rstrip(b"\0").split(b"\n")
            yield Added(commit, MESSAGE, list(enumerate(text, 1)))
            current = Added(commit, "")
        elif line.startswith(b"diff --"):
            if current.lines:
                yield current
            current = Added(commit, "")
        elif line.startswith(b"+++ "):
            current.path = _path(line[4:].rstrip(b"\n"))
        elif line.startswith(b"@@") and (heading := _HUNK.match(line)):
            current.lines += _hunk(log, heading, current.removed)
    if current.lines:
        yield current


def _hunk(log: BinaryIO, heading: re.Match[bytes], removed: set[bytes]) -> Iterator[tuple[int, bytes]]:
    ranges = [found for word in heading[2].split() if (found := _RANGE.match(word))]
    *before, result = ranges
    left = [1 if found[3] is None else int(found[3]) for found in before]
    parents = len(left)
    number, to_come = int(result[2]), 1 if result[3] is None else int(result[3])
    while to_come > 0 or any(count > 0 for count in left):
        line = log.readline()
        if not line:
            return
        if line.startswith(b"\\"):  # "no newline at the end"
            continue
        signs, content = line[:parents], line[parents:].rstrip(b"\n")
        in_result = b"-" not in signs
        if not in_result and b"pragma" in content:
            removed.add(content)
        for index in range(parents):
            sign = signs[index : index + 1]
            if sign == b"-" or (sign == b" " and in_result):
                left[index] -= 1
        if in_result:
            if signs == b"+" * parents:
                yield number, content
            number += 1
            to_come -= 1


def _path(name: bytes) -> str:
    name = name.removesuffix(b"\t")
    if name.startswith(b'"') and name.endswith(b'"'):
        name = _unquoted(name[1:-1])
    return os.fsdecode(name.removeprefix(b"b/"))


def _unquoted(name: bytes) -> bytes:
    out, at = bytearray(), 0
    while at < len(name):
        if name[at] != 0x5C:
            out.append(name[at])
            at += 1
        elif name[at + 1 : at + 4].isdigit():
            out.append(int(name[at + 1 : at + 4], 8))
            at += 4
        else:
            out.append(_ESCAPES.get(name[at + 1], name[at + 1]))
            at += 2
    return bytes(out)


def text_lines(lines: list[tuple[int, bytes]]) -> list[tuple[int, str]]:
    """What of it a detector can read: nothing of binary files, and no line longer than detectors can stand."""
    data = b"\n".join(content for _, content in lines)
    if b"\0" in data:
        plain = data.replace(b"\0", b"")  # UTF-16, perhaps
        odd = sum(1 for byte in plain[:8000] if byte < 9 or 13 < byte < 32 or byte == 127)
        if odd > len(plain[:8000]) // 50:
            return []
    out = []
    for number, content in lines:
        text = content.replace(b"\0", b"").decode("utf-8", "replace").replace("\r", " ")
        for start in range(0, max(1, len(text)), LINE_LIMIT - OVERLAP):
            out.append((number, text[start : start + LINE_LIMIT]))
            if start + LINE_LIMIT >= len(text):
                break
    return out


def without_pragmas(piece: Added) -> list[tuple[int, bytes]]:
    """The lines, in which a pragma that lets a finding pass counts only where the very same line stood before.

    Who writes the change does not decide what is looked at in it. One about the line after it never counts: that line
    may be another now.
    """
    return [
        (number, content if content in piece.removed and b"nextline" not in content else _unsaid(content))
        for number, content in piece.lines
    ]


def _unsaid(line: bytes) -> bytes:
    return line.replace(b"pragma", b"pr gma")


def keys_in(lines: list[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    """What has the shape of a key, as (line, kind, value)."""
    text = "\n".join(text for _, text in lines)
    at, before = 0, 0
    for found in _SHAPE.finditer(text):
        at, before = at + text.count("\n", before, found.start()), found.start()
        if found.lastindex and not _PLACEHOLDER.search(found[0]):
            yield lines[at][0], _KINDS[found.lastindex - 1], found[0]


def fresh(lines: list[tuple[int, str]], known: set[str]) -> list[tuple[int, str]]:
    """The lines that this file has not shown before, for most of a large change repeats itself.

    A pragma may be about the line after it, so these two stay together.
    """
    out, after_pragma = [], False
    for number, text in lines:
        pragma = "pragma" in text
        if pragma or after_pragma or text not in known:
            out.append((number, text))
            known.add(text)
        after_pragma = pragma
    return out


def settings_from(baseline: dict[str, Any] | None) -> dict[str, Any]:
    """The library's settings: its own detectors and filters, tuned by the baseline, but never code that it names."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    classes: dict[str, type] = get_mapping_from_secret_type_to_class()
    known = {plugin.__name__ for plugin in classes.values()}
    plugins = [{"name": name} for name in sorted(known - NOT_SECRET)]
    exclusions: dict[str, list[str]] = {"detect_secrets.filters.regex.should_exclude_file": [CHECKSUMS]}
    if baseline is not None:
        named = [p for p in _dicts(baseline.get("plugins_used")) if p.get("name") in known and "path" not in p]
        plugins = named or plugins
        for entry in _dicts(baseline.get("filters_used")):
            if entry.get("path") in BUILT_IN_EXCLUSIONS and isinstance(entry.get("pattern"), list):
                exclusions.setdefault(entry["path"], []).extend(map(str, entry["pattern"]))
    from detect_secrets.settings import Settings

    filters = [{"path": path} for path in Settings().filters if path not in Settings.DEFAULT_FILTERS]
    return {
        "plugins_used": plugins,
        "filters_used": filters + [{"path": path, "pattern": patterns} for path, patterns in exclusions.items()],
    }


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def allowed_by(baseline: dict[str, Any] | None) -> set[tuple[str, str]]:
    """The findings that people have looked at and let pass, as (file, hash of the value)."""
    results = (baseline or {}).get("results")
    return {
        (name, str(item.get("hashed_secret")))
        for name, items in (results.items() if isinstance(results, dict) else ())
        for item in _dicts(items)
    }


@dataclass(slots=True)
class _Exclusions:
    files: list[re.Pattern[str]]
    secrets: list[re.Pattern[str]]

    def let_pass(self, path: str, value: str) -> bool:
        """Whether people said on the default branch that this is none."""
        return any(p.search(path) for p in self.files) or any(p.search(value) for p in self.secrets)


def _exclusions(baseline: dict[str, Any] | None) -> _Exclusions:
    found: dict[str, list[re.Pattern[str]]] = {}
    for entry in _dicts((baseline or {}).get("filters_used")):
        if entry.get("path") in BUILT_IN_EXCLUSIONS and isinstance(entry.get("pattern"), list):
            for pattern in entry["pattern"]:
                with contextlib.suppress(re.error):
                    found.setdefault(entry["path"], []).append(re.compile(str(pattern)))
    return _Exclusions(found.get(f"{EXCLUSION}file", []), found.get(f"{EXCLUSION}secret", []))


def _hash(value: str) -> str:
    return hashlib.sha1(value.encode(), usedforsecurity=False).hexdigest()  # as the library does


def scan(log: BinaryIO, baseline: dict[str, Any] | None) -> list[dict[str, object]]:
    """All findings, each file of each commit on its own."""
    from detect_secrets.core.scan import scan_file
    from detect_secrets.settings import transient_settings

    allowed, findings = allowed_by(baseline), []
    exclusions = _exclusions(baseline)
    seen: set[tuple[str, int, str, str]] = set()
    with tempfile.TemporaryDirectory(prefix="agentsmith-scan-") as folder, transient_settings(settings_from(baseline)):
        known: dict[str, set[str]] = {}
        for piece in added(log):
            lines = fresh(text_lines(without_pragmas(piece)), known.setdefault(piece.path, set()))
            if not any(text.strip() for _, text in lines):
                continue
            for number, kind, value in keys_in(lines):
                key = (piece.path, number, kind, piece.commit)
                if key in seen or (piece.path, _hash(value)) in allowed or exclusions.let_pass(piece.path, value):
                    continue
                seen.add(key)
                findings.append({"path": piece.path, "line": number, "kind": kind, "commit": piece.commit})
            with _as_file(folder, piece.path, lines) as name:
                for secret in scan_file(name):
                    number = lines[min(max(secret.line_number, 1), len(lines)) - 1][0]
                    key = (piece.path, number, secret.type, piece.commit)
                    if (piece.path, secret.secret_hash) in allowed or key in seen:
                        continue
                    seen.add(key)
                    findings.append({"path": piece.path, "line": number, "kind": secret.type, "commit": piece.commit})
            if len(findings) >= MOST_FINDINGS:
                break
    return findings


@contextlib.contextmanager
def _as_file(folder: str, path: str, lines: list[tuple[int, str]]) -> Iterator[str]:
    """Show the lines to the library under the name that they have in the repository."""
    place = tempfile.mkdtemp(dir=folder)
    name = "message.txt" if path == MESSAGE else path
    with contextlib.chdir(place):
        try:
            os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
            file = open(name, "x", encoding="utf-8", errors="replace", newline="\n")  # noqa: SIM115
        except (OSError, ValueError):
            name = "file" + os.path.splitext(name)[1][:20].replace("/", "_").replace("\0", "_")
            file = open(name, "w", encoding="utf-8", errors="replace", newline="\n")  # noqa: SIM115
        with file:
            file.write("".join(text.replace("\n", " ") + "\n" for _, text in lines))
        yield name


def _no_network(*_: object, **__: object) -> None:
    raise OSError("the scanner has no business on the network")


class _Requests(ModuleType):
    """Stands in for what the library would ask others with whether a finding is live; loading that takes longest."""

    exceptions = SimpleNamespace(RequestException=OSError)
    Response = object
    get = post = staticmethod(_no_network)


def main() -> int:
    """`scan.py LOG BASELINE|-`."""
    socket.socket.connect = _no_network  # type: ignore[method-assign]
    sys.modules["requests"] = _Requests("requests")
    baseline: dict[str, Any] | None = None
    if sys.argv[2] != "-":
        with contextlib.suppress(ValueError), open(sys.argv[2], encoding="utf-8", errors="replace") as file:
            found = json.load(file)
            baseline = found if isinstance(found, dict) else None
    with open(sys.argv[1], "rb") as log:
        json.dump(scan(log, baseline), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
