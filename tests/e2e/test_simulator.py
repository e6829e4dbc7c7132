"""`agentsmith simulator`: what it shows is enough to play, with curl and with agentsmith itself."""

from __future__ import annotations

import asyncio
import base64
import json
import shlex
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from agentsmith.simulators.playgrounds import PLAYGROUNDS
from tests.support.cli import SLOW, Cli, command
from tests.support.embedded import servers_of
from tests.support.wait import wait_until


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    yield cli
    assert servers_of(cli.data) == []


@asynccontextmanager
async def simulator(cli: Cli, *arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """The running command with what it printed up to its last line; killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *command("simulator", *arguments),
        cwd=cli.folder,
        env=cli.environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(SLOW):
            said = ""
            while not said.rstrip(" ").endswith(("\n}\n", "poll_interval: 2s\n")):
                line = await process.stdout.readline()
                assert line, "it ended early"
                said += line.decode()
        yield process, said
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def ended(process: asyncio.subprocess.Process, number: signal.Signals = signal.SIGINT) -> int:
    """Stop it; nothing but what it showed at first may come out."""
    process.send_signal(number)
    async with asyncio.timeout(SLOW):
        rest, errors = await process.communicate()
    assert (rest, errors) == (b"", b"")
    assert process.returncode is not None
    return process.returncode


async def curl(example: str) -> Any:
    """What the shown command does, without the program."""
    words = iter(shlex.split(example))
    url, headers, body = "", {}, None
    for word in words:
        if word == "-H":
            name, _, value = next(words).partition(": ")
            headers[name] = value
        elif word == "-u":
            headers["Authorization"] = f"Basic {base64.b64encode(next(words).encode()).decode()}"
        elif word == "-d":
            body = next(words)
        elif word.startswith("http"):
            url = word
    async with httpx.AsyncClient() as client:
        answer = await client.request("GET" if body is None else "POST", url, headers=headers, content=body)
    return answer.raise_for_status().json()


@pytest.mark.parametrize("platform", PLAYGROUNDS)
async def test_it_serves_until_interrupted_and_every_example_works(cli: Cli, platform: str) -> None:
    async with simulator(cli, platform, "--port", "0", "--json") as (process, said):
        told = json.loads(said)
        assert (told["platform"], told["control"]) == (platform, f"{told['url']}/_control")
        assert len(told["tickets"]) >= 3
        for example in told["examples"].values():
            if example.startswith("git "):
                cloning = await asyncio.create_subprocess_exec(*shlex.split(example), cwd=cli.folder, env=cli.environ)
                assert await cloning.wait() == 0
                assert list((cli.folder / "web").iterdir())
            else:
                assert await curl(example) is not None
        assert "agent-smith" in (await curl(list(told["examples"].values())[2]))["result"]
        async with httpx.AsyncClient() as client:
            assert (await client.get(told["control"])).json()["simulator"] == platform
            assert (await client.get(f"{told['control']}/unknown")).json() == []
        assert await ended(process) == 0


async def test_people_can_read_and_paste_what_it_shows(cli: Cli) -> None:
    async with simulator(cli, "github") as (process, said):
        text = said.partition("agentsmith.yaml, for agentsmith up in another terminal\n")[2]
        tracker = yaml.safe_load(text)["trackers"]["github"]
        assert f"API      {tracker['base_url']}" in said
        assert f"Token    {tracker['token']}" in said
        cli.configure(text)
        assert cli.json("config", "check")["ok"] is True
        assert await ended(process, signal.SIGTERM) == 0


@pytest.mark.parametrize("platform", PLAYGROUNDS)
async def test_the_token_that_it_shows_may_look_after_webhooks(cli: Cli, platform: str) -> None:
    async with simulator(cli, platform, "--json") as (process, said):
        cli.configure(json.dumps(json.loads(said)["config"]))
        [made] = cli.json("webhooks", "install", "--url", "http://127.0.0.1:1")
        assert (made["ok"], made["outcome"]) == (True, "installed")
        assert await ended(process, signal.SIGTERM) == 0


def test_a_port_that_is_taken_is_bad_input(cli: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = cli.run("simulator", "github", "--port", str(taken.getsockname()[1]), code=2)
    assert "choose another --port" in done.stderr
    assert done.stdout == ""


async def test_agentsmith_works_on_it_and_quota_counts_the_requests(cli: Cli) -> None:
    async with simulator(cli, "github", "--json") as (process, said):
        told = json.loads(said)
        cli.configure(json.dumps(told["config"]))  # JSON is YAML
        label, labels = list(told["examples"].values())[1:3]
        with cli.up() as daemon:
            await daemon.ready()
            await curl(label)

            async def done() -> bool:
                return "agent-smith:done" in (await curl(labels))["result"]

            await wait_until(done, what="issue 1 is done", within=SLOW)
            seen = cli.json("quota")
            text = cli.run("quota").stdout
        assert seen["reachable"] is True
        (account,) = seen["credentials"]
        assert told["token"] not in json.dumps(seen) + text
        assert sum(account["counted"].values()) > 0
        assert "claim" in account["counted"]
        (core,) = [allowance for allowance in account["allowances"] if allowance["bucket"] == "core"]
        assert 0 < core["remaining"] < core["limit"] == 5000
        for part in (account["credential"], "in all", "Allowance", "of 5000"):
            assert part in text
        assert await ended(process) == 0
