"""Repositories that cannot be worked on, through a whole pipeline: a clear word on the ticket, no hang, no leak."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

import pytest

from agentsmith.domain.forge import GitCredential
from agentsmith.domain.lifecycle import Status
from agentsmith.running import run_work as work
from agentsmith.store import Store
from tests.support.code_world import CodeWorld, RecordingForge, code_config, open_code_world, scripted_agent
from tests.support.git_bench import Person, git, make_origin
from tests.support.git_http import GitHttp, serving

USER, PASSWORD = "robot", "right-horse-battery"
WRONG: Final = "wrong-horse-battery"
AGENT: Final = "import pathlib; pathlib.Path('parser.py').write_text('fixed = True\\n')"
AFTER: Final[list[object]] = ["agent", "commit", "push", "pull_request"]

Open = Callable[..., AbstractAsyncContextManager[CodeWorld]]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitHttp]:
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served", user=USER, password=PASSWORD) as state:
        make_origin(state.root / "web.git")
        yield state


@pytest.fixture
def opened(tmp_path: Path, store: Store, redis_url: str, server: GitHttp) -> Open:
    """A world whose code is on the server; what follows the checkout is as ever."""

    def make(
        *, repository: str = "web.git", password: str | None = PASSWORD, checkout: object = "checkout"
    ) -> AbstractAsyncContextManager[CodeWorld]:
        config = code_config(tmp_path / "data", [checkout, *AFTER], agent=scripted_agent(tmp_path, AGENT))
        secret = GitCredential(USER, password) if password else None
        forge = RecordingForge(f"{server.url}/{repository}", secret=secret)
        return open_code_world(tmp_path, store, redis_url, config=config, forge=forge)

    return make


async def outcome(code: CodeWorld) -> tuple[Status, str]:
    """One ticket from its label to its end: what its label and its comment say."""
    key = await code.carry_through()
    [status] = await code.world.statuses(key)
    return status, (await code.world.comments(key))[0]


def test_there_is_a_server_that_asks_for_a_password(server: GitHttp, tmp_path: Path) -> None:
    git("ls-remote", f"{server.url}/web.git", at=tmp_path, fine=(128,))


@pytest.mark.parametrize("password", [None, WRONG], ids=["none", "wrong"])
async def test_a_repository_that_asks_for_a_password(
    opened: Open, password: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Whoever would ask a person instead leaves a trace, and would wait for ever.
    asked = tmp_path / "asked"
    prompt = tmp_path / "askpass"
    prompt.write_text(f"#!/bin/sh\ntouch {asked}\nsleep 600\n")
    prompt.chmod(0o700)
    monkeypatch.setenv("GIT_ASKPASS", str(prompt))
    monkeypatch.setenv("SSH_ASKPASS", str(prompt))
    async with opened(password=password) as code:
        status, said = await outcome(code)
    assert status is Status.FAILED
    assert "the server does not let us in: check the token of this repository" in said
    assert WRONG not in said
    assert not asked.exists()


async def test_a_repository_that_is_empty(opened: Open, server: GitHttp) -> None:
    make_origin(server.root / "empty.git", {})
    async with opened(repository="empty.git") as code:
        status, said = await outcome(code)
    assert status is Status.FAILED
    assert "The repository could not be checked out" in said
    assert "no commit" in said


async def test_a_repository_that_is_gone(opened: Open, server: GitHttp) -> None:
    async with opened() as code:
        assert (await outcome(code))[0] is Status.DONE
        shutil.rmtree(server.root / "web.git")  # the mirror of the first run is still here
        status, said = await outcome(code)
    assert status is Status.FAILED
    assert "there is no such repository, or it is hidden from us" in said


@pytest.mark.parametrize("branch", ["gone", "a..b", "--upload-pack=touch pwned"])
async def test_a_default_branch_that_is_not_there_or_that_git_refuses(
    opened: Open, tmp_path: Path, branch: str
) -> None:
    async with opened() as code:
        code.forge.branch = branch
        status, said = await outcome(code)
    assert status is Status.FAILED
    assert f"the server has no branch `{branch}`" in said
    assert not found(tmp_path, "pwned")


@pytest.mark.parametrize("branch", ["agent-smith/a..b", "agent-smith/x.lock", "-x"])
async def test_a_ticket_whose_branch_git_refuses(
    opened: Open, branch: str, server: GitHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No built-in tracker has such tickets; one of another package may."""
    monkeypatch.setattr(work, "branch_for", lambda *_: branch)
    async with opened() as code:
        status, said = await outcome(code)
    assert status is Status.FAILED
    assert "cannot be the name of a branch" in said
    assert server.paths() == []


def found(folder: Path, name: str) -> list[Path]:
    return list(folder.rglob(name))


async def test_a_branch_that_cannot_be_beside_another(opened: Open, server: GitHttp) -> None:
    """Somebody has a branch `agent-smith`, so git takes none below it."""
    git("branch", "agent-smith", "main", at=server.root / "web.git")
    async with opened() as code:
        status, said = await outcome(code)
    assert status is Status.FAILED
    assert "agent-smith" in said
    assert not code.forge.proposed


async def test_of_a_huge_repository_only_what_is_needed_comes_here(opened: Open, server: GitHttp) -> None:
    size = 1_000_000
    person = Person.of(server.root / "web.git", server.root.parent / "web.git.person")
    for number in range(3):
        person.commit(f"large {number}", {"movie": os.urandom(size)})
    person.commit("small again", {"movie": b"cut\n"})
    person.push()
    async with opened() as code:
        status, _ = await outcome(code)
        assert status is Status.DONE
        here = sum(file.stat().st_size for file in code.world.config.data_dir.rglob("*") if file.is_file())
    assert sum(file.stat().st_size for file in server.root.rglob("*") if file.is_file()) > 3 * size
    assert here < size
