"""The embedded server: what it is started as, and that all of a data directory's users share one."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from agentsmith.store.server.embedded import EmbeddedServer
from agentsmith.store.server.home import ServerHome
from tests.support.embedded import Daemons, connect, servers_of, watchdogs_of
from tests.support.wait import wait_until


@pytest.fixture(autouse=True)
def runtime_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="as-"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    yield path
    shutil.rmtree(path)


@pytest.fixture
async def daemons() -> AsyncIterator[Daemons]:
    started = Daemons()
    yield started
    await started.close()


def info(url: str) -> dict[str, Any]:
    with connect(url) as client:
        return cast(dict[str, Any], client.info("server"))


def socket_of(server: EmbeddedServer) -> Path:
    return Path(server.url.removeprefix("unix://"))


def socket_folder_is_left(data_dir: Path) -> bool:
    return (data_dir / "redis" / "redis.sock").readlink().parent.exists()


async def test_the_server_is_private_durable_and_never_evicts(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path / "data") as server:
        with connect(server.url) as client:
            settings = cast(dict[str, str], client.config_get("*"))
    wanted = {
        "port": "0",
        "unixsocketperm": "700",
        "appendonly": "yes",
        "appendfsync": "always",
        "no-appendfsync-on-rewrite": "no",
        "aof-load-truncated": "yes",
        "maxmemory": "0",
        "maxmemory-policy": "noeviction",
        "save": "",
        "dir": str(tmp_path / "data" / "redis"),
    }
    assert {name: settings[name] for name in wanted} == wanted


@pytest.mark.parametrize("umask", [0o000, 0o177])
async def test_nobody_else_can_look_in_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        async with EmbeddedServer(tmp_path / "data") as server:
            found = [tmp_path / "data", *(tmp_path / "data").rglob("*"), socket_of(server)]
            modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in found if not path.is_symlink()}
            assert stat.S_IMODE(socket_of(server).parent.stat().st_mode) == 0o700
    finally:
        os.umask(before)
    assert len(modes) >= 8
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077} == {}
    assert modes[tmp_path / "data"] == modes[tmp_path / "data" / "redis"] == 0o700


async def test_the_address_is_short_and_the_path_may_hold_anything(tmp_path: Path) -> None:
    data_dir = tmp_path / ("x" * 120) / 'of "Zoë" \\ $HOME #1'
    async with EmbeddedServer(data_dir) as server:
        assert len(str(socket_of(server))) <= 100
        with connect(server.url) as client:
            assert client.ping()
    assert (data_dir / "redis" / "appendonlydir").is_dir()


async def test_a_runtime_directory_with_a_long_path_is_passed_over(
    tmp_path: Path, runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = runtime_dir / ("x" * 90)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    async with EmbeddedServer(tmp_path / "data") as server:
        assert socket_of(server).parent.parent == Path("/tmp")
    assert not socket_folder_is_left(tmp_path / "data")


async def test_what_was_written_is_there_at_the_next_start(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path / "data") as server:
        with connect(server.url) as client:
            client.set("kept", "yes")
    async with EmbeddedServer(tmp_path / "data") as server:
        with connect(server.url) as client:
            assert client.get("kept") == b"yes"


async def test_a_stopped_server_leaves_neither_process_nor_litter(tmp_path: Path, runtime_dir: Path) -> None:
    server = EmbeddedServer(tmp_path / "data")
    await server.start()
    assert len(servers_of(tmp_path / "data")) == 1
    await server.stop()
    assert servers_of(tmp_path / "data") == []
    assert os.listdir(runtime_dir) == []
    with pytest.raises(RuntimeError):
        _ = server.url
    await server.start()
    assert len(servers_of(tmp_path / "data")) == 1
    await server.stop()


async def test_start_returns_only_after_loading(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "redis"
    folder.mkdir(parents=True)
    count = 200_000
    (folder / "appendonly.aof").write_bytes(b"*2\r\n$4\r\nINCR\r\n$5\r\ncount\r\n" * count)
    async with EmbeddedServer(tmp_path / "data") as server:
        with connect(server.url) as client:
            assert client.get("count") == str(count).encode()


async def test_a_write_cut_short_by_a_crash_does_not_hinder_the_start(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path / "data") as server:
        with connect(server.url) as client:
            client.set("whole", "yes")
            client.set("cut", "off")
    (log,) = (tmp_path / "data" / "redis" / "appendonlydir").glob("*.incr.aof")
    os.truncate(log, log.stat().st_size - 3)
    async with EmbeddedServer(tmp_path / "data") as server:
        with connect(server.url) as client:
            assert client.mget("whole", "cut") == [b"yes", None]


async def test_the_second_joins_and_leaves_the_server_running(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path / "data") as keeper:
        async with EmbeddedServer(tmp_path / "data") as joined:
            assert joined.url == keeper.url
            assert info(joined.url)["run_id"] == info(keeper.url)["run_id"]
            assert len(servers_of(tmp_path / "data")) == 1
        with connect(keeper.url) as client:
            assert client.ping()


async def test_a_link_to_the_data_directory_is_the_same_data_directory(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "data")
    async with EmbeddedServer(tmp_path / "data") as keeper, EmbeddedServer(tmp_path / "link") as joined:
        assert joined.url == keeper.url


async def test_a_copied_data_directory_has_a_server_of_its_own(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path / "data") as original:
        # As tar and rsync do, which take no sockets along.
        sockets = shutil.ignore_patterns("agentsmith-*")
        shutil.copytree(tmp_path / "data", tmp_path / "copy", symlinks=True, ignore=sockets)
        assert ServerHome(tmp_path / "data").published_socket() == socket_of(original)
        assert ServerHome(tmp_path / "copy").published_socket() is None
        async with EmbeddedServer(tmp_path / "copy") as copy:
            assert info(copy.url)["run_id"] != info(original.url)["run_id"]
            assert servers_of(tmp_path / "copy") != servers_of(tmp_path / "data")


async def test_one_server_however_many_start_at_once(tmp_path: Path, daemons: Daemons) -> None:
    data_dir = tmp_path / "data"
    here = [EmbeddedServer(data_dir) for _ in range(8)]
    elsewhere = asyncio.gather(*(daemons.spawn(data_dir) for _ in range(3)))
    try:
        await asyncio.gather(*(server.start() for server in here))
        urls = {server.url for server in here} | {daemon.url for daemon in await elsewhere}
        assert len(urls) == 1
        assert len(servers_of(data_dir)) == 1
    finally:
        await asyncio.gather(*(server.stop() for server in here))


async def test_a_daemon_with_another_environment_finds_the_server(tmp_path: Path, daemons: Daemons) -> None:
    data_dir = tmp_path / "data"
    keeper = await daemons.spawn(data_dir, environment={"XDG_RUNTIME_DIR": tempfile.gettempdir()})
    async with EmbeddedServer(data_dir) as joined:
        assert joined.url == keeper.url
        keeping = asyncio.create_task(joined.keep())
        await keeper.terminate()
        await wait_until(lambda: len(servers_of(data_dir)) == 1, what="the server is back")
        await wait_until(lambda: socket_of(joined).exists(), what="at the same place")
        keeping.cancel()
    assert not socket_folder_is_left(data_dir)


async def test_a_thread_that_may_end_before_the_process_gets_a_watchdog(tmp_path: Path) -> None:
    async def scenario() -> list[int]:
        async with EmbeddedServer(tmp_path / "data"):
            return watchdogs_of(tmp_path / "data")

    assert len(await asyncio.to_thread(asyncio.run, scenario())) == 1


async def test_the_servers_log_is_put_aside_when_it_is_large(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "redis"
    folder.mkdir(parents=True)
    (folder / "server.log").write_text("old line\n" * 150_000)
    async with EmbeddedServer(tmp_path / "data"):
        assert (folder / "server.log").stat().st_size < 100_000
        assert (folder / "server.log.1").read_text().startswith("old line")
