"""Keeps secrets out of pushes: every line that a push would publish for the first time is searched.

Not only the result: a secret that one commit adds and the next removes is published all the same.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agentsmith.pipelines.git import scan
from agentsmith.pipelines.git.command import Git
from agentsmith.pipelines.git.errors import GitStopped, TooLarge
from agentsmith.pipelines.git.outcomes import Finding

BASELINE: Final = ".secrets.baseline"
"""Where the library keeps findings that people let pass. Believed from the default branch only."""
OURS: Final = "the credential of this repository"
_CHUNK: Final = 8 * 1024**2
_LOG: Final = (
    *("log", "--patch", "--text", "--unified=0", "--cc", "--no-renames", "--full-index"),
    *("--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", "--format=%x00%H%x00%B%x00"),
)


async def search(
    git: Git, repo: Path, commits: Sequence[str], *, known: str | None, baseline: bytes | None, limit: int
) -> tuple[Finding, ...]:
    """What looks like a secret in the lines that `commits` (as for `git log`) add; `known` is looked for literally."""
    log = git.shell.scratch / "push.log"
    allowed = git.shell.scratch / "push.baseline"
    try:
        # Online, because a partial clone may lack the blobs on the other side of a change.
        await git.online(*_LOG, *commits, "--", repo=repo, into=log)
        if log.stat().st_size > limit:
            raise TooLarge(
                f"the changes are larger than what is searched for secrets ({limit} bytes); push them yourself"
            )
        if known and _occurs(log, known.encode()) and (ours := _literal(log, known.encode())):
            return ours
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


def _occurs(log: Path, value: bytes) -> bool:
    tail = b""
    with log.open("rb") as file:
        while chunk := file.read(_CHUNK):
            if value in tail + chunk:
                return True
            tail = chunk[-len(value) :]
    return False


def _literal(log: Path, value: bytes) -> tuple[Finding, ...]:
    with log.open("rb") as file:
        return tuple(
            Finding(shown(piece.path), number, OURS, piece.commit)
            for piece in scan.added(file)
            for number, content in piece.lines
            if value in content
        )
