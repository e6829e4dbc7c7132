"""What the shell offers where a name is wanted: from the configuration and this machine alone, without any network.

A mistake in the configuration is for the command itself to tell: here it only means that nothing is offered.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from agentsmith.config import Config
    from agentsmith.pipelines.record import RunRecord

_MOST: Final = 50
"""Runs that are looked at, newest first."""
_PLAIN: Final = re.compile(r"[\w.:#/@-]+", re.ASCII)
"""What a shell takes as it is. What strangers wrote, titles above all, never comes near one: some evaluate it."""


def pipelines(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of pipelines."""
    return _offered(ctx, incomplete, lambda config: config.pipelines)


def trackers(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of trackers."""
    return _offered(ctx, incomplete, lambda config: config.trackers)


def tickets(ctx: typer.Context, incomplete: str) -> list[str]:
    """Keys of tickets: of those kept here, and of those that were run here."""
    return _offered(ctx, incomplete, lambda config: [*_kept_here(config), *(run.key for run in _runs(config))])


def runs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of runs, and tickets that were run here."""
    return _offered(ctx, incomplete, lambda config: [word for run in _runs(config) for word in (run.run, run.key)])


def _offered(ctx: typer.Context, incomplete: str, find: Callable[[Config], Iterable[str]]) -> list[str]:
    from agentsmith.cli import session

    with contextlib.suppress(Exception):
        config = session.begin(Path(given) if (given := ctx.params.get("config")) else None)
        return [word for word in dict.fromkeys(find(config)) if word.startswith(incomplete) and _PLAIN.fullmatch(word)]
    return []


def _kept_here(config: Config) -> Iterator[str]:
    import asyncio

    from agentsmith.trackers.local.settings import LocalSettings
    from agentsmith.trackers.local.tickets import LocalTickets

    async def keys(name: str, settings: LocalSettings) -> list[str]:
        async with LocalTickets(path=settings.file(config.data_dir), project=settings.project, name=name) as kept:
            return [ticket.key for ticket in await kept.tickets(labels=(), state="open")]

    for name, settings in config.trackers.items():
        if isinstance(settings, LocalSettings) and settings.file(config.data_dir).exists():
            yield from asyncio.run(keys(name, settings))


def _runs(config: Config) -> Iterator[RunRecord]:
    from agentsmith.pipelines.record import records

    return islice(records(config.data_dir), _MOST)
