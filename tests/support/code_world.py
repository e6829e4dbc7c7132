"""A world whose tickets are about code: a real repository, a code host that takes pull requests, a scripted agent."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentsmith.config import Agent, Config, Duration, Grace, Pipeline
from agentsmith.config import Consumer as ConsumerSettings
from agentsmith.config import Run as RunSettings
from agentsmith.domain.forge import GitCredential, PullRequest, WantedPullRequest
from agentsmith.domain.ticket import Ticket
from agentsmith.store import Store
from tests.support.git_bench import git, make_origin
from tests.support.world import World, open_world, world_config


@dataclass
class RecordingForge:
    """A code host as the contract describes it; pull requests are kept in a list."""

    clone_url: str
    branch: str = "main"
    name: str = "code"
    platform: str = "git"
    secret: GitCredential | None = None
    proposed: list[WantedPullRequest] = field(default_factory=list)
    open: dict[str, PullRequest] = field(default_factory=dict)

    async def credential(self) -> GitCredential | None:
        return self.secret

    async def default_branch(self, *, deadline: float | None = None) -> str:  # noqa: ARG002
        return self.branch

    def mention(self, ticket: Ticket) -> str:
        return f"Closes #{ticket.key}"

    async def find(self, branch: str, *, deadline: float | None = None) -> PullRequest | None:  # noqa: ARG002
        return self.open.get(branch)

    async def ensure(self, wanted: WantedPullRequest, *, deadline: float) -> PullRequest:  # noqa: ARG002
        self.proposed.append(wanted)
        number = self.open[wanted.branch].number if wanted.branch in self.open else str(len(self.open) + 1)
        url = f"https://code.example/pulls/{number}"
        made = PullRequest(number, url, wanted.branch, wanted.base, wanted.title, wanted.body, wanted.draft)
        self.open[wanted.branch] = made
        return made

    async def aclose(self) -> None:
        pass


@dataclass
class CodeWorld:
    """The world, its repository as the server has it, and the code host."""

    world: World
    origin: Path
    forge: RecordingForge

    async def carry_through(self, **ticket: str) -> str:
        """One ticket from its label to its end; answers its key."""
        key = await self.world.open_ticket(**ticket)
        await self.run(key)
        return key

    async def run(self, key: str) -> None:
        """Claim the ticket and run it to its end."""
        await self.world.claim(key)
        await self.world.run_queue()

    async def again(self, key: str) -> None:
        """A person takes the last status off, and it runs once more."""
        shown = (await self.world.desk.show(key)).ticket.labels
        for label in self.world.config.labels.lifecycle(shown):
            await self.world.desk.unlabel(key, label, actor="mona")
        await self.run(key)

    def branch(self, key: str) -> str:
        return f"agent-smith/{key}"

    def on_server(self, key: str) -> str:
        """The commit of the ticket's branch on the server; empty when there is none."""
        return git("rev-parse", "--verify", "-q", f"refs/heads/{self.branch(key)}", at=self.origin, fine=(0, 1))

    def subjects(self, key: str) -> list[str]:
        """The commits of the branch beyond its base, newest first."""
        return git("log", "--format=%s", f"main..{self.branch(key)}", at=self.origin).splitlines()

    def message(self, key: str) -> str:
        """The whole message of the branch's last commit."""
        return git("log", "-1", "--format=%B", self.branch(key), at=self.origin)

    def content(self, key: str, path: str) -> str:
        """A file as the branch on the server has it."""
        return git("show", f"{self.branch(key)}:{path}", at=self.origin)

    def files(self, key: str) -> list[str]:
        return git("ls-tree", "-r", "--name-only", self.branch(key), at=self.origin).splitlines()


def scripted_agent(folder: Path, program: str) -> Agent:
    """An agent that runs this Python program, with its prompt on standard input."""
    file = folder / "agent.py"
    file.write_text(program)
    return Agent.model_validate({"command": [sys.executable, str(file)], "answer": "answer", "env": ["PLAY"]})


def code_config(data_dir: Path, steps: list[object], *, agent: Agent | None = None, **run: Any) -> Config:
    """A configuration with these steps, as a file would write them."""
    config = world_config(
        data_dir,
        pipelines={"work": Pipeline.model_validate({"steps": steps})},
        consumer=ConsumerSettings(kill_grace=Grace(0.5), drain_timeout=Grace(0)),
        run=RunSettings(**{"retry_backoff": Duration(0.01), "agent": "scripted", **run}),
    )
    return config.model_copy(update={"agents": {**config.agents, **({"scripted": agent} if agent else {})}})


@contextlib.asynccontextmanager
async def open_code_world(
    tmp_path: Path,
    store: Store,
    redis_url: str,
    *,
    config: Config,
    files: Mapping[str, str | bytes] | None = None,
    forge: RecordingForge | None = None,
    beside: str | None = None,
) -> AsyncIterator[CodeWorld]:
    """A world with a repository that has these files, unless the forge says otherwise."""
    origin = tmp_path / "origin.git"
    if not origin.exists():
        make_origin(origin, files)
    forge = forge or RecordingForge(str(origin))
    async with open_world(tmp_path, store, redis_url, config=config, forge=forge, beside=beside) as world:
        yield CodeWorld(world, origin, forge)
