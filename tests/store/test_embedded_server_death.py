"""The embedded server under kill -9: of its keeper, of itself, of both, of its watchdog."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agentsmith.domain.errors import StoreRefused
from agentsmith.store.server import watchdog
from agentsmith.store.server.embedded import EmbeddedServer, ServerUnavailable
from agentsmith.store.server.home import ServerHome
from agentsmith.store.server.process import ping
from tests.support.embedded import Daemons, Writer, connect, servers_of, watchdogs_of
from tests.support.processes import is_alive
from tests.support.wait import wait_until

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
both_ways = pytest.mark.parametrize("parent_death", [pytest.param("signal", marks=linux_only), "watchdog"])


@pytest.fixture(autouse=True)
def runtime_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    path = tempfile.mkdtemp(prefix="as-")
    monkeypatch.setenv("XDG_RUNTIME_DIR", path)
    yield
    shutil.rmtree(path)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
async def daemons() -> AsyncIterator[Daemons]:
    started = Daemons()
    yield started
    await started.close()


def the_server(data_dir: Path) -> int:
    (pid,) = servers_of(data_dir)
    return pid


async def another_server(data_dir: Path, than: int) -> int:
    """Return the pid of the next server; never are there two."""

    def is_there() -> bool:
        running = servers_of(data_dir)
        assert len(running) <= 1
        return bool(running) and running != [than]

    await wait_until(is_there, what="another server runs")
    return the_server(data_dir)


@both_ways
async def test_the_server_dies_with_its_keeper(data_dir: Path, daemons: Daemons, parent_death: str) -> None:
    keeper = await daemons.spawn(data_dir, parent_death=parent_death)
    server = the_server(data_dir)
    assert len(watchdogs_of(data_dir)) == (parent_death == "watchdog")
    await keeper.kill()
    await wait_until(lambda: not is_alive(server), what="the server is dead too")
    await wait_until(lambda: not watchdogs_of(data_dir), what="and so is its watchdog")
    assert servers_of(data_dir) == []


@both_ways
async def test_a_killed_server_is_restarted_without_losing_an_acknowledged_write(
    data_dir: Path, daemons: Daemons, parent_death: str
) -> None:
    keeper = await daemons.spawn(data_dir, parent_death=parent_death)
    await daemons.spawn(data_dir)
    with Writer(keeper.url) as writer:
        for _ in range(2):
            await writer.goes_on()
            server = the_server(data_dir)
            os.kill(server, signal.SIGKILL)
            await another_server(data_dir, than=server)
        await writer.goes_on()
    assert writer.lost == []


@both_ways
async def test_a_surviving_daemon_takes_over_without_losing_an_acknowledged_write(
    data_dir: Path, daemons: Daemons, parent_death: str
) -> None:
    keeper = await daemons.spawn(data_dir, parent_death=parent_death, bystander=True)
    await asyncio.gather(*(daemons.spawn(data_dir, parent_death=parent_death) for _ in range(2)))
    with Writer(keeper.url) as writer:
        await writer.goes_on()
        server = the_server(data_dir)
        await keeper.kill()
        await another_server(data_dir, than=server)
        await writer.goes_on()
    assert writer.lost == []
    assert is_alive(keeper.bystander), "the keeper's other children do not hold its lock"


@both_ways
async def test_nothing_acknowledged_is_lost_when_keeper_and_server_are_killed(
    data_dir: Path, daemons: Daemons, parent_death: str
) -> None:
    keeper = await daemons.spawn(data_dir, parent_death=parent_death)
    server = the_server(data_dir)
    with Writer(keeper.url) as writer:
        await writer.goes_on()
        os.kill(server, signal.SIGKILL)
        await keeper.kill()
        await wait_until(lambda: not servers_of(data_dir), what="no server is left")
        async with EmbeddedServer(data_dir):
            await writer.goes_on()
    assert writer.lost == []


async def test_a_joined_daemon_takes_over_from_one_that_stops(data_dir: Path, daemons: Daemons) -> None:
    keeper = await daemons.spawn(data_dir)
    await daemons.spawn(data_dir)
    server = the_server(data_dir)
    with Writer(keeper.url) as writer:
        await writer.goes_on()
        await keeper.terminate()
        await another_server(data_dir, than=server)
        await writer.goes_on()
    assert keeper.process.returncode is not None
    assert writer.lost == []


async def test_a_server_that_lost_its_watchdog_is_replaced(data_dir: Path, daemons: Daemons) -> None:
    await daemons.spawn(data_dir, parent_death="watchdog")
    server = the_server(data_dir)
    (pid,) = watchdogs_of(data_dir)
    os.kill(pid, signal.SIGKILL)
    await another_server(data_dir, than=server)


async def test_an_orphan_that_outlived_watchdog_and_keeper_is_replaced(data_dir: Path, daemons: Daemons) -> None:
    keeper = await daemons.spawn(data_dir, parent_death="watchdog")
    await daemons.spawn(data_dir)
    server = the_server(data_dir)
    (pid,) = watchdogs_of(data_dir)
    os.kill(keeper.process.pid, signal.SIGSTOP)  # or it would see its watchdog die
    os.kill(pid, signal.SIGKILL)
    await keeper.kill()
    assert is_alive(server)
    await another_server(data_dir, than=server)


async def test_a_server_whose_socket_was_cleaned_away_is_restarted(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentsmith.store.server.embedded._LOOK_AROUND", 0.02)
    async with EmbeddedServer(data_dir) as server:
        keeping = asyncio.create_task(server.keep())
        socket = Path(server.url.removeprefix("unix://"))
        shutil.rmtree(socket.parent)
        await wait_until(socket.exists, what="the socket is back")
        keeping.cancel()


@pytest.fixture
def holder(data_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds the server's lock the way a server does that has not died yet."""
    home = ServerHome(data_dir)
    home.prepare()
    lock = home.lock_for_server()
    assert lock is not None
    process = subprocess.Popen(["sleep", "60"], pass_fds=[lock], start_new_session=True)
    home.note_server(lock, process.pid)
    os.close(lock)
    yield process
    process.kill()
    process.wait()


async def test_no_server_is_started_beside_one_that_still_lives(
    data_dir: Path, holder: subprocess.Popen[bytes]
) -> None:
    async with EmbeddedServer(data_dir):
        assert holder.wait(0) == -signal.SIGKILL, "the leftover was ended first"


async def test_a_leftover_of_another_container_is_awaited_and_not_killed(
    data_dir: Path, holder: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentsmith.store.server.process._LEFTOVER_GONE_WITHIN", 0.1)
    (data_dir / "redis" / "server.pid").write_text(f"{holder.pid} another namespace\n")
    with pytest.raises(ServerUnavailable, match=rf"process {holder.pid}\) still runs"):
        await EmbeddedServer(data_dir).start()
    assert holder.poll() is None
    holder.kill()
    async with EmbeddedServer(data_dir):
        assert len(servers_of(data_dir)) == 1


@linux_only
def test_a_server_is_not_started_for_a_keeper_that_is_already_dead(tmp_path: Path) -> None:
    not_its_parent = "1" if os.getpid() != 1 else "2"
    command = [sys.executable, "-c", f"open({str(tmp_path / 'started')!r}, 'w')"]
    launcher = [sys.executable, "-I", "-S", watchdog.__file__]
    subprocess.run([*launcher, "signal", not_its_parent, *command], check=True)
    assert not (tmp_path / "started").exists()
    subprocess.run([*launcher, "signal", str(os.getpid()), *command], check=True)
    assert (tmp_path / "started").exists()


async def test_keep_gives_up_on_a_server_that_cannot_start(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentsmith.store.server.embedded._FIRST_PAUSE", 0.0001)
    async with EmbeddedServer(data_dir) as server:
        with connect(server.url) as client:
            client.set("some", "thing")
        keeping = asyncio.create_task(server.keep())
        (data_dir / "redis" / "appendonlydir" / "appendonly.aof.manifest").write_text("junk\n")
        os.kill(the_server(data_dir), signal.SIGKILL)
        with pytest.raises(ServerUnavailable, match="Invalid AOF manifest"):
            await keeping


async def test_keep_gives_up_on_a_server_that_dies_again_and_again(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentsmith.store.server.embedded._FIRST_PAUSE", 0.0001)
    monkeypatch.setattr("agentsmith.store.server.embedded._STEADY_AFTER", 60)
    async with EmbeddedServer(data_dir) as server:
        keeping = asyncio.create_task(server.keep())
        socket = Path(server.url.removeprefix("unix://"))

        async def killed_when_ready() -> bool:
            if await ping(socket) == "ready":
                os.kill(the_server(data_dir), signal.SIGKILL)
            return keeping.done()

        await wait_until(killed_when_ready, what="keep gives up")
        with pytest.raises(ServerUnavailable, match=r"died 6 times in a row|ended with code -9"):
            await keeping


async def test_without_room_nothing_is_started(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = StoreRefused("no room", remedy="make some")
    asked: list[object] = []

    def lack_of_room(_: ServerHome) -> StoreRefused | None:
        lack = full if len(asked) < 3 else None
        asked.append(lack)
        return lack

    monkeypatch.setattr("agentsmith.store.server.embedded._LOOK_AROUND", 0.01)
    async with EmbeddedServer(data_dir) as server:
        first = the_server(data_dir)
        monkeypatch.setattr(ServerHome, "lack_of_room", lack_of_room)
        monkeypatch.setattr(ServerHome, "write_configuration", lambda *_: asked.append("started"))
        keeping = asyncio.create_task(server.keep())
        os.kill(first, signal.SIGKILL)
        await another_server(data_dir, first)
        keeping.cancel()
    assert asked[:5] == [full, full, full, None, "started"]


async def test_stop_ends_keep_and_the_server_stays_down(data_dir: Path) -> None:
    server = EmbeddedServer(data_dir)
    await server.start()
    keeping = asyncio.create_task(server.keep())
    await asyncio.sleep(0)
    await server.stop()
    await keeping
    assert servers_of(data_dir) == []


async def test_a_cancelled_start_leaves_nothing_behind(data_dir: Path) -> None:
    starting = asyncio.create_task(EmbeddedServer(data_dir).start())

    def is_under_way() -> bool:
        return bool(servers_of(data_dir) + watchdogs_of(data_dir))

    await wait_until(is_under_way, what="the start is under way")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await wait_until(lambda: not is_under_way(), what="nothing is left of it")
    async with EmbeddedServer(data_dir):
        assert len(servers_of(data_dir)) == 1
