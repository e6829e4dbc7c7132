"""One coordination primitive: a key, an owner's token and a time to live.

Claim lock and leadership are this; the run lease (runs.py) adds the fence. `Trust` is the owner's own judgement
of how long it may still act, and is always shorter than what Redis grants.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Literal

from agentsmith.boottime import boottime
from agentsmith.store.keys import Key
from agentsmith.store.redis_commands import Commands
from agentsmith.store.scripts import leases as scripts


@dataclass(slots=True)
class Trust:
    """How long its owner may act on a lease: TTL minus margin, from before the last renewal was sent.

    Counted on the boot-time clock, which runs while the machine sleeps. The wall clock is looked at too, but it
    can only end the trust earlier.
    """

    ttl: float
    margin: float
    _until: float = field(init=False, default=0.0)
    _wall_until: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.renewed(sent_at=boottime())

    def renewed(self, *, sent_at: float) -> None:
        """A renewal that was sent at `sent_at` (boot-time clock) succeeded."""
        self._until = sent_at + self.ttl - self.margin
        self._wall_until = time.time() - (boottime() - sent_at) + self.ttl - self.margin

    @property
    def until(self) -> float:
        """The end of the trust window on the boot-time clock."""
        return min(self._until, boottime() + (self._wall_until - time.time()))

    @property
    def holds(self) -> bool:
        """Whether the owner may still begin a write."""
        return boottime() < self._until and time.time() < self._wall_until

    def end(self) -> None:
        """Trust no more: the lease is known to be lost or was given up."""
        self._until = self._wall_until = 0.0


@dataclass(slots=True)
class Lease:
    """A held key. Renewal and release compare the token, so a late message cannot harm a newer owner."""

    redis: Commands
    key: Key
    token: str
    ttl: float
    margin: float
    trust: Trust = field(init=False)

    def __post_init__(self) -> None:
        self.trust = Trust(self.ttl, self.margin)
        self.trust.end()

    async def take(self) -> bool:
        """Take the key if it is free or already ours."""
        sent = boottime()
        if not await scripts.Take(lock=self.key, token=self.token, ttl=_ms(self.ttl)).on(self.redis):
            return False
        self.trust.renewed(sent_at=sent)
        return True

    async def take_fenced(self, fence_key: Key, fence: int) -> Literal["held", "busy", "fenced"]:
        """Take the key unless a newer fence stands."""
        sent = boottime()
        word = await scripts.TakeFenced(
            lock=self.key, fence=fence_key, token=self.token, ttl=_ms(self.ttl), mine=fence
        ).on(self.redis)
        if word == "held":
            self.trust.renewed(sent_at=sent)
        return word

    async def renew(self) -> bool:
        """Extend the lease; False, and no more trust, when somebody else holds the key."""
        sent = boottime()
        if await scripts.Renew(lock=self.key, token=self.token, ttl=_ms(self.ttl)).on(self.redis):
            self.trust.renewed(sent_at=sent)
            return True
        self.trust.end()
        return False

    async def release(self) -> None:
        """Give the key up if it is still ours."""
        self.trust.end()
        await scripts.Release(lock=self.key, token=self.token).on(self.redis)


@dataclass(slots=True)
class LeaderLease(Lease):
    """Leadership of one role. Each term has a fence above every earlier one; what a leader notes is refused below it.

    The key holds the whole term, so that a late message of an earlier term, even one of our own, cannot harm this one.
    """

    fence_key: Key = field(kw_only=True)
    fence: int = field(init=False, default=0)
    """Of the term that was last taken."""
    holder: str = field(init=False)

    def __post_init__(self) -> None:
        Lease.__post_init__(self)
        self.holder = self.token

    async def take(self) -> bool:
        """Begin a term if nobody leads; go on with ours if it still stands."""
        sent = boottime()
        value = await scripts.Lead(leader=self.key, fence=self.fence_key, holder=self.holder, ttl=_ms(self.ttl)).on(
            self.redis
        )
        if not value:
            return False
        self.token, self.fence = value, int(json.loads(value)["fence"])
        self.trust.renewed(sent_at=sent)
        return True


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
