"""`agentsmith up`: serve until told to stop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import structlog

from agentsmith import __version__, logs
from agentsmith.cli import output, session
from agentsmith.config import Config
from agentsmith.daemon import Daemon, Role, Up
from agentsmith.domain.errors import TrackerError
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.tracker import Tracker
from agentsmith.opening import open_trackers

log = structlog.get_logger()

INTERRUPTED: Final = 130
_ASK_WITHIN: Final = 5.0
"""Start-up waits no longer than this for a tracker to say who we are."""


def up(file: Path | None, roles: Sequence[str]) -> None:
    """Serve the roles, all of them if none is named."""
    config = session.begin(file)
    logs.configure(config.log.format, config.log.level)
    chosen = frozenset(Role(role) for role in roles) or frozenset(Role)
    asyncio.run(_serve(config, chosen))


async def _serve(config: Config, roles: frozenset[Role]) -> None:
    daemon = Daemon(config, roles)
    asked = False

    def stop() -> None:
        nonlocal asked
        if asked:
            # At once means at once: guards end the runs, the server ends with us, and the label converges later.
            os._exit(INTERRUPTED)
        asked = True
        if _for_people(config):
            limit = config.consumer.drain_timeout.text
            output.note(f"stopping: runs get up to {limit} to finish; once more ends it at once")
        daemon.stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    async with open_trackers(config) as trackers:
        await _ask_trackers(trackers)
        described = _describe(config, trackers)
    await daemon.run(on_ready=lambda ready: _tell(config, ready, described))


async def _ask_trackers(trackers: Mapping[str, Tracker]) -> None:
    """Find mistakes now (ConfigError ends the start-up); a tracker that is merely away never stops us."""
    await asyncio.gather(*(_ask(tracker) for tracker in trackers.values()))


async def _ask(tracker: Tracker) -> None:
    try:
        async with asyncio.timeout(_ASK_WITHIN):
            await tracker.me()
    except (TrackerError, TimeoutError) as error:
        why = str(error) or f"no answer within {_ASK_WITHIN:.0f} s"
        log.warning("the tracker does not answer, it will be asked again", tracker=tracker.name, error=why)


def _describe(config: Config, trackers: Mapping[str, Tracker]) -> dict[str, dict[str, str]]:
    """What people want to know of a daemon, by topic."""
    return {
        "trackers": {
            name: f"{tracker.project}, looked at {config.trackers[name].rhythm}" for name, tracker in trackers.items()
        },
        "triggers": {trigger.label: trigger.pipeline for trigger in config.triggers},
        "filters": {
            f"{name} {status.value}": tracker.filter_hint(status)
            for name, tracker in trackers.items()
            for status in Status
        },
    }


def _for_people(config: Config) -> bool:
    """Whether the log is the console's; among JSON lines, prose would only be in the way of programs."""
    return config.log.format == "console" or (config.log.format == "auto" and sys.stderr.isatty())


def _tell(config: Config, ready: Up, described: Mapping[str, Mapping[str, str]]) -> None:
    if not _for_people(config):
        log.info("serving", host=config.server.host, port=ready.port, **described)
        return
    for line in _lines(config, ready, described):
        output.note(line)


def _lines(config: Config, ready: Up, described: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    roles = ", ".join(ready.process.roles)
    slots = f" ({ready.process.slots} slots)" if ready.process.slots else ""
    where = "the one in redis.url" if config.redis.url is not None else f"our own, data in {config.data_dir}"
    yield f"agentsmith {__version__} is up: {roles}{slots}"
    yield f"  Redis    {ready.redis}, {where}"
    if ready.port is not None:
        host = f"[{config.server.host}]" if ":" in config.server.host else config.server.host
        yield f"  HTTP     http://{host}:{ready.port}"
    for name, text in described["trackers"].items():
        yield f"  Tracker  {name}: {text}"
    for label, pipeline in described["triggers"].items():
        yield f"  Label    {label} starts {pipeline}"
    yield "  To see how it goes, filter by label:"
    width = max(map(len, described["filters"]))
    for what, hint in described["filters"].items():
        yield f"    {what:<{width}}  {hint}"
    yield "Ctrl-C stops it."
