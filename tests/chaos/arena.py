"""Where chaos takes place: Redis, the trackers, the network between, and several daemons of every role.

    people → simulators ⇄ proxy ⇄ daemons ⇄ a proxy per daemon ⇄ Redis
             └──────── webhooks ───┘

Everything is on loopback and in one folder, and ends with this process, whatever way that goes.
"""

from __future__ import annotations

import asyncio
import py_compile
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import redis.asyncio
import yaml

from agentsmith.config import Config, load
from agentsmith.guard import processes
from agentsmith.guard import program as guard
from agentsmith.trackers import registry
from tests.chaos import work
from tests.chaos.daemon import WallClock
from tests.chaos.history import History
from tests.chaos.older import PROGRAM as OLDER_PROGRAM
from tests.chaos.trackers import TRIGGER, Tracker, open_trackers
from tests.chaos.witness import Witness
from tests.e2e.daemons import DaemonProcess, Daemons
from tests.support.fault_proxy import FaultProxy, to_socket
from tests.support.redis_server import RedisServer, free_port
from tests.support.sentinels import Deployment, deployed
from tests.support.wait import slowly, wait_until

PROGRAM: Final = "tests.chaos.daemon"
CREW: Final = {"receiver": 2, "poller": 2, "consumer": 3, "housekeeping": 2}
"""How many processes of each role."""
SLOTS: Final = 4
_SCALED: Final = ("lease", "consumer", "claim", "housekeeping", "run")
_WEBHOOKS_LAG: Final = 1.0
"""Seconds: work is short here, so what we wrote ourselves would be old news each time, were it any later."""
_ENDS_WITHIN: Final = 20.0
_READ_AGAIN: Final = "the configuration was read again"


@dataclass(slots=True)
class Post:
    """A place for one daemon: however often it dies, the next one has the same configuration and network."""

    name: str
    role: str
    config: Path
    clock: Path
    line: FaultProxy
    """Its way to Redis."""
    disk: Path | None = None
    """What it works on, if that is a small one of its own."""
    older: bool = False
    """Whether the next daemon there is one of the older release."""
    daemon: DaemonProcess | None = None
    busy: bool = False
    """Whether a fault is at it, so that no other one should be."""

    @property
    def alive(self) -> bool:
        """Whether a daemon lives there now."""
        return self.daemon is not None and not self.daemon.is_over

    @property
    def free(self) -> bool:
        """Whether a daemon lives there that no fault is at."""
        return self.alive and not self.busy

    @property
    def pid(self) -> int:
        """The process there; 0 before the first."""
        return self.daemon.pid if self.daemon is not None else 0

    async def port(self) -> int:
        """Where the daemon listens; a receiver that replaces it listens there too."""
        assert self.daemon is not None
        return await self.daemon.port()


@dataclass(slots=True)
class Arena:
    """All of it, set up and running."""

    folder: Path
    config: Config
    factor: float
    history: History
    server: RedisServer
    witness: Witness
    trackers: Mapping[str, Tracker]
    daemons: Daemons
    older: Daemons
    """Those of an older release."""
    deployment: Deployment | None = None
    """Where Redis fails over through sentinels: the lines to it then lead nowhere."""
    posts: dict[str, Post] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    """Daemons that did not come up, because Redis was away just then, and others that ended before they were up."""
    _supervising: asyncio.Task[None] | None = None

    def of_role(self, role: str) -> list[Post]:
        """The posts of one role."""
        return [post for post in self.posts.values() if post.role == role]

    def scaled(self, seconds: float) -> float:
        """So many seconds of an ordinary installation, here."""
        return seconds * self.factor

    async def man(self, post: Post) -> DaemonProcess:
        """Start a daemon at its post."""
        daemons = self.older if post.older else self.daemons
        post.daemon = await daemons.start(
            post.config,
            post.role,
            CHAOS_CLOCK=str(post.clock),
            CHAOS_GUARDS=str(self.folder / "guards"),
            CHAOS_HISTORY=str(self.folder / "history"),
        )
        return post.daemon

    async def relieve(self, post: Post) -> DaemonProcess:
        """End the daemon at its post in order, and let another one follow it, as an update does."""
        assert post.daemon is not None
        post.busy = True
        try:
            post.daemon.send(signal.SIGTERM)
            code = await post.daemon.ended()
            # Who was started a moment ago does not listen to signals yet, and has nothing in hand.
            if code != 0 and not (code == -signal.SIGTERM and not post.daemon.lines("up")):
                self._note_death(post, post.daemon)
            return await self.man(post)
        finally:
            post.busy = False

    async def leader(self, role: str) -> Post | None:
        """Who leads a role now, as Redis knows it; None while nobody can tell."""
        try:
            server = self.deployment.primary if self.deployment is not None else self.server
            async with redis.asyncio.Redis.from_url(server.url, decode_responses=True) as client:
                token = await client.get(f"agentsmith:leader:{role}")
        except redis.RedisError:
            return None
        pid = int(str(token).rsplit("-", 2)[-2]) if token else 0
        return next((post for post in self.of_role(role) if post.alive and post.pid == pid), None)

    def descendants(self, pid: int) -> list[int]:
        """Every process below this one: the guards and the work of a consumer."""
        below: dict[int, list[int]] = {}
        for child, (parent, _) in processes.process_table().items():
            below.setdefault(parent, []).append(child)
        found, unseen = [], [pid]
        while unseen:
            children = below.get(unseen.pop(), [])
            found += children
            unseen += children
        return found

    @staticmethod
    def parent(pid: int) -> int:
        """The parent of a process; 0 once it is gone."""
        try:
            return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            return 0

    def ancestors(self, pid: int) -> set[int]:
        """Every process above this one; a run's are its guards and its consumer."""
        found = set()
        while (pid := self.parent(pid)) > 1:
            found.add(pid)
        return found

    @staticmethod
    def is_guard(pid: int) -> bool:
        """Whether the process is a guard, and not one that got its number since."""
        return _is(pid, guard.__file__)

    def supervise(self) -> None:
        """From now on replace every daemon that ended, as an init system does."""
        self._supervising = asyncio.create_task(self._replace_the_dead())

    async def leave_alone(self) -> None:
        """Replace nobody any more."""
        if self._supervising is not None:
            self._supervising.cancel()
            await asyncio.wait({self._supervising})

    async def _replace_the_dead(self) -> None:
        while True:
            for post in self.posts.values():
                if not post.busy and post.daemon is not None and post.daemon.is_over:
                    if post.daemon.code != -signal.SIGKILL:
                        self._note_death(post, post.daemon)
                    await self.man(post)
            await asyncio.sleep(0.1)

    def _note_death(self, post: Post, daemon: DaemonProcess) -> None:
        """What an older release got wrong is history."""
        how = f"ended with {daemon.code}: {_last_words(daemon)}"
        if daemon.lines("up") and daemon not in self.older.all:
            self.history.note("died", who=post.name, how=how)
        else:
            self.failures.append(f"{post.name} {how}")

    async def stop(self) -> list[str]:
        """End every daemon as an operator does; answers what did not end well."""
        await self.leave_alone()
        left = [post.daemon for post in self.posts.values() if post.daemon is not None and post.alive]
        for daemon in left:
            daemon.send(signal.SIGTERM)
        codes = await asyncio.gather(*(daemon.ended(within=_ENDS_WITHIN) for daemon in left), return_exceptions=True)
        return [f"{daemon}: {code}" for daemon, code in zip(left, codes, strict=True) if code != 0]

    def withdrawn(self) -> list[dict[str, Any]]:
        """What the logs say of tickets whose trigger was removed; here nobody ever does that."""
        told = [line for daemon in (*self.daemons.all, *self.older.all) for line in daemon.lines("transition")]
        return [line for line in told if "trigger was removed" in str(line.get("outcome"))]

    async def configure(self, posts: Sequence[Post], label: str) -> bool:
        """Let these daemons have this one trigger, from now on; whether all that live have read it."""
        read = {post.name: len(post.daemon.lines(_READ_AGAIN)) for post in posts if post.daemon is not None}
        for post in posts:
            document = yaml.safe_load(post.config.read_text())
            document["triggers"] = [{"label": label, "pipeline": "work"}]
            post.config.write_text(yaml.safe_dump(document))
            if post.daemon is not None:
                post.daemon.send(signal.SIGHUP)
        alive = {post.name: post.daemon for post in posts if post.daemon is not None and post.free}

        def heard(name: str, daemon: DaemonProcess) -> bool:
            return daemon.is_over or len(daemon.lines(_READ_AGAIN)) > read[name]

        for name, daemon in alive.items():
            with suppress(AssertionError):
                await wait_until(slowly(partial(heard, name, daemon)), what=f"{name} to read its file", within=10)
        return any(not daemon.is_over for daemon in alive.values())

    async def restart_redis(self) -> None:
        """Kill -9 Redis and start it again, with all that it had acknowledged; nobody gets in before the witness."""
        for post in self.posts.values():
            post.line.refuse(True)
            post.line.cut()
        await asyncio.to_thread(self.server.restart)
        await self.witness.watch(self.server.socket)
        for post in self.posts.values():
            post.line.refuse(False)


@asynccontextmanager
async def open_arena(
    folder: Path, factor: float, crew: Mapping[str, int] = CREW, *, disk: bool = False, sentinel: bool = False
) -> AsyncIterator[Arena]:
    """Everything set up and every daemon running; all of it ended when the block is left.

    With `disk` there is a small one in the folder of that name, which one consumer works on. Daemons of an older
    release are there for whoever has put that into the folder `older`.
    """
    for name in ("history", "locks", "configs", "logs-of-older"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        history = History(folder / "history", "arena")
        stack.callback(history.close)
        safely, deployment = ("--appendonly", "yes", "--appendfsync", "always"), None
        if sentinel:
            deployment = stack.enter_context(deployed(*safely, replicas=2, sentinels=3, min_replicas=1))
        servers = deployment.servers if deployment else [stack.enter_context(RedisServer(*safely))]
        server, witness = servers[0], Witness(history)
        stack.push_async_callback(witness.leave)
        for each in servers:
            await witness.watch(each.socket)
        trackers = await stack.enter_async_context(open_trackers(history, lag=factor * _WEBHOOKS_LAG))
        document = _document(folder, factor, trackers)
        daemons = Daemons(folder, PROGRAM)
        older = Daemons(folder / "logs-of-older", OLDER_PROGRAM, folder / "older")
        config = _loaded(folder, document)
        arena = Arena(folder, config, factor, history, server, witness, trackers, daemons, older, deployment)
        await stack.enter_async_context(daemons)
        await stack.enter_async_context(older)
        stack.push_async_callback(arena.leave_alone)  # or those who are ended in the end would be replaced for ever
        ports = iter([free_port() for _ in range(crew["receiver"])])
        for role, count in crew.items():
            for number in range(1, count + 1):
                line = await FaultProxy(to_socket(str(server.socket))).start()
                stack.push_async_callback(line.close)
                port = next(ports) if role == "receiver" else 0
                small = folder / "disk" if disk and (role, number) == ("consumer", count) else None
                url = deployment.url if deployment else f"redis://127.0.0.1:{line.port}"
                mine = {**document, "redis": {"url": url}, **({"data_dir": str(small)} if small else {})}
                post = arena.posts[f"{role}-{number}"] = _post(folder, mine, f"{role}-{number}", role, line, port)
                post.disk = small
        await asyncio.gather(*map(arena.man, arena.posts.values()))
        for post in arena.posts.values():
            assert post.daemon is not None
            await post.daemon.said("up", within=60)
        receivers = arena.of_role("receiver")
        for number, tracker in enumerate(trackers.values()):
            port = await receivers[number % len(receivers)].port()
            tracker.send_webhooks(f"http://127.0.0.1:{port}/webhooks/{tracker.name}")
        arena.supervise()
        yield arena


def _is(pid: int, program: str) -> bool:
    """Whether the process runs the program of that path."""
    try:
        return program.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _post(folder: Path, document: dict[str, Any], name: str, role: str, line: FaultProxy, port: int) -> Post:
    config, clock = folder / "configs" / f"{name}.yaml", folder / "configs" / f"{name}.clock"
    mine = {**document, "server": {"port": port}}
    config.write_text(yaml.safe_dump(mine))
    WallClock.set(clock, 0.0)
    return Post(name, role, config, clock, line)


def _document(folder: Path, factor: float, trackers: Mapping[str, Tracker]) -> dict[str, Any]:
    """The defaults with every duration scaled, and what the tickets ask for."""
    program = py_compile.compile(work.__file__, cfile=str(folder / "work.pyc"), doraise=True)
    step = {"run": [sys.executable, "-I", "-S", program, str(folder)], "name": "work"}
    document: dict[str, Any] = {
        "data_dir": str(folder / "data"),
        "log": {"format": "json", "level": "info"},
        "trackers": {name: tracker.settings() for name, tracker in trackers.items()},
        "triggers": [{"label": TRIGGER, "pipeline": "work"}],
        "pipelines": {"work": {"steps": [step]}},
    }
    scaled = _loaded(folder, document).scaled(factor).model_dump(mode="json", exclude_none=True)
    document |= {section: scaled[section] for section in _SCALED}
    # Not scaled: nine processes that look every 20 ms would be busy with nothing else.
    del document["consumer"]["stop_poll"]
    document["consumer"] |= {"slots": SLOTS, "max_attempts": 100, "max_deliveries": 100}
    document["claim"]["loop_limit"]["claims"] = 1000
    for name, settings in document["trackers"].items():
        settings["poll_interval"] = scaled["trackers"][name]["poll_interval"]
    return document


def _loaded(folder: Path, document: dict[str, Any]) -> Config:
    file = folder / "configs" / "loaded.yaml"
    file.write_text(yaml.safe_dump(document))
    return load(file, platforms=registry.settings_models(), environ={})


def _last_words(daemon: DaemonProcess) -> str:
    lines = daemon.log_file.read_text(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it said nothing"
