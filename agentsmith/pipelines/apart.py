"""Evaluates apart what a repository or a worker wrote: in a process of its own that gets only so much time and memory.

A template can loop for hours, and a pattern can try for ever. On the event loop that would keep every lease of this
consumer from being renewed, and a thread is no better: it holds the same lock. The process is one of the run, under its
guard, with an empty environment. In and out by JSON.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import resource
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agentsmith.domain.errors import MachineTrouble
from agentsmith.pipelines.worker import one_line, read_text

if TYPE_CHECKING:
    from agentsmith.git.shell import GitShell

SECONDS: Final = {"prompt": 10.0, "report": 120.0}
"""How long each may take; of an agent's output up to 144 MiB are read, which takes 1 to 25."""
MEMORY: Final = 512 * 1024**2
_LARGEST_ANSWER: Final = 64 * 1024**2
_START: Final = "import sys; sys.path.insert(0, sys.argv[1]); from agentsmith.pipelines.apart import main; main()"
"""The package that this process has, whatever is installed."""
_numbers: Final = itertools.count()


class TooMuch(Exception):
    """It took more time or memory than it gets; the message says which, as the end of a sentence."""


class NotUsable(Exception):
    """What was written cannot be used; the message says why."""


async def evaluate(shell: GitShell, what: str, given: Mapping[str, object]) -> Any:
    """Do one of the things in the table below with what is given; TooMuch or NotUsable when that cannot be done."""
    from agentsmith.guard.client import CommandNotStarted  # here, because the other process needs none of that

    stem = shell.scratch / f"apart-{os.getpid()}-{next(_numbers)}"
    stdin, stdout, stderr = (stem.with_suffix(suffix) for suffix in (".in", ".out", ".err"))
    try:
        for file in (stdin, stdout, stderr):
            file.touch(mode=0o600)
        stdin.write_text(json.dumps(given))
        package = Path(__file__).parents[2]
        seconds = SECONDS[what]
        argv = (sys.executable, "-I", "-c", _START, str(package), what, str(math.ceil(seconds)))
        try:
            ended = await shell.run(
                argv, env={}, cwd=shell.scratch, stdin=stdin, stdout=stdout, stderr=stderr, timeout=seconds
            )
        except CommandNotStarted as error:
            raise MachineTrouble(f"a process for it could not be started: {error}") from error
        if ended.code is None:
            raise TooMuch(f"took longer than {seconds:g} s")
        if ended.code != 0:
            last = read_text(stderr, limit=_LARGEST_ANSWER).rstrip("\n").rpartition("\n")[2]
            raise TooMuch(f"could not be evaluated: {one_line(last) or 'it said nothing'}")
        answer = json.loads(read_text(stdout, limit=_LARGEST_ANSWER))
    finally:
        for file in (stdin, stdout, stderr):
            file.unlink(missing_ok=True)
    if "machine" in answer:
        raise MachineTrouble(answer["machine"])
    if "too_much" in answer:
        raise TooMuch(f"needed more than {MEMORY // 1024**2} MiB of memory")
    if "not_usable" in answer:
        raise NotUsable(answer["not_usable"])
    return answer["result"]


def _prompt(given: dict[str, Any]) -> str:
    from agentsmith.pipelines.prompt import PromptFacts, make_prompt
    from agentsmith.pipelines.templates import BadTemplate

    try:
        return make_prompt(given["template"], PromptFacts(**given["facts"]))
    except BadTemplate as error:
        raise NotUsable(str(error)) from None


def _report(given: dict[str, Any]) -> dict[str, Any]:
    from dataclasses import asdict

    from agentsmith.pipelines.reports import Format, read_output

    return asdict(read_output(Format(**given["format"]), map(Path, given["parts"])))


TABLE: Final[Mapping[str, Callable[[dict[str, Any]], Any]]] = {"prompt": _prompt, "report": _report}
"""Everything that is evaluated apart."""


def main() -> None:
    """What the other process does: takes its limits upon itself, reads, evaluates and answers."""
    what, seconds = sys.argv[-2:]
    for limit, value in (
        (resource.RLIMIT_CPU, int(seconds)),
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, _LARGEST_ANSWER),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(OSError, ValueError):  # not every system knows each of them
            resource.setrlimit(limit, (value, value))
    try:
        said = json.dumps({"result": TABLE[what](json.load(sys.stdin))})
    except NotUsable as error:
        said = json.dumps({"not_usable": str(error)})
    except MachineTrouble as error:
        said = json.dumps({"machine": str(error)})
    except MemoryError:
        said = json.dumps({"too_much": True})
    sys.stdout.write(said)
