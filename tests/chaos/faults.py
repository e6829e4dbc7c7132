"""Every kind of fault: what it does, how long it lasts, and how it knows that it struck.

A fault answers what it hit, or None when there was nothing to hit, in which case it did not happen and is tried again.
It leaves the world as it found it, also when it is interrupted. Lengths are those of an ordinary installation, scaled.

Kinds of one track come one after another; the tracks run side by side. One thing is kept apart: Redis is not emptied
while a consumer is paused or cut off from it, nor before it has spoken with Redis again. Redis then forgets the lease
of a run that nobody can put back, or the fence that would have told it that others went on; P1 and P6 assume that this
does not happen. Such a run is alive until its guard ends it, at most one renewal interval and the grace after another
one may have begun.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import redis

from agentsmith.simulators.faults import Fault
from tests.chaos import disk
from tests.chaos.arena import SLOTS, Post
from tests.chaos.daemon import WallClock
from tests.chaos.older import OTHER_RELEASE
from tests.chaos.scene import Scene
from tests.chaos.trackers import TRIGGER, Tracker

WRITES: Final = "POST|PUT|PATCH|DELETE"
LIMITS: Final = {
    "github": "secondary_limit",
    "gitlab": "rate_limited",
    "azure-devops": "rate_limit",
    "jira": "burst_limit",
}
"""How each platform says 429."""
IN_TROUBLE: Final = "this machine is in trouble; it takes no work until it has got over it"

Play = Callable[[Scene], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault."""

    name: str
    track: str
    play: Play
    ends_runs: bool = False
    """Whether runs are expected to be cut off by it."""


KINDS: Final[dict[str, Kind]] = {}
FAILOVERS: Final[dict[str, Kind]] = {}
"""Those of a Redis behind sentinels, in the place of what can happen to a single one."""


def kind(name: str, track: str, *, ends_runs: bool = False, among: dict[str, Kind] = KINDS) -> Callable[[Play], Play]:
    """Add a kind of fault."""

    def add(play: Play) -> Play:
        among[name] = Kind(name, track, play, ends_runs)
        return play

    return add


# --- processes ------------------------------------------------------------------------------------------------------


async def _kill(scene: Scene, role: str, *, leading: bool = False) -> str | None:
    """Kill -9, and leave the post empty for a while."""
    async with scene.victim(role, leading=leading) as post:
        if post is None or post.daemon is None:
            return None
        post.daemon.send(signal.SIGKILL)
        code = await post.daemon.ended()
        await asyncio.sleep(scene.arena.scaled(scene.chance.uniform(2, 20)))
        await scene.arena.man(post)
        return post.name if code == -signal.SIGKILL else None


async def _pause(scene: Scene, role: str, *, leading: bool = False) -> str | None:
    """SIGSTOP until everything that the process held has lapsed, then SIGCONT."""
    async with scene.victim(role, leading=leading) as post:
        if post is None or post.daemon is None:
            return None
        daemon = post.daemon
        daemon.send(signal.SIGSTOP)
        try:
            await daemon.stopped()
            await asyncio.sleep(scene.ttl * scene.chance.uniform(1.1, 1.4))
        finally:
            daemon.send(signal.SIGCONT)
        return post.name


@kind("kill-consumer", "consumers", ends_runs=True)
async def _(scene: Scene) -> str | None:
    return await _kill(scene, "consumer")


@kind("kill-receiver", "receivers")
async def _(scene: Scene) -> str | None:
    return await _kill(scene, "receiver")


@kind("kill-poller", "pollers")
async def _(scene: Scene) -> str | None:
    return await _kill(scene, "poller", leading=True)


@kind("kill-housekeeping", "housekeepings")
async def _(scene: Scene) -> str | None:
    return await _kill(scene, "housekeeping", leading=True)


@kind("pause-consumer", "consumers", ends_runs=True)
async def _(scene: Scene) -> str | None:
    async with scene.truce.muting():
        return await _pause(scene, "consumer")


@kind("pause-receiver", "receivers")
async def _(scene: Scene) -> str | None:
    return await _pause(scene, "receiver")


@kind("pause-poller", "pollers")
async def _(scene: Scene) -> str | None:
    return await _pause(scene, "poller", leading=True)


@kind("pause-housekeeping", "housekeepings")
async def _(scene: Scene) -> str | None:
    return await _pause(scene, "housekeeping", leading=True)


@kind("kill-guard", "consumers", ends_runs=True)
async def _(scene: Scene) -> str | None:
    """Kill -9 one of the two processes that guard a run, whichever comes first."""
    _, work = await scene.long_work()
    if work is None:
        return None
    guard = int(work["parent"])
    pid = scene.chance.choice([guard, scene.arena.parent(guard)])
    if not scene.arena.is_guard(pid):
        return None  # the run is over
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return f"{pid} of {work['ticket']}"
    return None


@kind("lose-host", "consumers", ends_runs=True)
async def _(scene: Scene) -> str | None:
    """A consumer, its guards and their work are gone in one moment: nobody is left to say that they are."""
    async with scene.victim("consumer") as post:
        if post is None or post.daemon is None:
            return None
        daemon = post.daemon
        daemon.send(signal.SIGSTOP)  # so that it starts nothing more
        await daemon.stopped()
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in scene.arena.descendants(daemon.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        daemon.send(signal.SIGKILL)
        await daemon.ended()
        await asyncio.sleep(scene.arena.scaled(scene.chance.uniform(2, 60)))
        await scene.arena.man(post)
        return post.name


@kind(disk.FULL_DISK, "consumers", ends_runs=True)
async def _(scene: Scene) -> str | None:
    """The disk of one consumer's machine is full: it gives back what it has, and takes nothing until there is room."""
    post = next(post for post in scene.arena.of_role("consumer") if post.disk is not None)
    if not post.free or post.daemon is None or post.disk is None:
        return None
    post.busy = True
    daemon, before = post.daemon, len(post.daemon.lines(IN_TROUBLE))
    filler = await asyncio.to_thread(disk.fill, post.disk)
    try:
        for _ in range(SLOTS):
            scene.people.open_one()
        noticed = await scene.seen(lambda: len(daemon.lines(IN_TROUBLE)) > before)
        await asyncio.sleep(scene.arena.scaled(60))
    finally:
        filler.unlink()
        post.busy = False
    return post.name if noticed else None


@kind("clock-jump", "clocks", ends_runs=True)
async def _(scene: Scene) -> str | None:
    """The wall clocks of some daemons jump by up to two hours, forward or back, and are set right later."""
    posts = scene.chance.sample(list(scene.arena.posts.values()), k=4)
    seconds = scene.chance.choice([-1, 1]) * scene.chance.uniform(300, 7200)
    try:
        for post in posts:
            WallClock.set(post.clock, seconds)
        await asyncio.sleep(scene.arena.scaled(scene.chance.uniform(40, 100)))
    finally:
        for post in posts:
            WallClock.set(post.clock, 0.0)
    return f"{seconds:+.0f} s for {', '.join(post.name for post in posts)}"


def _half(scene: Scene) -> list[Post]:
    """Of every role, and never all of one."""
    half = [post for post in scene.arena.posts.values() if post.name.endswith("-1")]
    return [*half, *(post for post in scene.arena.of_role("consumer") if post.name.endswith("-2"))]


@kind("other-triggers", "configuration")
async def _(scene: Scene) -> str | None:
    """Half of all processes have another trigger for a while, as in a rolling update: nobody's run is stopped by it."""
    half = _half(scene)
    await scene.long_work()
    try:
        struck = await scene.arena.configure(half, "somebody-elses")
        for _ in range(2):
            scene.people.open_one()
        await asyncio.sleep(scene.arena.scaled(scene.chance.uniform(60, 120)))
    finally:
        await scene.arena.configure(half, TRIGGER)
    return ", ".join(post.name for post in half) if struck else None


@kind(OTHER_RELEASE, "configuration", ends_runs=True)
async def _(scene: Scene) -> str | None:
    """Half of all processes are of an older release for a while: neither stops or buries what the other one runs."""
    await scene.long_work()
    older = [post for post in _half(scene) if await _updated(scene, post, older=True)]
    for _ in range(2 * SLOTS):
        scene.people.open_one()
    await asyncio.sleep(scene.arena.scaled(scene.chance.uniform(60, 120)))
    for post in _half(scene):
        await _updated(scene, post, older=False)
    return ", ".join(post.name for post in older) or None


async def _updated(scene: Scene, post: Post, *, older: bool) -> bool:
    """Whether a daemon of that release works at the post now; one that another fault has started there counts too."""
    post.older = older
    if not await scene.seen(lambda: post.free):
        return False
    daemon = await scene.arena.relieve(post)
    return await scene.seen(lambda: daemon.is_over or bool(daemon.lines("up"))) and not daemon.is_over


# --- Redis, and the way to it ---------------------------------------------------------------------------------------


@kind("redis-restart", "redis")
async def _(scene: Scene) -> str | None:
    await scene.arena.restart_redis()
    return "kill -9"


@kind("redis-flush", "redis")
async def _(scene: Scene) -> str | None:
    lease = scene.arena.config.lease
    async with scene.truce.flushing():
        try:
            await asyncio.to_thread(scene.arena.server.command, "FLUSHALL")
        except redis.RedisError:
            return None
        # One renewal each, and the settling period.
        await asyncio.sleep(2 * lease.renew_every + lease.margin)
    return "FLUSHALL"


@kind("redis-cut", "redis")
async def _(scene: Scene) -> str | None:
    cut = 0
    for _ in range(3):
        cut += sum(post.line.cut() for post in scene.arena.posts.values())
        await asyncio.sleep(scene.arena.scaled(scene.chance.uniform(2, 10)))
    return f"{cut} connections" if cut else None


@kind("redis-slow", "redis")
async def _(scene: Scene) -> str | None:
    lines = [post.line for post in scene.arena.posts.values()]
    try:
        for line in lines:
            line.slow(scene.arena.scaled(1.5))
        await asyncio.sleep(scene.arena.scaled(60))
    finally:
        for line in lines:
            line.heal()
    return "all"


@kind("redis-partition", "redis", ends_runs=True)
async def _(scene: Scene) -> str | None:
    """A consumer cannot reach Redis, but its trackers and its work; what it sent meanwhile arrives in the end."""
    async with scene.truce.muting(), scene.victim("consumer") as post:
        if post is None:
            return None
        try:
            post.line.stall()
            await asyncio.sleep(scene.ttl * scene.chance.uniform(1.1, 1.4))
        finally:
            post.line.heal()
        return post.name


# --- Redis behind sentinels -----------------------------------------------------------------------------------------


@kind("failover-planned", "redis", among=FAILOVERS)
async def _(scene: Scene) -> str | None:
    """The old primary lives on, and takes writes until it hears of it."""
    deployment, _ = scene.arena.deployment, await scene.long_work()
    if deployment is None:
        return None
    scene.people.open_one()  # something that is taken, or ends, just then
    async with scene.truce.flushing():
        new = await asyncio.to_thread(deployment.fail_over)
        await asyncio.sleep(2 * scene.arena.config.lease.renew_every)
    return f"to {new.port}"


@kind("failover-kill", "redis", among=FAILOVERS)
async def _(scene: Scene) -> str | None:
    """Kill -9 the primary; it comes back as a replica."""
    deployment, _ = scene.arena.deployment, await scene.long_work()
    if deployment is None:
        return None
    scene.people.open_one()
    async with scene.truce.flushing():
        old = deployment.primary
        new = await asyncio.to_thread(deployment.kill_primary)
        await asyncio.to_thread(old.start)
        await scene.arena.witness.watch(old.socket)
        await asyncio.sleep(2 * scene.arena.config.lease.renew_every)
    return f"to {new.port}"


# --- trackers, and the way to them ----------------------------------------------------------------------------------


@kind("tracker-cut", "network")
async def _(scene: Scene) -> str | None:
    tracker = scene.tracker()
    await scene.seen(lambda: tracker.proxy.connections > 0)
    try:
        tracker.proxy.refuse(True)
        cut = tracker.proxy.cut()
        await asyncio.sleep(scene.arena.scaled(scene.chance.uniform(10, 60)))
    finally:
        tracker.proxy.refuse(False)
    return f"{tracker.name}: {cut} connections" if cut else None


@kind("tracker-slow", "network")
async def _(scene: Scene) -> str | None:
    tracker = scene.tracker()
    try:
        tracker.proxy.slow(scene.arena.scaled(2))
        await asyncio.sleep(scene.arena.scaled(60))
    finally:
        tracker.proxy.heal()
    return tracker.name


@kind("tracker-stall", "network")
async def _(scene: Scene) -> str | None:
    """Requests get stuck on their way, for longer than anybody waits; they arrive when others did the same again."""
    tracker = scene.tracker()
    await scene.seen(lambda: tracker.proxy.connections > 0)
    try:
        stalled = tracker.proxy.stall_present()
        await asyncio.sleep(scene.arena.scaled(scene.chance.uniform(40, 120)))
    finally:
        tracker.proxy.heal()
    return f"{tracker.name}: {stalled} connections" if stalled else None


async def _strike(scene: Scene, tracker: Tracker, fault: Fault) -> str | None:
    """Arm a fault until it is spent or has gone on for long enough; it happened if it struck.

    A ticket is opened meanwhile, so that there is something to strike.
    """
    armed = tracker.simulator.inject(fault)
    try:
        scene.people.open_one(tracker)
        if await scene.seen(lambda: armed.struck > 0):
            await scene.seen(lambda: armed.spent, within=scene.arena.scaled(60))
        if fault.kind == "slow":
            await asyncio.sleep(fault.seconds or 0.0)
    finally:
        tracker.simulator.remove_fault(armed.name)
    return f"{tracker.name}: {armed.struck} times" if armed.struck else None


@kind("tracker-5xx", "tracker")
async def _(scene: Scene) -> str | None:
    status = scene.chance.choice([500, 502, 503])
    fault = Fault("status", status=status, times=None, probability=0.7, seed=scene.chance.getrandbits(32))
    return await _strike(scene, scene.tracker(), fault)


@kind("tracker-429", "tracker")
async def _(scene: Scene) -> str | None:
    tracker = scene.tracker()
    return await _strike(scene, tracker, Fault(LIMITS[tracker.name], status=429, retry_after=1, times=3))


@kind("tracker-lost-answer", "tracker")
async def _(scene: Scene) -> str | None:
    """Applied, and the connection breaks before the answer."""
    return await _strike(scene, scene.tracker(), Fault("applied_then_lost", method=WRITES, times=4))


@kind("tracker-late-answer", "tracker")
async def _(scene: Scene) -> str | None:
    """Applied, and the answer comes after everybody has stopped waiting for it."""
    fault = Fault("slow", method=WRITES, after=True, seconds=scene.arena.scaled(45), times=4)
    return await _strike(scene, scene.tracker(), fault)


@kind("webhook-lost", "tracker")
async def _(scene: Scene) -> str | None:
    return await _strike(scene, scene.tracker(), Fault("webhook_lost", times=6))


@kind("webhook-doubled", "tracker")
async def _(scene: Scene) -> str | None:
    return await _strike(scene, scene.tracker(), Fault("webhook_repeated", times=6, copies=2))


@kind("webhook-late", "tracker")
async def _(scene: Scene) -> str | None:
    return await _strike(scene, scene.tracker(), Fault("webhook_late", times=6, seconds=scene.arena.scaled(60)))


@kind("label-removed", "tracker")
async def _(scene: Scene) -> str | None:
    """An operator takes the lifecycle label off a ticket that is queued or running."""
    scene.people.open_one()
    await scene.seen(lambda: bool(scene.people.in_hand()))
    return scene.people.remove_a_status(scene.chance)
