"""Fixtures for git: `bench` is a server with a repository on disk, and a machine with checkouts of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agentsmith.domain.forge import GitCredential
from tests.support.git_bench import Bench, FakeForge, PlainShell, make_origin
from tests.support.git_http import GitHttp, serving

USER, PASSWORD = "robot", "right-horse-battery"


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    origin = make_origin(tmp_path / "origin.git")
    bench = Bench(tmp_path, origin, FakeForge(f"file://{origin}"), PlainShell(tmp_path / "scratch"))
    yield bench
    for checkout in bench.opened:
        await checkout.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitHttp]:
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served", user=USER, password=PASSWORD) as state:
        yield state


@pytest.fixture
async def http_bench(tmp_path: Path, server: GitHttp) -> AsyncIterator[Bench]:
    (server.root / "acme").mkdir()
    origin = make_origin(server.root / "acme" / "web.git")
    forge = FakeForge(f"{server.url}/acme/web.git", GitCredential(USER, PASSWORD))
    bench = Bench(tmp_path, origin, forge, PlainShell(tmp_path / "scratch"))
    yield bench
    for checkout in bench.opened:
        await checkout.close()
