"""A machine in trouble (P2): whatever of ours breaks gives the ticket back uncounted, and the machine takes no more."""

from __future__ import annotations

import asyncio
import errno
import io
import itertools
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from pydantic import SecretStr
from rich.console import Console
from structlog.testing import capture_logs

from agentsmith.cli.status import gather
from agentsmith.cli.status_view import view
from agentsmith.config import Consumer as ConsumerSettings
from agentsmith.config import Grace, Redis, RunLimits, Step
from agentsmith.config import Run as RunSettings
from agentsmith.daemon.process import Daemon, Role
from agentsmith.domain.errors import MachineTrouble
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.request import PipelineRequest
from agentsmith.guard import program as guard_program
from agentsmith.pipelines import disk
from agentsmith.pipelines.machine import Machine, try_out
from agentsmith.store import Store
from tests.support.code_world import code_config, open_code_world, scripted_agent
from tests.support.local_faults import failing
from tests.support.wait import wait_until
from tests.support.world import World, open_world, sh, world_config

ERRNOS: Final = ("ENOSPC", "EMFILE", "ENFILE", "EACCES", "EROFS", "ENOMEM", "EIO", "EAGAIN")
GUARD: Final = Path(guard_program.__file__).read_text()
EVERY: Final = os.environ.get("AGENTSMITH_FAULTS_FULL") == "1"


@asynccontextmanager
async def opened(
    tmp_path: Path, store: Store, redis_url: str, *steps: Step, limits: RunLimits | None = None
) -> AsyncIterator[World]:
    config = world_config(
        tmp_path / "data",
        *steps,
        consumer=ConsumerSettings(kill_grace=Grace(0.2), drain_timeout=Grace(0)),
        run=RunSettings(limits=limits or RunLimits()),
    )
    async with open_world(tmp_path, store, redis_url, config=config) as world:
        world.consumer.context.machine.first_pause = 0.01
        yield world


@asynccontextmanager
async def serving(world: World) -> AsyncIterator[None]:
    task = asyncio.create_task(world.consumer.serve())
    try:
        yield
    finally:
        await world.consumer.drain(timeout=0)
        await task


def at_work(tmp_path: Path) -> Step:
    return sh(f"echo $AGENTSMITH_ATTEMPT >> {tmp_path}/attempts")


def attempts(tmp_path: Path) -> list[str]:
    return (tmp_path / "attempts").read_text().split()


def checks_of(world: World) -> list[str]:
    """Grows with every check that the machine is put to from now on."""
    machine, looks = world.consumer.context.machine, list[str]()
    real = machine._check
    assert real is not None

    async def noted() -> None:
        looks.append("looked")
        await real()

    machine._check = noted
    return looks


def everything(folder: Path) -> list[Path]:
    return list(folder.rglob("*"))


async def claimed(world: World) -> str:
    key = await world.open_ticket()
    await world.claim(key)
    return key


async def ends(world: World, key: str) -> Status:
    """What its label says once nobody has it in hand any more."""

    async def over() -> bool:
        statuses = await world.statuses(key)
        return not statuses & {Status.ENQUEUED, Status.IN_PROGRESS} and len(statuses) == 1

    await wait_until(over, what="the ticket to end", within=60)
    return next(iter(await world.statuses(key)))


async def given_back(world: World, key: str) -> PipelineRequest:
    """The request of a ticket that was given back, as if nobody had ever had it."""
    ticket = world.ticket_id(key)
    assert await world.statuses(key) == {Status.ENQUEUED}
    [payload] = await world.queued()
    counters = await world.store.redis.hgetall(world.store.keys.counters(ticket))
    assert {name: int(count) for name, count in counters.items() if int(count)} == {}
    assert not await world.store.runs.running()
    return PipelineRequest.from_json(payload)


async def once(world: World) -> None:
    """Take one request, and let the run come to its end."""
    payload = await world.store.queue.take(world.process.name, wait=0.01)
    assert payload is not None
    await world.consumer.run(payload)


async def test_P2_an_unusable_workspace_folder_gives_the_ticket_back(
    tmp_path: Path, store: Store, redis_url: str
) -> None:
    async with opened(tmp_path, store, redis_url, at_work(tmp_path)) as world:
        workspaces = world.config.data_dir / "workspaces"
        workspaces.write_text("in the way")
        key = await claimed(world)
        with capture_logs() as logs:
            await once(world)
            request = await given_back(world, key)
            assert request.troubles == 1
            assert "workspaces" in world.consumer.context.machine.trouble
            looks = checks_of(world)
            async with serving(world):
                await wait_until(lambda: len(looks) > 2, what="the machine to be looked at again and again")
                await given_back(world, key)
                workspaces.unlink()
                assert await ends(world, key) is Status.DONE
        told = [line["event"] for line in logs]
        assert sum("is in trouble" in event for event in told) == 1
        assert sum("has got over its trouble" in event for event in told) == 1
        assert attempts(tmp_path) == ["1"]
        assert "which is in trouble" in (await world.comments(key))[0]


async def test_P2_a_guard_that_cannot_be_started_is_no_poison(
    tmp_path: Path, store: Store, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, store, redis_url, at_work(tmp_path)) as world:
        key = await claimed(world)
        monkeypatch.setattr(guard_program, "__file__", str(tmp_path / "missing.py"))
        await once(world)
        await given_back(world, key)
        monkeypatch.undo()
        await once(world)
        assert await world.statuses(key) == {Status.DONE}
        assert await store.queue.count_dead_letters() == 0
        assert attempts(tmp_path) == ["1"]


async def test_P2_a_cgroup_that_cannot_be_made_gives_the_ticket_back(
    tmp_path: Path, store: Store, redis_url: str
) -> None:
    base = tmp_path / "cgroup"
    base.mkdir()
    for name in ("cgroup.procs", "cgroup.controllers", "cgroup.subtree_control"):
        (base / name).touch()
    async with opened(tmp_path, store, redis_url, at_work(tmp_path), limits=RunLimits(cgroup=base)) as world:
        key = await claimed(world)
        (base / f"run-{(await claims_run(world))}").write_text("in the way")
        await once(world)
        await given_back(world, key)


async def claims_run(world: World) -> str:
    [payload] = await world.queued()
    return PipelineRequest.from_json(payload).run


async def test_P2_a_step_that_fails_while_the_disk_is_full_did_not_fail(
    tmp_path: Path, store: Store, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = tmp_path / "full"
    full.touch()
    real = os.statvfs

    def statvfs(path: Path) -> os.statvfs_result:
        found = list(real(path))
        if full.exists():
            found[4] = 1  # blocks for whoever is not root
        return os.statvfs_result(found)

    monkeypatch.setattr(disk.os, "statvfs", statvfs)  # type: ignore[attr-defined]  # for all of this process
    step = sh(f"echo $AGENTSMITH_ATTEMPT >> {tmp_path}/attempts; test ! -e {full}")
    async with opened(tmp_path, store, redis_url, step) as world:
        key = await claimed(world)
        await once(world)
        await given_back(world, key)
        assert "disk is full" in world.consumer.context.machine.trouble
        full.unlink()
        async with serving(world):
            assert await ends(world, key) is Status.DONE
        assert attempts(tmp_path) == ["1", "1"]


async def test_P2_what_breaks_us_each_time_waits_for_a_person_and_has_not_failed(
    tmp_path: Path, store: Store, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("nobody foresaw this")

    async with opened(tmp_path, store, redis_url, at_work(tmp_path)) as world:
        key = await claimed(world)
        monkeypatch.setattr("agentsmith.running.run_work.environment", broken)
        async with serving(world):
            assert await ends(world, key) is Status.WAITING
        said = (await world.comments(key))[0]
        assert "It was begun 3 times, and something broke on our side" in said
        assert "KeyError" in said
        assert world.process.name in said
        assert "`the run broke`" in said
        assert "agentsmith retry" in said
        assert await store.queue.count_dead_letters() == 0


async def test_a_machine_that_is_sick_from_the_start_takes_nothing(
    tmp_path: Path, store: Store, redis_url: str
) -> None:
    async with opened(tmp_path, store, redis_url, at_work(tmp_path)) as world:
        (world.config.data_dir / "runs").write_text("in the way")
        key = await claimed(world)
        async with serving(world):
            await wait_until(lambda: bool(world.consumer.context.machine.trouble), what="the trouble to be noticed")
            assert (await given_back(world, key)).troubles == 0
            (world.config.data_dir / "runs").unlink()
            assert await ends(world, key) is Status.DONE


async def test_a_command_that_the_machine_cannot_start_is_our_trouble(
    tmp_path: Path, store: Store, redis_url: str
) -> None:
    """The guard's own files, which nobody but us touches."""
    async with opened(tmp_path, store, redis_url, at_work(tmp_path)) as world:
        key = await claimed(world)
        log = world.config.data_dir / "runs" / await claims_run(world) / "output.log"
        log.mkdir(parents=True)
        await once(world)
        await given_back(world, key)
        assert "cannot write the log" in world.consumer.context.machine.trouble


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE], ids=errno.errorcode.get)
async def test_no_process_to_be_had_is_our_trouble(
    tmp_path: Path, store: Store, redis_url: str, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """In the process that starts guards, and in the guard that starts commands."""
    done, done_too = tmp_path / "done", tmp_path / "done-too"
    fails = f"""
real_fork, real_popen = os.fork, subprocess.Popen
def refused():
    raise OSError({number}, os.strerror({number}))
os.fork = lambda: real_fork() if os.path.exists({str(done)!r}) else refused()
subprocess.Popen = lambda *args, **more: (
    real_popen(*args, **more) if os.path.exists({str(done_too)!r}) else refused())
"""
    faulty = tmp_path / "guard.py"
    faulty.write_text(GUARD + fails)
    async with opened(tmp_path, store, redis_url, at_work(tmp_path)) as world:
        key = await claimed(world)
        monkeypatch.setattr(guard_program, "__file__", str(faulty))
        await once(world)
        await given_back(world, key)
        assert os.strerror(number) in world.consumer.context.machine.trouble
        done.touch()
        await once(world)
        assert (await given_back(world, key)).troubles == 2
        assert os.strerror(number) in world.consumer.context.machine.trouble
        done_too.touch()
        async with serving(world):
            assert await ends(world, key) is Status.DONE
        assert attempts(tmp_path) == ["1"]


async def test_the_pauses_grow_until_a_run_came_to_its_end() -> None:
    looks: list[float] = []
    loop = asyncio.get_running_loop()
    sick = True

    async def check() -> None:
        looks.append(loop.time())
        if sick and len(looks) < 5:
            raise MachineTrouble("no")

    machine = Machine(check, first_pause=0.01, longest_pause=0.04)
    await machine.until_well(asyncio.Event())
    pauses = [later - earlier for earlier, later in itertools.pairwise(looks)]
    assert [pause >= least for pause, least in zip(pauses, (0.01, 0.02, 0.04, 0.04), strict=True)] == [True] * 4
    assert not machine.trouble
    await machine.until_well(asyncio.Event())  # well: nothing is asked
    assert len(looks) == 5


async def test_whoever_leaves_does_not_wait_for_its_machine() -> None:
    machine, leaving = Machine(first_pause=3600), asyncio.Event()
    machine.broke("it is ill")
    waiting = asyncio.create_task(machine.until_well(leaving))
    leaving.set()
    async with asyncio.timeout(30):
        await waiting
    assert machine.trouble


async def test_a_check_leaves_nothing_behind(tmp_path: Path) -> None:
    await try_out(tmp_path, limits=RunLimits(), user=None, git=True)
    assert {str(path.relative_to(tmp_path)) for path in everything(tmp_path)} == {"workspaces", "runs"}


# Every local operation of a run, each failing in every way


def sampled(count: int, *, take: int) -> list[tuple[int, str]]:
    """Which operation fails, and how: all of them, or some that change from one to the next."""
    every = [(number, name) for number in range(count) for name in ERRNOS]
    return every if EVERY else every[:: max(1, len(every) // take) | 1]


async def strikes(world: World, tmp_path: Path, cases: Callable[[int], list[tuple[int, str]]]) -> None:
    """One ticket for each: whatever fails, once, it ends in done, in its first attempt."""

    async def carried(strike: int = -1, errno: int = 0) -> tuple[str, list[str]]:
        (tmp_path / "attempts").unlink(missing_ok=True)
        key = await claimed(world)
        with failing(world.config.data_dir, errno=errno, strike=strike) as faults:
            async with serving(world):
                ended = await ends(world, key)
        world.consumer._draining.clear()
        struck = faults.seen[strike] if faults.struck else "nothing"
        assert ended is Status.DONE, f"{struck}: {os.strerror(errno)} ended it as {ended}: {await world.comments(key)}"
        assert set(attempts(tmp_path)) == {"1"}, f"{struck}: {os.strerror(errno)} cost an attempt"
        assert await world.store.queue.count_dead_letters() == 0
        return struck, faults.seen

    await carried()
    _, seen = await carried()
    assert len(seen) > 20, seen
    missed = 0
    for strike, name in cases(len(seen)):
        struck, _ = await carried(strike=strike, errno=getattr(errno, name))
        missed += struck == "nothing"
    assert missed < 10 or not EVERY


@pytest.mark.timeout(3600 if EVERY else 300)
async def test_P2_whatever_local_operation_of_a_run_fails_its_ticket_does_not(
    tmp_path: Path, store: Store, redis_url: str
) -> None:
    async with opened(tmp_path, store, redis_url, at_work(tmp_path)) as world:
        await strikes(world, tmp_path, lambda count: sampled(count, take=30))


@pytest.mark.timeout(3600 if EVERY else 300)
async def test_P2_whatever_local_operation_of_a_checkout_fails_its_ticket_does_not(
    tmp_path: Path, store: Store, redis_url: str
) -> None:
    noted = f"open({str(tmp_path / 'attempts')!r}, 'a').write(os.environ['AGENTSMITH_ATTEMPT'] + '\\n')"
    agent = scripted_agent(tmp_path, f"import os\n{noted}\nopen('made', 'w').write('it')\n")
    config = code_config(tmp_path / "data", ["checkout", "agent", "commit", "push", "pull_request"], agent=agent)
    async with open_code_world(tmp_path, store, redis_url, config=config) as code:
        code.world.consumer.context.machine.first_pause = 0.01
        await strikes(code.world, tmp_path, lambda count: sampled(count, take=6))


async def test_no_files_left_is_not_taken_for_no_file(tmp_path: Path, store: Store, redis_url: str) -> None:
    """A worker that wrote its question into the status file has not finished because we cannot open that file."""
    step = sh('echo "::question Which one?" > "$AGENTSMITH_STATUS_FILE"')
    async with opened(tmp_path, store, redis_url, step) as world:
        key = await claimed(world)
        with failing(world.config.data_dir, errno=errno.EMFILE, at="^open .*/tmp/status$") as faults:
            await once(world)
        assert faults.struck
        await given_back(world, key)
        async with serving(world):
            assert await ends(world, key) is Status.WAITING


async def test_status_and_readyz_say_what_is_wrong(tmp_path: Path, store: Store, redis_url: str) -> None:
    async with opened(tmp_path, store, redis_url) as world:
        daemon = Daemon(world.config, frozenset({Role.CONSUMER}))
        machine = daemon._machine = Machine()
        ready = daemon._ready(store)
        assert await ready() is None
        machine.broke("No space left on device: /data")
        assert await ready() == "this machine is in trouble: No space left on device: /data"
        await store.presence.tick(daemon._about_us(), ttl=30, running={})
        [process] = await store.presence.alive()
        assert process.trouble == "No space left on device: /data"
        redis = Redis(url=SecretStr(redis_url), namespace=store.keys.namespace)
        shown = await gather(world.config.model_copy(update={"redis": redis}))
        screen = Console(file=io.StringIO(), width=200)
        screen.print(*view(shown, fancy=False))
        assert "takes no work: No space left on device" in screen.file.getvalue()  # type: ignore[attr-defined]
