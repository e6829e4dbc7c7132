"""From a label to a pull request on every platform's simulator, over real HTTP and real git, with a scripted agent.

Jira keeps no code: its tickets are about a repository on GitLab.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import pytest

from agentsmith.simulators import serve
from agentsmith.simulators.gitlab.playground import GitLabPlayground
from agentsmith.simulators.playground import CodePlayground
from agentsmith.simulators.playgrounds import PLAYGROUNDS
from agentsmith.store import Store
from tests.support.roles_on_simulator import RolesOnSimulator, roles_on_simulator

TITLE: Final = "The parser crashes on $(emoji) 🧵"
SECTIONS: Final[dict[str, Any]] = {
    "agents": {"scripted": {"command": ["sh", "-c", "cat > prompt.txt; echo fixed > parser.txt"]}},
    "pipelines": {
        "work": {"steps": ["checkout", {"agent": "scripted"}, {"verify": "test -s parser.txt"}, "commit", "push",
                           "pull_request"]},
    },
}  # fmt: skip
LINKS: Final = {
    "github": "Closes #{key}",
    "gitlab": "Closes #{key}",
    "azure-devops": "#{key}",
    "jira": "{key}",
}
"""How a pull request names its ticket, so that the platform links the two."""

Play = Callable[[str], AbstractAsyncContextManager[tuple[RolesOnSimulator, CodePlayground]]]


@pytest.fixture
def play(tmp_path: Path, store: Store, redis_url: str) -> Play:
    """The tickets of a platform, and where the code is that they are about."""

    @contextlib.asynccontextmanager
    async def opened(platform: str) -> AsyncIterator[tuple[RolesOnSimulator, CodePlayground]]:
        if platform != "jira":
            async with roles_on_simulator(platform, tmp_path, store, redis_url, sections=SECTIONS) as world:
                assert isinstance(world.stage, CodePlayground)
                yield world, world.stage
            return
        host = GitLabPlayground()
        async with serve(host.simulator):
            told = {name: value for name, value in host.tracker().items() if name != "webhook_secret"}
            sections = {**SECTIONS, "repositories": {"website": told}}
            async with roles_on_simulator(
                platform, tmp_path, store, redis_url, sections=sections, code="website"
            ) as world:
                yield world, host
        host.simulator.assert_understood()

    return opened


@pytest.mark.parametrize("platform", PLAYGROUNDS)
async def test_a_label_ends_in_a_pull_request_that_is_linked_to_its_ticket(play: Play, platform: str) -> None:
    async with play(platform) as (world, host):
        key = world.stage.tickets.open(TITLE)
        world.stage.tickets.add_label(key, "agent-smith")
        await world.carry_through(key)
        assert world.labels(key) == {"agent-smith", "agent-smith:done"}
        [proposal] = host.proposals()
        assert (proposal.title, proposal.head, proposal.base) == (TITLE, f"agent-smith/{key}", "main")
        assert (proposal.open, proposal.draft) == (True, False)
        assert LINKS[platform].format(key=key) in proposal.body
        assert host.code.file(proposal.head, "parser.txt") == "fixed\n"
        assert TITLE in str(host.code.file(proposal.head, "prompt.txt"))
        [comment] = world.stage.tickets.texts(key)
        assert proposal.url in comment
