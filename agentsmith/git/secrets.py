"""Keeps secrets out of pushes: every line that a push would publish for the first time is searched.

Not only the result: a secret that one commit adds and the next removes is published all the same.

What looks like a secret is found by `scan.py`, in a process of its own. The secrets that we know are looked for here,
so that they get into no file and no other process; in a thread, and in pieces so small that the event loop goes on.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

from agentsmith import redaction
from agentsmith.git import scan
from agentsmith.git.command import Git
from agentsmith.git.errors import GitStopped, TooLarge
from agentsmith.git.outcomes import Finding

BASELINE: Final = ".secrets.baseline"
"""Where the library keeps findings that people let pass. Believed from the default branch only."""
OURS: Final = "the credential of this repository"
GIVEN: Final = "a secret that agentsmith or a step was given"
_CHUNK: Final = 1024**2
_SHORTEST: Final = 8
"""Shorter ones stand in texts by chance."""
_LOG: Final = (
    *("log", "--patch", "--text", "--unified=0", "--cc", "--no-renames", "--full-index"),
    *("--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", "--format=%x00%H%x00%B%x00"),
)


async def search(
    git: Git, repo: Path, commits: Sequence[str], *, credential: str | None, baseline: bytes | None, limit: int
) -> tuple[Finding, ...]:
    """What looks like a secret in the lines that `commits` (as for `git log`) add.

    The credential of the repository, and every secret that we know, is looked for literally, in files of every kind.
    """
    log = git.shell.scratch / "push.log"
    allowed = git.shell.scratch / "push.baseline"
    try:
        # Online, because a partial clone may lack the blobs on the other side of a change.
        await git.online(*_LOG, *commits, "--", repo=repo, into=log)
        if log.stat().st_size > limit:
            raise TooLarge(
                f"the changes are larger than what is searched for secrets ({limit} bytes); push them yourself"
            )
        known = {value: GIVEN for value in redaction.registered() if len(value) >= _SHORTEST and "://" not in value}
        if credential:
            known[credential] = OURS
        if literal := await asyncio.to_thread(_literal, log, known):
            return literal
        if baseline is not None:
            allowed.write_bytes(baseline)
        argv = (sys.executable, "-I", scan.__file__, str(log), "-" if baseline is None else str(allowed))
        try:
            found = json.loads((await git.program(argv)).out)
        except GitStopped as late:
            raise TooLarge("the changes could not be searched for secrets in the time that there is") from late
        return tuple(Finding(shown(f["path"]), f["line"], f["kind"], f["commit"]) for f in found)
    finally:
        log.unlink(missing_ok=True)
        allowed.unlink(missing_ok=True)


def shown(path: str) -> str:
    """A file name as a person may see it, whatever bytes it has."""
    text = os.fsencode(path).decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "?" for c in text)


def spellings(value: str) -> Iterator[bytes]:
    """The forms in which a value can stand in a file: as it is, escaped, and in base64 wherever in it it begins."""
    # Of a key of many lines, each line by itself: that is how it stands in a file.
    lines = value.strip().replace("\\n", "\n").replace("\r", "").split("\n")
    for text in [line for line in lines if len(line) >= 16] if len(lines) > 1 else [value, value.strip()]:
        raw = text.encode("utf-8", "surrogateescape")
        yield raw
        yield text.encode("utf-16-le", "surrogatepass").replace(b"\0", b"")
        yield quote(raw, safe="").encode()
        yield json.dumps(text)[1:-1].encode()
        for shift in range(3):
            # The first and the last characters depend on what stands around it.
            encoded = base64.b64encode(b"\0" * shift + raw)
            inner = encoded[(0, 2, 3)[shift] : len(encoded) // 4 * 4 - (4 if (shift + len(raw)) % 3 else 0)]
            if len(inner) >= 2 * _SHORTEST:
                yield inner
                yield inner.translate(bytes.maketrans(b"+/", b"-_"))


def _literal(log: Path, known: Mapping[str, str]) -> tuple[Finding, ...]:
    """Where added lines have a known secret."""
    wanted = {spelling: kind for value, kind in known.items() for spelling in spellings(value) if spelling.strip()}
    found = _occurring(log, wanted)
    if not found:
        return ()
    with log.open("rb") as file:
        return tuple(
            Finding(shown(piece.path), number, wanted[spelling], piece.commit)
            for piece in scan.added(file)
            for spelling in found
            for number in _lines_with(piece, spelling)
        )


def _occurring(log: Path, wanted: Collection[bytes]) -> list[bytes]:
    """Which of them are somewhere in the file: a quick look, which mostly finds nothing."""
    found: set[bytes] = set()
    keep = 2 * max(map(len, wanted), default=0)
    tail = b""
    with log.open("rb") as file:
        while chunk := file.read(_CHUNK):
            data = tail + chunk
            flat = _flat(data)
            found |= {spelling for spelling in wanted if spelling in data or spelling in flat}
            tail = data[-keep:] if keep else b""
    return sorted(found)


def _flat(log: bytes) -> bytes:
    """A part of the log without its line ends, across which base64 is wrapped, and without NULs, as in UTF-16."""
    return log.replace(b"\0", b"").replace(b"\r", b"").replace(b"\n+", b"")


def _lines_with(piece: scan.Added, spelling: bytes) -> list[int]:
    lines = [(number, content.replace(b"\0", b"")) for number, content in piece.lines]
    if found := [number for number, content in lines if spelling in content]:
        return found
    whole = spelling in b"".join(content.rstrip(b"\r") for _, content in lines) or spelling in os.fsencode(piece.path)
    return [lines[0][0]] if whole and lines else []
