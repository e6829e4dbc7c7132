"""A credential that lacks a permission: said once, with what is missing, wherever an operator looks; until it works."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from agentsmith.simulators import Fault, serve
from agentsmith.simulators.playgrounds import PLAYGROUNDS
from tests.support.cli import SLOW, Cli
from tests.support.wait import slowly, wait_until

TRIGGER: Final = "agent-smith"
REFUSED: Final = {
    "setting labels": {
        "github": ("POST", r"/issues/\d+/labels", "Issues: Read and write"),
        "gitlab": ("PUT", r"/issues/", "the scope api"),
        "azure-devops": ("PATCH", r"/workitems/", "Work Items (Read & write)"),
        "jira": ("PUT", r"/issue/", "the scopes read:jira-work and write:jira-work"),
    },
    "asking what people may": {
        "github": ("GET", r"/collaborators/", "Metadata: Read"),
        "gitlab": ("GET", r"/members/all/", "membership of the project"),
        "azure-devops": ("GET", r"/teams/.*/members", "Project and Team (Read)"),
        "jira": ("GET", r"/user/permission/search", "Administer projects"),
    },
    "asking who is in a team or has a role": {
        "github": ("GET", r"/teams/.*/memberships/", "Members: Read"),
        "gitlab": ("GET", r"/groups/.*/members/", "the groups in allow.teams"),
        "jira": ("GET", r"/user/groups", "Browse users and groups"),
    },
}
"""How each is done there, and what the platform calls the permission. Azure DevOps tells the last two in one."""
ALLOW: Final = {"asking who is in a team or has a role": {"allow": {"access": "admin", "teams": ["core"]}}}


def warnings(log: Path) -> list[dict[str, Any]]:
    told = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [line for line in told if line["event"] == "the tracker refuses"]


@pytest.mark.parametrize("doing", REFUSED)
async def test_a_missing_permission_is_named_once_and_everywhere_until_it_is_there(tmp_path: Path, doing: str) -> None:
    cli, stages = Cli(tmp_path), {name: PLAYGROUNDS[name]() for name in REFUSED[doing]}
    async with contextlib.AsyncExitStack() as served:
        for name, stage in stages.items():
            await served.enter_async_context(serve(stage.simulator))
            method, path, _ = REFUSED[doing][name]
            stage.simulator.inject(Fault("status", method=method, path=path, status=403, body={}, times=None))
        trackers = {
            name: {**stage.tracker(), "poll_interval": "1s", **ALLOW.get(doing, {})} for name, stage in stages.items()
        }
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
                _, _, permission = REFUSED[doing][name]
                assert standing[name]["doing"] == doing
                assert permission in standing[name]["remedy"]
                assert standing[name]["remedy"] in doctor
                assert f"{name} refuses {doing} since " in shown
                assert permission in shown
                why = (await asyncio.to_thread(cli.run, "why", f"{name}:{keys[name][0]}")).stdout
                assert f"refused  {doing}" in why
                assert permission in why

            for stage in stages.values():
                stage.simulator.clear_faults()
            for stage in stages.values():
                stage.tickets.add_label(stage.tickets.open("Three"), TRIGGER)

            async def allowed() -> bool:
                return not (await status())["refused"]

            await wait_until(allowed, what="every tracker to let us", within=SLOW)
            told = [line["tracker"] for line in warnings(daemon.log)]
            assert all(REFUSED[doing][line["tracker"]][2] in line["remedy"] for line in warnings(daemon.log))
            assert sorted(told) == sorted(stages), "once each, however many tickets met it"
            assert {line["level"] for line in warnings(daemon.log)} == {"warning"}


async def test_what_people_may_is_not_missed_where_those_who_may_are_named(tmp_path: Path) -> None:
    cli, stage = Cli(tmp_path), PLAYGROUNDS["gitlab"]()
    async with serve(stage.simulator):
        method, path, permission = REFUSED["asking what people may"]["gitlab"]
        stage.simulator.inject(Fault("status", method=method, path=path, status=403, body={}, times=None))
        key = stage.tickets.open("One")
        stage.tickets.add_label(key, TRIGGER, "mona")
        tracker = {**stage.tracker(), "poll_interval": "1s", "allow": {"users": ["mona"]}}
        cli.configure(yaml.safe_dump({"trackers": {"web": tracker}}))
        with cli.up() as daemon:
            await daemon.ready()
            done = slowly(lambda: f"{TRIGGER}:done" in stage.tickets.labels(key))
            await wait_until(done, what="the ticket to be done", within=SLOW)
            assert not warnings(daemon.log)
            checks = (await asyncio.to_thread(cli.json, "doctor"))["checks"]
        (told,) = [check for check in checks if permission in check["remedy"]]
        assert (told["check"], told["state"]) == ("tracker web", "note")


async def test_what_one_ticket_is_refused_stands_whatever_works_on_others(tmp_path: Path) -> None:
    """Rights may differ from area to area: it is told once all the same, and other tickets do not make it forgotten."""
    cli, stage = Cli(tmp_path), PLAYGROUNDS["azure-devops"]()
    async with serve(stage.simulator):
        key = stage.tickets.open("Where we may not write")
        refused = Fault("status", method="PATCH", path=rf"/workitems/{key}$", status=403, body={}, times=None)
        stage.simulator.inject(refused)
        stage.tickets.add_label(key, TRIGGER)
        tracker = {**stage.tracker(), "poll_interval": "1s"}
        cli.configure(yaml.safe_dump({"trackers": {"web": tracker}}))

        async def done(ticket: str) -> None:
            ended = slowly(lambda: f"{TRIGGER}:done" in stage.tickets.labels(ticket))
            await wait_until(ended, what=f"{ticket} to be done", within=SLOW)

        with cli.up() as daemon:
            await daemon.ready()
            await refused.hit()
            for title in ("Two", "Three"):
                other = stage.tickets.open(title)
                stage.tickets.add_label(other, TRIGGER)
                await done(other)
                struck = refused.struck
                await wait_until(slowly(lambda s=struck: refused.struck > s + 1), what="another try", within=SLOW)  # type: ignore[misc]
            assert len(warnings(daemon.log)) == 1
            assert [found["doing"] for found in (await asyncio.to_thread(cli.json, "status"))["refused"]] == [
                "setting labels"
            ]
            stage.simulator.clear_faults()
            await done(key)
            assert not (await asyncio.to_thread(cli.json, "status"))["refused"]
