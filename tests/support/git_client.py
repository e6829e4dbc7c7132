"""A git client for tests: the real command line, with no configuration but what the test gives."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


def as_user(url: str, username: str, password: str) -> str:
    """The address with a login in it: fine for a test, and nowhere else."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{quote(username, safe='')}:{quote(password, safe='')}@{parts.netloc}"))


async def git(*arguments: str, cwd: Path, check: bool = True) -> Done:
    """Run git beside the loop that serves it; with `check`, a failure fails the test with git's own words."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    who = {f"GIT_{role}_{part}": f"mona{at}" for role in ("AUTHOR", "COMMITTER") for part, at in _PARTS}
    environment = {
        **kept,
        **who,
        "HOME": str(cwd),
        "LANG": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
    }
    process = await asyncio.create_subprocess_exec(
        "git",
        *arguments,
        cwd=cwd,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    done = Done(process.returncode or 0, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))
    assert not check or done.code == 0, f"git {arguments[0]}: {done.err}"
    return done


_PARTS = (("NAME", ""), ("EMAIL", "@example.com"))
