"""One GitLab per test on a real socket, and a client with the bot's token: fixtures for tests of the simulator."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from typing import Final

import httpx
import pytest

from agentsmith.simulators import Clock, Running, serve
from agentsmith.simulators.gitlab import GitLabSimulator

PROJECT: Final = "acme/apps/web"
START: Final = 1_800_000_000.0
TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@pytest.fixture
async def lab() -> AsyncIterator[GitLabSimulator]:
    """A simulator with a project, a bot that may write, and a clock that stands still."""
    simulator = GitLabSimulator(clock=Clock(START), delivery_timeout=2.0)
    simulator.add_project(PROJECT)
    simulator.add_token("token-of-smith", username="smith-bot")
    simulator.set_access(PROJECT, "smith-bot", "developer")
    simulator.set_access(PROJECT, "mona", "developer")
    yield simulator
    assert not simulator.crashes, simulator.crashes[0]


@pytest.fixture
async def running(lab: GitLabSimulator) -> AsyncIterator[Running]:
    """The simulator, served."""
    async with serve(lab) as running:
        yield running


@pytest.fixture
async def api(running: Running) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the bot's token; the project is its base."""
    base = f"{running.api_url}/projects/{PROJECT.replace('/', '%2F')}"
    # Without this every client would read all certificates of the machine, for plain HTTP on loopback.
    headers = {"PRIVATE-TOKEN": "token-of-smith"}
    async with httpx.AsyncClient(base_url=base, headers=headers, verify=TLS, trust_env=False) as client:
        yield client
