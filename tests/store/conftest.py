"""The tests of what the store does are played twice: on the real server, and on the one of the simulation.

What is about servers, connections, users or the embedded server is played on the real one alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

import pytest

from agentsmith.store import store as store_module
from tests.chaos import disk
from tests.support.redis_server import RedisServer
from tests.support.simulated_server import StagedServer, connect_anywhere
from tests.support.stores import PrivateServer

ON_REAL_SERVERS_ALONE: Final = (
    "test_connection",
    "test_connection_sentinel",
    "test_connection_tls",
    "test_error_replies",
    "test_embedded_server",
    "test_embedded_server_death",
    "test_embedded_server_refusals",
)
ABOUT_USERS: Final = ("test_another_prefix_is_refused_by_the_server",)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Play a test on both servers, if it uses one and is about the store."""
    about_servers = metafunc.module.__name__.rpartition(".")[2] in ON_REAL_SERVERS_ALONE
    if about_servers or metafunc.function.__name__ in ABOUT_USERS:
        return
    if {"redis_server", "private_server"} & set(metafunc.fixturenames):
        metafunc.parametrize("kind_of_server", ["real", "simulated"])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk that is easily full."""
    if why := disk.mount(folder := tmp_path / "disk"):
        pytest.skip(f"NOT TESTED: no small disk can be had here: {why}")
    yield folder
    disk.unmount(folder)


@pytest.fixture(autouse=True)
def _reach_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "connect", connect_anywhere)


@pytest.fixture
def kind_of_server() -> str:
    return "real"


@pytest.fixture
def redis_server(kind_of_server: str, redis_server: RedisServer) -> Iterator[RedisServer]:
    if kind_of_server == "real":
        yield redis_server
        return
    staged = StagedServer().start()
    yield cast(RedisServer, staged)
    staged.close()


@pytest.fixture
def private_server(kind_of_server: str, private_server: PrivateServer) -> Iterator[PrivateServer]:
    if kind_of_server == "real":
        yield private_server
        return
    started: list[StagedServer] = []

    def start(*options: str, tcp: bool = False, password: str = "") -> RedisServer:
        assert not tcp
        assert not password
        started.append(StagedServer(*options).start())
        return cast(RedisServer, started[-1])

    yield start
    for server in started:
        server.close()
