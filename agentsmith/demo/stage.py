"""The stage of the demo: a folder with a configuration, a Redis, tickets and processes, and nothing left of it after.

Every process is known by its pid and ended by it, on every way out.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from agentsmith.config import Config, load
from agentsmith.config.names import choices
from agentsmith.daemon.open import open_forges, open_store, open_trackers
from agentsmith.demo import code
from agentsmith.demo.actors import Process, Troupe
from agentsmith.demo.venue import LOCAL, Engine, Venue, open_local
from agentsmith.domain.errors import AgentSmithError, ConfigError
from agentsmith.domain.forge import Forge
from agentsmith.domain.signal import Signal
from agentsmith.domain.ticket import TicketId, slug
from agentsmith.domain.tracker import Tracker
from agentsmith.running.branches import branch_for
from agentsmith.store import AWAY, Store
from agentsmith.trackers import forges as code_hosts
from agentsmith.trackers import registry
from agentsmith.trackers.local.settings import DEFAULT_FILE

ENGINE: Final = "engine"
CONSUMERS: Final = ("consumer-1", "consumer-2")
TRIGGERS: Final = {
    "agent-smith": "quick",
    "agent-smith:publish": "broken",
    "agent-smith:reindex": "long",
}
CODE_TRIGGERS: Final = {
    "agent-smith": "quick",
    "agent-smith:publish": "broken",
    code.TRIGGER: code.PIPELINE,
}
"""Where there is code beside the tickets, the long work is coding work."""
_ROLES: Final = {
    ENGINE: ("poller", "housekeeping", "receiver"),
    **dict.fromkeys(CONSUMERS, ("consumer",)),
}
PROCESSES: Final = len(_ROLES)
_DATA: Final = "data"
_SCALED: Final = ("lease", "consumer", "claim", "housekeeping")
_LOOK_EVERY: Final = 0.02
_STOP_WITHIN: Final = 8.0
_GUARDS_GONE_WITHIN: Final = 5.0

_WORK: Final = """\
# What the tickets of the demo ask for: quick, broken or long. Any command could stand here.
note() { printf '%s %s %s\\n' "$1" "$AGENTSMITH_RUN_ID" "$2" >> "$HOME/history"; }
note begin $$
case "$1" in
  quick) sleep 0.3 ;;
  broken) cat release-notes.md ;;
  # The first attempt never ends by itself: it is the one whose consumer gets killed.
  long) if [ "$AGENTSMITH_ATTEMPT" = 1 ]; then sleep 600 & note child $!; wait; fi ;;
esac
code=$?
note end $code
exit $code
"""


class StageFright(AgentSmithError):
    """The demo could not be set up; the message says which process failed and why."""


@dataclass(slots=True)
class Stage:
    """Where the demo plays."""

    folder: Path
    config: Config
    store: Store
    tracker: Tracker
    """The daemons' side of the tickets, asked for nothing but names."""
    venue: Venue
    """People's side of the same tickets."""
    troupe: Troupe
    forges: Mapping[str, Forge] = field(default_factory=dict)
    """Asked for nothing but where the code is."""
    processes: dict[str, Process] = field(default_factory=dict)

    @property
    def logs(self) -> dict[str, Path]:
        """The log of each process."""
        return {name: self.folder / f"{name}.log" for name in _ROLES}

    def history(self, key: str) -> list[list[str]]:
        """What the runs of a ticket noted: `begin`, `child` or `end`, the run, and a pid or an exit code."""
        file = self.config.data_dir / "workspaces" / slug(key, self.tracker.name) / "home" / "history"
        try:
            return [words for line in file.read_text().splitlines() if len(words := line.split()) == 3]
        except FileNotFoundError:
            return []

    def ticket_id(self, key: str) -> TicketId:
        """What the daemons call the ticket."""
        return self.tracker.ticket_id(key)

    def branch(self, key: str) -> str:
        """Where the daemons work on the ticket's code."""
        return branch_for(key, self.tracker.name, self.forges)

    async def raise_curtain(self) -> None:
        """Start every process, wait until each says that it is alive, and let the engine hear of tickets."""
        for name, roles in _ROLES.items():
            self._start(name, roles)
        while len(await self.store.presence.alive()) < len(self.processes) or self._port() is None:
            self.look_after_processes()
            await asyncio.sleep(_LOOK_EVERY)
        receiver = f"http://{self.config.server.host}:{self._port()}/webhooks/{self.tracker.name}"
        self.venue.connect(Engine(receiver, self._announce))

    def _port(self) -> int | None:
        """Where the engine listens; it says so a moment after others can see that it is alive."""
        *whole, _ = self.logs[ENGINE].read_text().split("\n")
        events = [json.loads(line) for line in whole if line.startswith("{")]
        return next((int(event["port"]) for event in events if event["event"] == "serving"), None)

    async def _announce(self, key: str) -> None:
        await self.store.signals.send([Signal(self.tracker.name, key, self.ticket_id(key), cause="labelled")])

    def look_after_processes(self, *, killed: Sequence[str] = ()) -> None:
        """Raise if a process ended that should not have."""
        for name, process in self.processes.items():
            if name not in killed and (code := process.poll()) is not None:
                words = _last_line(self.logs[name])
                raise StageFright(f"the demo's process {name!r} ended with exit code {code}: {words}")

    async def kill(self, name: str) -> None:
        """Kill -9, and reap."""
        process = self.processes[name]
        process.kill()
        await asyncio.to_thread(process.wait)

    def name_of(self, pid: int) -> str | None:
        """Which of our processes has this pid."""
        return next((name for name, process in self.processes.items() if process.pid == pid), None)

    def _start(self, name: str, roles: Sequence[str]) -> None:
        wanted = [part for role in roles for part in ("--role", role)]
        arguments = ["up", "--config", str(self.folder / "agentsmith.yaml"), *wanted]
        self.processes[name] = self.troupe.start(arguments, self.folder, self.logs[name])

    async def clear(self) -> None:
        """End every process, politely first, and wait until the guards of killed ones are gone too."""
        await asyncio.to_thread(self._end_processes)
        with contextlib.suppress(TimeoutError, *AWAY):
            async with asyncio.timeout(_GUARDS_GONE_WITHIN):
                await self._releases()

    async def _releases(self) -> None:
        """Wait for the guards of killed runs: each gives a lease back, and should find Redis still there."""
        while True:
            leases = {lease.ticket for lease in await self.store.runs.running()}
            if leases.issubset(await self.store.runs.released()):
                return
            await asyncio.sleep(_LOOK_EVERY)

    def _end_processes(self) -> None:
        left = [process for process in self.processes.values() if process.poll() is None]
        for process in left:
            process.send_signal(signal.SIGTERM)
        give_up = time.monotonic() + _STOP_WITHIN
        for process in left:
            try:
                process.wait(max(0.0, give_up - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.asynccontextmanager
async def set_up(folder: Path, factor: float, platform: str, troupe: Troupe) -> AsyncIterator[Stage]:
    """A stage in `folder`, with all durations multiplied by `factor`; cleared away at the end."""
    async with contextlib.AsyncExitStack() as stack:
        venue = await stack.enter_async_context(_venue(folder, platform))
        config = write_config(folder, factor, platform, venue.settings, coding=venue.code is not None)
        opened = await stack.enter_async_context(open_store(config))
        # A new Redis is not trusted for a while; the sooner it is met, the sooner that is over.
        await opened.store.presence.settling()
        trackers = await stack.enter_async_context(open_trackers(config))
        forges = await stack.enter_async_context(open_forges(config))
        stage = Stage(folder, config, opened.store, trackers[platform], venue, troupe, forges)
        stack.push_async_callback(stage.clear)
        yield stage


def _venue(folder: Path, platform: str) -> contextlib.AbstractAsyncContextManager[Venue]:
    if platform == LOCAL:
        return open_local(folder / _DATA / DEFAULT_FILE)
    # Imported late: a web server is slow to import, and most demos need none.
    from agentsmith.demo.simulated import open_simulated
    from agentsmith.simulators.playgrounds import PLAYGROUNDS

    if platform not in PLAYGROUNDS:
        raise ConfigError(f"there is no demo on {platform!r}{choices(platform, (LOCAL, *PLAYGROUNDS))}")
    return open_simulated(platform)


def write_config(
    folder: Path, factor: float, tracker: str, settings: Mapping[str, Any], *, coding: bool = False
) -> Config:
    """Write and load the configuration: the defaults, sped up, and what the tickets ask for."""
    work, file = folder / "work.sh", folder / "agentsmith.yaml"
    work.write_text(_WORK)
    triggers = CODE_TRIGGERS if coding else TRIGGERS
    extra = code.settings(folder) if coding else {"pipelines": {}}
    document: dict[str, Any] = {
        "data_dir": str(folder / _DATA),
        "log": {"format": "json"},
        "server": {"port": 0},
        "trackers": {tracker: dict(settings)},
        "consumer": {"slots": 1},
        "triggers": [{"label": label, "pipeline": pipeline} for label, pipeline in triggers.items()],
        **extra,
    }
    document["pipelines"] |= {
        name: {"steps": [{"run": ["sh", str(work), name], "name": f"{name} work"}]} for name in TRIGGERS.values()
    }
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    platforms, hosts = registry.settings_models(), code_hosts.settings_models()
    scaled = load(file, platforms=platforms, hosts=hosts, environ={}).scaled(factor).model_dump(mode="json")
    document |= {section: scaled[section] for section in _SCALED}
    document["trackers"][tracker]["poll_interval"] = scaled["trackers"][tracker]["poll_interval"]
    file.write_text(yaml.safe_dump(_without_nulls(document), sort_keys=False))
    return load(file, platforms=platforms, hosts=hosts, environ={})


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
