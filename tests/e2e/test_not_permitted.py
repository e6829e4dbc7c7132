"""A credential that lacks a permission: said once, with what is missing, wherever an operator looks; until it works."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any, Final

import yaml

from agentsmith.simulators import Fault, serve
from agentsmith.simulators.playgrounds import PLAYGROUNDS
from tests.support.cli import SLOW, Cli
from tests.support.wait import slowly, wait_until

TRIGGER: Final = "agent-smith"
LABELLING: Final = {
    "github": ("POST", r"/issues/\d+/labels", "Issues: Read and write"),
    "gitlab": ("PUT", r"/issues/", "the scope api"),
    "azure-devops": ("PATCH", r"/workitems/", "Work Items (Read & write)"),
    "jira": ("PUT", r"/issue/", "Edit issues"),
}
"""How a label is written there, and what the platform calls the permission."""


def warnings(log: Path) -> list[dict[str, Any]]:
    told = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [line for line in told if line["event"] == "the tracker refuses"]


async def test_a_missing_permission_is_named_once_and_everywhere_until_it_is_there(tmp_path: Path) -> None:
    cli, stages = Cli(tmp_path), {name: made() for name, made in PLAYGROUNDS.items()}
    async with contextlib.AsyncExitStack() as served:
        for name, stage in stages.items():
            await served.enter_async_context(serve(stage.simulator))
            method, path, _ = LABELLING[name]
            stage.simulator.inject(Fault("status", method=method, path=path, status=403, body={}, times=None))
        trackers = {name: {**stage.tracker(), "poll_interval": "1s"} for name, stage in stages.items()}
        cli.configure(yaml.safe_dump({"trackers": trackers, "pipelines": {"work": {"steps": [{"run": "true"}]}}}))
        keys = {name: [stage.tickets.open("One"), stage.tickets.open("Two")] for name, stage in stages.items()}
        for name, stage in stages.items():
            for key in keys[name]:
                stage.tickets.add_label(key, TRIGGER)

        async def status() -> dict[str, Any]:
            found: dict[str, Any] = await asyncio.to_thread(cli.json, "status")
            return found

        with cli.up() as daemon:
            await daemon.ready()
            looked = slowly(lambda: {line["tracker"] for line in warnings(daemon.log)} == set(stages))
            await wait_until(looked, what="every tracker to have refused", within=SLOW)
            standing = {refusal["tracker"]: refusal for refusal in (await status())["refused"]}
            doctor = {
                check["remedy"]
                for check in (await asyncio.to_thread(cli.json, "doctor", code=1))["checks"]
                if check["state"] == "wrong"
            }
            shown = (await asyncio.to_thread(cli.run, "status")).stdout
            for name in stages:
                _, _, permission = LABELLING[name]
                assert standing[name]["doing"] == "setting labels"
                assert permission in standing[name]["remedy"]
                assert standing[name]["remedy"] in doctor
                assert f"{name} refuses setting labels since " in shown
                assert permission in shown
                why = (await asyncio.to_thread(cli.run, "why", f"{name}:{keys[name][0]}")).stdout
                assert "refused  setting labels" in why
                assert permission in why

            for stage in stages.values():
                stage.simulator.clear_faults()
            for stage in stages.values():
                stage.tickets.add_label(stage.tickets.open("Three"), TRIGGER)

            async def allowed() -> bool:
                return not (await status())["refused"]

            await wait_until(allowed, what="every tracker to let us", within=SLOW)
            told = [line["tracker"] for line in warnings(daemon.log)]
            assert sorted(told) == sorted(stages), "once each, however many tickets met it"
            assert {line["level"] for line in warnings(daemon.log)} == {"warning"}
