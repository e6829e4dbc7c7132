"""`agentsmith simulator`: a platform in memory, served on loopback until Ctrl-C, with all that one needs to play."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import Any, Final

import yaml

from agentsmith import logs
from agentsmith.cli import output
from agentsmith.config import Server
from agentsmith.config.names import choices
from agentsmith.domain.errors import ConfigError
from agentsmith.simulators import serve
from agentsmith.simulators.playground import Playground
from agentsmith.simulators.playgrounds import PLAYGROUNDS

_POLL: Final = "2s"
"""On loopback nobody minds being asked often."""


def simulator(platform: str | None, *, port: int, as_json: bool) -> None:
    """Serve the platform until told to stop; ConfigError when there is no such one."""
    if platform is None:
        raise ConfigError(f"name the platform to simulate: {', '.join(PLAYGROUNDS)}")
    if platform not in PLAYGROUNDS:
        raise ConfigError(f"there is no simulator of {platform!r}{choices(platform, PLAYGROUNDS)}")
    logs.configure("console", "warning")
    asyncio.run(_serve(platform, port=port, as_json=as_json))


async def _serve(platform: str, *, port: int, as_json: bool) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    stage = PLAYGROUNDS[platform]()
    stage.let_look_after_webhooks()
    async with contextlib.AsyncExitStack() as served:
        try:
            await served.enter_async_context(serve(stage.simulator, port=port))
        except OSError as error:
            reason = error.strerror or error
            raise ConfigError(f"cannot listen on port {port}: {reason}; choose another --port, or 0 for any") from None
        _show(stage, _described(platform, stage), as_json=as_json)
        sys.stdout.flush()  # whoever waits for it behind a pipe must not wait until the end
        await stopped.wait()


def _described(platform: str, stage: Playground) -> dict[str, Any]:
    """All that one needs to play, as `--json` shows it."""
    server = Server()
    return {
        "platform": platform,
        "url": stage.simulator.url,
        "base_url": stage.simulator.api_url,
        "token": stage.token,
        "control": stage.control_url,
        "project": stage.project,
        "people": dict(stage.people),
        "tickets": stage.furnish(),
        "examples": stage.examples(f"http://{server.host}:{server.port}/webhooks/{platform}"),
        "config": {"trackers": {platform: {**stage.tracker(), "poll_interval": _POLL}}},
    }


def _show(stage: Playground, described: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.json_result(described)
        return
    output.say(f"{stage.title} in memory; Ctrl-C ends it, and nothing is kept.")
    people = ", ".join(f"{name} ({may})" for name, may in described["people"].items())
    for name, value in (
        ("API", described["base_url"]),
        ("Token", described["token"]),
        ("Control", f"{described['control']}  (what people do, faults, the request log)"),
        ("Project", described["project"]),
        ("Tickets", ", ".join(described["tickets"])),
        ("People", people),
    ):
        output.say(f"  {name:8} {value}")
    output.title("Try")
    for about, command in described["examples"].items():
        output.say(f"  # {about}")
        output.say(f"  {command}")
    output.title("agentsmith.yaml, for agentsmith up in another terminal")
    output.say(yaml.safe_dump(described["config"], sort_keys=False).rstrip())
