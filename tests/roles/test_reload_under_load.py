"""The configuration is read again and again while tickets are claimed, run and settled by a whole daemon."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from agentsmith.config import Config
from agentsmith.config.models import for_platforms
from agentsmith.daemon.build import Role
from agentsmith.daemon.process import Daemon, Up
from agentsmith.daemon.reload import Apply
from agentsmith.domain.errors import ConfigError
from agentsmith.domain.lifecycle import Status
from agentsmith.trackers import forges, registry
from agentsmith.trackers.local.settings import LocalSettings
from agentsmith.trackers.local.tickets import LocalTickets
from tests.support.settings_tried import ENTRIES, SETTINGS, VALUES, changed, is_reloaded, is_said, settings_of
from tests.support.stores import Settled
from tests.support.wait import wait_until

_UNDER_WAY: Final = 4
"""Tickets that are always somewhere between their trigger and their end, if the rules of the moment let them."""
_WORK: Final = frozenset({"command", "run", "shell", "working_directory", "timeout"})
"""What decides whether the work itself succeeds: with another value of these a ticket fails, as it is asked to."""


class Fed:
    """In place of the file that is watched: what a test puts in, when it does, and what the daemon made of it."""

    def __init__(self) -> None:
        self._given: asyncio.Queue[tuple[Config, asyncio.Future[list[str]]]] = asyncio.Queue()

    async def changes(self, apply: Apply) -> AsyncIterator[str]:
        while True:
            config, answer = await self._given.get()
            try:
                answer.set_result(apply(config))
            except ConfigError as error:
                answer.set_exception(error)
            yield ""

    async def put(self, config: Config) -> list[str]:
        answer: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        await self._given.put((config, answer))
        return await answer


@dataclass(slots=True)
class People:
    """They open tickets, so that there is always something to do."""

    desk: LocalTickets
    statuses: Callable[[frozenset[str]], frozenset[Status]]
    open: set[str] = field(default_factory=set)
    ended: int = 0

    async def keep_busy(self) -> None:
        """Open as many as have ended; at least one of them has a label of each trigger that is ever in force."""
        await self.look()
        for labels in (("one", "another", "agent-smith"), ("one",), ("one",), ("one",)):
            if len(self.open) < _UNDER_WAY or len(labels) > 1:
                self.open.add((await self.desk.new(title="t", body="b", labels=labels, actor="mona")).key)

    async def until_one_ends(self) -> None:
        ended = self.ended

        async def another() -> bool:
            await self.look()
            return self.ended > ended

        await wait_until(another, what="any ticket to be done")

    async def look(self) -> None:
        for key in list(self.open):
            found = self.statuses((await self.desk.show(key)).ticket.labels)
            assert not found & {Status.FAILED, Status.WAITING}, [
                c.body[:300] for c in (await self.desk.show(key)).comments
            ]
            if found == {Status.DONE}:
                self.open.discard(key)
                self.ended += 1

    async def at_rest(self) -> bool:
        await self.look()
        return not self.open


def renamings(base: dict[str, Any]) -> list[dict[str, Any]]:
    """The same in other words: each name in turn is another one, wherever it stands."""
    text = json.dumps(base)
    names = {"desk": "table", "hello": "hallo", "mine": "ours", "one": "another"}
    return [json.loads(text.replace(f'"{name}"', f'"{other}"')) for name, other in names.items()]


@pytest.mark.long
async def test_P2_no_change_of_any_setting_breaks_what_is_under_way(
    tmp_path: Path, redis_url: str, namespace: str, settled: Settled
) -> None:
    await settled()
    model = for_platforms(registry.settings_models(), forges.settings_models())
    base: dict[str, Any] = {
        "data_dir": str(tmp_path / "data"),
        "redis": {"url": redis_url, "namespace": namespace},
        "server": {"port": 0},
        "trackers": {"desk": {"platform": "local"}},
        "agents": {"mine": {"command": ["true"]}},
        "pipelines": {"hello": {"steps": [{"run": "true"}, {"agent": "mine"}]}},
        "triggers": [{"label": "one", "pipeline": "hello"}],
        "claim": {"retry_backoff": "100ms", "loop_limit": {"claims": 100_000}},
    }
    first = model(**base)
    quick = first.model_copy(update={"trackers": {"desk": LocalSettings(poll_interval="100ms")}})  # type: ignore[arg-type]
    (tmp_path / "data").mkdir()
    entries = [path for path in ENTRIES if path[-1] not in _WORK]
    settings = (*SETTINGS, *entries, *(("trackers", "desk", *path) for path in settings_of(LocalSettings)))
    fed = Fed()
    daemon = Daemon(quick, frozenset(Role), file=fed)  # type: ignore[arg-type]
    ready = asyncio.Event()

    def up(_: Up) -> None:
        ready.set()

    with capture_logs() as logged:
        serving = asyncio.create_task(daemon.run(up))
        await asyncio.wait({serving, asyncio.create_task(ready.wait())}, return_when=asyncio.FIRST_COMPLETED)
        async with LocalTickets(path=LocalSettings().file(tmp_path / "data"), project="tickets") as desk:
            people = People(desk, lambda labels: first.labels.statuses(labels))
            put, renamed = 0, itertools.cycle(renamings(base))
            for number, path in enumerate(settings):
                for value in VALUES:
                    try:
                        config = model(**changed(base, path, value))
                        waiting = await fed.put(config)
                    except (ValidationError, ConfigError):
                        continue
                    assert is_said(path, waiting) or is_reloaded(path) or config == first, (path, value)
                    put += 1
                if number % 3 == 0:
                    await people.keep_busy()
                    await fed.put(model(**next(renamed)))
                    await people.until_one_ends()
            assert put > 300
            await fed.put(first)
            await wait_until(people.at_rest, what="all tickets to be done")
        daemon.stop()
        await serving
    assert people.ended > len(settings) / 3
    trouble = [line for line in logged if line["log_level"] in ("error", "critical")]
    assert trouble == []
