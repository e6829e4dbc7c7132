"""One Jira per test on a real socket, and a client with the bot's token: fixtures for tests of the simulator."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from typing import Final

import httpx
import pytest

from agentsmith.simulators import Clock, Running, serve
from agentsmith.simulators.jira import JiraSimulator
from tests.support import contracts
from tests.support.jira_judge import JiraJudge

PROJECT: Final = "WEB"
TOKEN: Final = "token-of-smith"
START: Final = 1_800_000_000.0
TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@pytest.fixture
def cloud() -> bool:
    """Whether it is Cloud; a module about Data Center says no."""
    return True


@pytest.fixture
def judge_requests() -> bool:
    """Whether requests are judged, not only answers; a module with a client that is not ours says no."""
    return True


@pytest.fixture
async def site(cloud: bool, judge_requests: bool) -> AsyncIterator[JiraSimulator]:
    """A simulator with a project, a bot that administers it, and a clock that stands still; judged afterwards."""
    simulator = JiraSimulator(cloud=cloud, clock=Clock(START), delivery_timeout=2.0)
    simulator.add_project(PROJECT)
    simulator.add_token(TOKEN, user="smith-bot")
    simulator.set_role(PROJECT, "smith-bot", "admin")
    simulator.set_role(PROJECT, "mona", "write")
    yield simulator
    if contracts.present():
        judge = JiraJudge(judge_requests=judge_requests)
        for entry in simulator.requests:
            judge.check_recorded(entry)
    assert not simulator.crashes, simulator.crashes[0]


@pytest.fixture
async def running(site: JiraSimulator) -> AsyncIterator[Running]:
    """The simulator, served."""
    async with serve(site) as running:
        yield running


@pytest.fixture
async def api(running: Running, cloud: bool) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the bot's token; the API root is its base."""
    base = f"{running.api_url}/rest/api/{3 if cloud else 2}"
    auth = httpx.BasicAuth("smith-bot@example.com", TOKEN) if cloud else None
    headers = {} if cloud else {"Authorization": f"Bearer {TOKEN}"}
    # Without this every client would read all certificates of the machine, for plain HTTP on loopback.
    async with httpx.AsyncClient(base_url=base, auth=auth, headers=headers, verify=TLS, trust_env=False) as client:
        yield client
