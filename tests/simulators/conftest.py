"""One GitHub per test on a real socket; whatever it was asked and answered is judged afterwards."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator

import httpx
import pytest

from agentsmith.simulators import Clock, Running, serve
from agentsmith.simulators.github import GitHubSimulator
from tests.support import contracts
from tests.support.contracts import ContractJudge

TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
REPO = "acme/web"
START = 1_800_000_000.0


@pytest.fixture
def judge_requests() -> bool:
    """Whether requests are judged, not only answers; a module with a client that is not ours says no."""
    return True


@pytest.fixture
async def hub(judge_requests: bool) -> AsyncIterator[GitHubSimulator]:
    """A simulator with a repository, a bot that may write, and a clock that stands still."""
    simulator = GitHubSimulator(clock=Clock(START), delivery_timeout=2.0)
    simulator.add_repository(REPO)
    simulator.add_token("token-of-smith", login="smith-bot", permission="write")
    yield simulator
    if contracts.present():
        judge = ContractJudge("github", judge_requests=judge_requests)
        for entry in simulator.requests:
            judge.check_recorded(entry)
    assert not simulator.crashes, simulator.crashes[0]


@pytest.fixture
async def running(hub: GitHubSimulator) -> AsyncIterator[Running]:
    """The simulator, served."""
    async with serve(hub) as running:
        yield running


@pytest.fixture
async def api(running: Running) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the bot's token; `/repos/acme/web` is its base."""
    headers = {"Authorization": "Bearer token-of-smith", "Accept": "application/vnd.github+json"}
    base = f"{running.api_url}/repos/{REPO}"
    # Without this every client would read all certificates of the machine, for plain HTTP on loopback.
    async with httpx.AsyncClient(base_url=base, headers=headers, verify=TLS, trust_env=False) as client:
        yield client
