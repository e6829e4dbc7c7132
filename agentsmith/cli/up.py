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
from agentsmith.config import Config, Trigger, find_file
from agentsmith.daemon.build import Role
from agentsmith.daemon.open import open_trackers, shadow_of
from agentsmith.daemon.process import Daemon, Up
from agentsmith.daemon.reload import ConfigFile
from agentsmith.domain.errors import TrackerError
from agentsmith.domain.hooks import PATH
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.tracker import Tracker

log = structlog.get_logger()

INTERRUPTED: Final = 130
_ASK_WITHIN: Final = 5.0
"""Start-up waits no longer than this for a tracker to say who we are."""


def up(file: Path | None, roles: Sequence[str], *, shadow: bool = False) -> None:
    """Serve the roles, all of them if none is named; a `shadow` only looks."""
    path = find_file(file)

    def read() -> Config:
        return shadow_of(session.read(file)) if shadow else session.read(file)

    # Made before the file is read: what changes in between is noticed.
    watched = ConfigFile(path, read) if path is not None else None
    config = session.begin(file, secrets="all")
    config = shadow_of(config) if shadow else config
    logs.configure(config.log.format, config.log.level)
    chosen = frozenset(Role(role) for role in roles) or frozenset(Role)
    asyncio.run(_serve(config, chosen, watched, shadow=shadow))


async def _serve(config: Config, roles: frozenset[Role], file: ConfigFile | None, *, shadow: bool) -> None:
    daemon = Daemon(config, roles, file=file, shadow=shadow)
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
    if file is not None:
        loop.add_signal_handler(signal.SIGHUP, file.look_now)
    async with open_trackers(config) as trackers:
        await _ask_trackers(trackers)
        described = _describe(config, trackers)

    def ready(up: Up) -> None:
        _warn(config, shadow=shadow)
        _tell(config, up, described)

    await daemon.run(on_ready=ready)


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
            name: f"{tracker.project}, looked at {config.trackers[name].polled}, {_hearing(config, name)}"
            for name, tracker in trackers.items()
        },
        "triggers": {_ruled(trigger): trigger.pipeline for trigger in config.triggers},
        "filters": {
            f"{name} {status.value}": tracker.filter_hint(status)
            for name, tracker in trackers.items()
            for status in Status
        },
    }


def _hearing(config: Config, tracker: str) -> str:
    """Whether a tracker's webhooks are taken."""
    settings = config.trackers[tracker]
    if settings.webhook_secret:
        return f"webhooks at /{PATH}/{tracker}"
    if settings.insecure:
        return f"webhooks at /{PATH}/{tracker} FROM ANYBODY (insecure: true)"
    return "no webhooks (there is no webhook_secret)"


def _ruled(trigger: Trigger) -> str:
    """A trigger's label with its filters."""
    filters = [f"{name} {_listed(getattr(trigger, name))}" for name in trigger.filtered]
    return trigger.label + (f" ({', '.join(filters)})" if filters else "")


def _listed(value: str | Sequence[str]) -> str:
    return value if isinstance(value, str) else " or ".join(value)


def _warn(config: Config, *, shadow: bool) -> None:
    """What nobody may overlook, whatever the log level shows first."""
    if shadow:
        log.warning("this is a shadow: it looks and decides, and writes nothing; see: agentsmith why TICKET")
    for name, settings in config.trackers.items():
        if settings.insecure and not settings.webhook_secret:
            log.warning(
                "INSECURE: webhooks of this tracker are taken from anybody; set a webhook_secret and remove insecure",
                tracker=name,
            )


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
