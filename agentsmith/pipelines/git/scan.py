"""Searches the added lines of a series of commits for secrets, with the detectors of detect-secrets.

A program of its own, started by path: what it reads was written by a worker, and no line of it may stall or bring down
the process that renews the lease. Imports the library and nothing of ours. In: a file with the output of
`git log -p` in the form that `secrets.py` asks for, and the path of a baseline or `-`. Out: the findings as JSON,
without the values.
"""

from __future__ import annotations

import contextlib
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
BUILT_IN_EXCLUSIONS = frozenset(
    f"detect_secrets.filters.regex.should_exclude_{what}" for what in ("line", "file", "secret")
)
_HUNK = re.compile(rb"(@@+) (.*?) @@+")
_RANGE = re.compile(rb"([-+])(\d+)(?:,(\d+))?\Z")
_ESCAPES = {ord("a"): 7, ord("b"): 8, ord("t"): 9, ord("n"): 10, ord("v"): 11, ord("f"): 12, ord("r"): 13}


@dataclass(slots=True)
class Added:
    """The lines that one commit added to one file, each with its number there."""

    commit: str
    path: str
    lines: list[tuple[int, bytes]] = field(default_factory=list)


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
            current.lines += _hunk(log, heading)
    if current.lines:
        yield current


def _hunk(log: BinaryIO, heading: re.Match[bytes]) -> Iterator[tuple[int, bytes]]:
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


def scan(log: BinaryIO, baseline: dict[str, Any] | None) -> list[dict[str, object]]:
    """All findings, each file of each commit on its own."""
    from detect_secrets.core.scan import scan_file
    from detect_secrets.settings import transient_settings

    allowed, findings = allowed_by(baseline), []
    seen: set[tuple[str, int, str, str]] = set()
    with tempfile.TemporaryDirectory(prefix="agentsmith-scan-") as folder, transient_settings(settings_from(baseline)):
        known: dict[str, set[str]] = {}
        for piece in added(log):
            lines = fresh(text_lines(piece.lines), known.setdefault(piece.path, set()))
            if not any(text.strip() for _, text in lines):
                continue
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
