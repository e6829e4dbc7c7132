"""`agentsmith dead-letters …`: requests that nobody could run, and a person's word about them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentsmith.cli import output, runs, session
from agentsmith.config import Config
from agentsmith.daemon.open import open_store
from agentsmith.domain.errors import ConfigError
from agentsmith.domain.request import MalformedRequest, PipelineRequest
from agentsmith.store import DeadLetter


def show_all(file: Path | None, *, as_json: bool) -> None:
    """List them, oldest first."""
    letters = asyncio.run(_letters(session.begin(file)))
    if as_json:
        output.json_result([_as_data(letter) for letter in letters])
    elif not letters:
        output.say("there are no dead letters")
    else:
        output.rows(
            ("Id", "When", "Ticket", "Why"),
            [(x.id, _when(x.at), x.request.ticket if x.request else "unreadable", x.reason) for x in letters],
        )


def show(file: Path | None, name: str, *, as_json: bool) -> None:
    """Everything that is known about one."""
    letter = _named(asyncio.run(_letters(session.begin(file))), name)
    if as_json:
        output.json_result(_as_data(letter))
        return
    output.say(f"{letter.id}  {_when(letter.at)}")
    output.say(f"why       {output.clean(letter.reason)}")
    if (request := letter.request) is None:
        output.say(f"unreadable: {_why_unreadable(letter)}")
        output.say(output.clean(letter.payload))
        return
    fields = {
        "ticket": request.ticket,
        "tracker": f"{request.tracker}:{request.key}",
        "title": request.pinned.title,
        "pipeline": request.pipeline,
        "run": request.run,
        "attempts": str(request.attempt),
    }
    for name, text in fields.items():
        output.say(f"{name:9} {output.clean(text)}")
    output.say(f"\nrun it again: agentsmith dead-letters retry {letter.id}")


def retry(file: Path | None, name: str, *, actor: str | None, as_json: bool) -> bool:
    """Have its ticket run again, and forget the letter; False when that cannot be."""
    config = session.begin(file)

    async def work() -> runs.Answer:
        letter = _named(await _letters(config), name)
        request = letter.request
        if request is None:
            why = f"{letter.id} cannot be read ({_why_unreadable(letter)}); upgrade agentsmith, or drop it"
            return runs.Answer("", "", False, "unreadable", why)
        answer = await runs.retried(config, f"{request.tracker}:{request.key}", session.whoever(actor))
        if answer.ok:
            await _drop(config, [letter])
        return answer

    return runs.tell(asyncio.run(work()), as_json=as_json)


def drop(file: Path | None, names: Sequence[str], *, everything: bool, as_json: bool) -> None:
    """Forget those named, or all."""
    if everything == bool(names):
        raise ConfigError("name the letters to drop, or say --all; agentsmith dead-letters list shows them")
    config = session.begin(file)

    async def work() -> list[DeadLetter]:
        letters = await _letters(config)
        dropped = letters if everything else [_named(letters, name) for name in dict.fromkeys(names)]
        await _drop(config, dropped)
        return dropped

    dropped = asyncio.run(work())
    if as_json:
        output.json_result({"dropped": [letter.id for letter in dropped]})
    else:
        output.say(f"dropped {len(dropped)}; the tickets keep their labels")


async def _letters(config: Config) -> list[DeadLetter]:
    async def ask() -> list[DeadLetter]:
        async with open_store(config) as opened:
            return await opened.store.queue.dead_letters()

    return await output.patiently(ask(), "waiting for Redis")


async def _drop(config: Config, letters: Sequence[DeadLetter]) -> None:
    async with open_store(config) as opened:
        for letter in letters:
            await opened.store.queue.drop_dead_letter(letter)


def _named(letters: Sequence[DeadLetter], name: str) -> DeadLetter:
    """The one whose id begins like this."""
    found = [letter for letter in letters if name and letter.id.startswith(name)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(letter.id for letter in letters[-10:]) or "there are none"
    problem = "several dead letters begin with" if found else "no dead letter is called"
    raise ConfigError(f"{problem} {name[:40]!r}; known: {known}")


def _why_unreadable(letter: DeadLetter) -> str:
    with contextlib.suppress(MalformedRequest):
        PipelineRequest.from_json(letter.payload)
        return ""
    return letter.reason


def _as_data(letter: DeadLetter) -> dict[str, Any]:
    request = letter.request
    return {
        "id": letter.id,
        "at": _when(letter.at),
        "reason": letter.reason,
        "ticket": request.ticket if request else None,
        "request": asdict(request) if request else None,
        "payload": letter.payload,
    }


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
