"""What a fault needs to know and to ask for: who is there to be hurt, and when it must wait for another fault."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from tests.chaos.arena import Arena, Post
from tests.chaos.people import People
from tests.chaos.trackers import Tracker

STRIKES_WITHIN: Final = 20.0
"""Seconds that a fault waits for what it is to hurt. Far more than it takes; a busy machine is slow."""
_BEGINS_WITHIN: Final = 60.0
"""Seconds that long work may take to begin: it waits its turn in the queue."""
_LOOK_EVERY: Final = 0.03
_LOOK_FOR_WORK_EVERY: Final = 0.1


@dataclass(slots=True)
class Truce:
    """Keeps two things apart, on all tracks: consumers that cannot renew their leases, and an empty Redis."""

    renewal: float
    """How long a consumer takes until it has heard what it lost."""
    _muted: int = 0
    _flushing: bool = False
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @asynccontextmanager
    async def muting(self) -> AsyncIterator[None]:
        """While a consumer cannot renew its leases, and until it has heard what it lost meanwhile."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._flushing)
            self._muted += 1
        try:
            yield
            await asyncio.sleep(self.renewal)
        finally:
            self._muted -= 1
            await self._tell()

    @asynccontextmanager
    async def flushing(self) -> AsyncIterator[None]:
        """While leases are missing that their owners will put back."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._muted)
            self._flushing = True
        try:
            yield
        finally:
            self._flushing = False
            await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


@dataclass(slots=True)
class Scene:
    """What the faults of one track go by. What they need to strike they ask people for, so none rests on luck."""

    arena: Arena
    people: People
    truce: Truce
    chance: random.Random

    @property
    def ttl(self) -> float:
        """Longer than any lease, lock or leadership lasts."""
        lease = self.arena.config.lease
        return max(lease.ttl, lease.claim_lock, lease.leader)

    def tracker(self) -> Tracker:
        """Some tracker."""
        return self.chance.choice(list(self.arena.trackers.values()))

    async def seen(self, look: Callable[[], bool], within: float = STRIKES_WITHIN) -> bool:
        """Whether it came true in time."""
        give_up = time.monotonic() + within
        while not look():
            if time.monotonic() > give_up:
                return False
            await asyncio.sleep(_LOOK_EVERY)
        return True

    @asynccontextmanager
    async def victim(self, role: str, *, leading: bool = False) -> AsyncIterator[Post | None]:
        """A daemon of the role that no other fault is at: mostly the leader, and of consumers one with long work."""
        if role == "consumer":
            chosen, _ = await self.long_work()
        else:
            chosen = await self._of_role(role, leading=leading)
        if chosen is None:
            yield None
            return
        chosen.busy = True
        try:
            yield chosen
        finally:
            chosen.busy = False

    async def long_work(self) -> tuple[Post, dict[str, Any]] | tuple[None, None]:
        """A consumer that no other fault is at, and long work that it does; where there is none, a ticket asks for it.

        What goes on after its consumer is gone is found out only if it lasts until the next run begins.
        """
        give_up, asked = time.monotonic() + _BEGINS_WITHIN, ""
        while time.monotonic() < give_up and not self.people.resting:
            running = self.people.long_work()
            free = [(post, work) for work in running if (post := self._at(work)) is not None]
            if free:
                return self.chance.choice(free)
            if not asked or self.people.was_cut_off(asked):
                asked = self.people.open_one(long=True)
            await asyncio.sleep(_LOOK_FOR_WORK_EVERY)
        return None, None

    def _at(self, work: dict[str, Any]) -> Post | None:
        """Whose work it is, if no fault is at its daemon."""
        above = self.arena.ancestors(int(work["life"]))
        return next((post for post in self.arena.of_role("consumer") if post.free and post.pid in above), None)

    async def _of_role(self, role: str, *, leading: bool) -> Post | None:
        leader = await self.arena.leader(role) if leading and self.chance.random() < 0.8 else None
        if leader is not None and leader.free:
            return leader
        free = [post for post in self.arena.of_role(role) if post.free]
        return self.chance.choice(free) if free else None
