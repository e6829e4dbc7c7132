"""The store: one Redis connection pool and everything that is kept there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentsmith.domain.ticket import TicketId
from agentsmith.store.capacity import Occupancy
from agentsmith.store.connection import Outage, check_requirements, connect
from agentsmith.store.intents import Intents
from agentsmith.store.keys import LABEL_LOCK_MS, PROBE_MS, STICKY_MS, Keys
from agentsmith.store.leases import LeaderLease, Lease
from agentsmith.store.looks import LookLedger
from agentsmith.store.pins import Pins
from agentsmith.store.presence import Presence
from agentsmith.store.questions import Questions
from agentsmith.store.queue import Queue
from agentsmith.store.quota import Quotas
from agentsmith.store.redis_commands import Commands
from agentsmith.store.refusals import Refusals
from agentsmith.store.runs import Runs
from agentsmith.store.scripts import server as scripts
from agentsmith.store.seen_commands import SeenCommands
from agentsmith.store.signals import Signals


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long things are held, in seconds; config.lease has the defaults."""

    ttl: float
    renew_every: float
    margin: float
    lock: float
    leader: float

    @property
    def settle(self) -> float:
        """Long enough for every live process to put back what it holds."""
        return self.renew_every + self.margin


class Store:
    """Everything in Redis. Holds no state of its own but the connection pool."""

    def __init__(self, url: str, *, times: LeaseTimes, namespace: str = "agentsmith") -> None:
        self.redis: Commands = connect(url)
        self.keys = Keys(namespace)
        self.times = times
        self.outage = Outage()
        settle_ms, renew_ms = round(times.settle * 1000), round(times.renew_every * 1000)
        self.queue = Queue(self.redis, self.keys, settle_ms=settle_ms)
        self.signals = Signals(self.redis, self.keys, settle_ms=settle_ms)
        lapse_ms = round((times.ttl + times.renew_every) * 1000)
        self.runs = Runs(self.redis, self.keys, settle_ms=settle_ms, renew_ms=renew_ms, lapse_ms=lapse_ms)
        self.intents = Intents(self.redis, self.keys, settle_ms=settle_ms)
        self.capacity = Occupancy(self.redis, self.keys)
        self.seen_commands = SeenCommands(self.redis, self.keys)
        self.pins = Pins(self.redis, self.keys)
        self.questions = Questions(self.redis, self.keys)
        self.looks = LookLedger(self.redis, self.keys)
        self.refusals = Refusals(self.redis, self.keys)
        self.quotas = Quotas(self.redis, self.keys)
        self.presence = Presence(self.redis, self.keys, settle_ms=settle_ms)

    def ticket_lock(self, platform: str, ticket: TicketId, token: str) -> Lease:
        """The mutex around every read and write of a ticket's label."""
        key, ttl = self.keys.claim_lock(platform, ticket), self.times.lock
        return Lease(self.redis, key, token, ttl=ttl, margin=ttl / 6)

    def label_lock(self, ticket: TicketId, token: str) -> Lease:
        """The mutex around one label write, inside the ticket's lock; for platforms that need it."""
        ttl = LABEL_LOCK_MS / 1000
        return Lease(self.redis, self.keys.jira_label_lock(ticket), token, ttl=ttl, margin=ttl / 6)

    def leadership(self, role: str, holder: str) -> LeaderLease:
        """The lease that makes the process `holder` the leader of `role`."""
        ttl, key = self.times.leader, self.keys.leader(role)
        return LeaderLease(self.redis, key, holder, ttl=ttl, margin=ttl / 6, fence_key=self.keys.leader_fence(role))

    async def remember_sticky(self, ticket: TicketId, ref: str) -> None:
        """Keep the platform's name for our comment, so that it need not be looked up."""
        await self.redis.set(self.keys.sticky(ticket), ref, px=STICKY_MS)

    async def remembered_sticky(self, ticket: TicketId) -> str | None:
        """What `remember_sticky` kept."""
        return await self.redis.get(self.keys.sticky(ticket))

    async def remember_branch(self, ticket: TicketId, branch: str) -> None:
        """Keep the branch that the ticket's work is on, for as long as our comment's name."""
        await self.redis.set(self.keys.branch(ticket), branch, px=STICKY_MS)

    async def remembered_branch(self, ticket: TicketId) -> str:
        """What `remember_branch` kept; empty where nothing is known."""
        return await self.redis.get(self.keys.branch(ticket)) or ""

    async def depths(self) -> dict[str, int]:
        """How many there are of everything that waits or is under way."""
        k = self.keys
        kinds = {
            "queued": ("LLEN", k.queue),
            "in hand": ("HLEN", k.queue_index),
            "running": ("HLEN", k.running),
            "waiting": ("ZCARD", k.due),
            "signals": ("LLEN", k.inbox),
            "signals for later": ("ZCARD", k.inbox_later),
            "held back": ("ZCARD", k.held),
            "unpublished": ("ZCARD", k.intents),
            "dead letters": ("LLEN", k.dead_letters),
        }
        counts = await scripts.Depths(
            counted=[key for _, key in kinds.values()], counted_by=[command for command, _ in kinds.values()]
        ).on(self.redis)
        return dict(zip(kinds, counts, strict=True))

    async def clock(self) -> float:
        """What time the server thinks it is, in seconds since the epoch."""
        return await scripts.Now().on(self.redis) / 1_000_000

    async def replication(self) -> tuple[int, bool]:
        """How many replicas follow the server, and whether it takes no writes without some of them."""
        info = await self.redis.info("replication")
        return int(info.get("connected_slaves", 0)), "min_slaves_good_slaves" in info

    async def keeps_a_log(self) -> bool:
        """Whether the server writes down what it acknowledged, so that a restart forgets nothing."""
        return bool(int((await self.redis.info("persistence")).get("aof_enabled", 0)))

    async def check(self) -> str:
        """The server's name and version; StoreUnavailable when it cannot serve us, StoreRefused if only for now."""
        return await check_requirements(self.redis)

    async def prove(self) -> None:
        """Have Redis carry out a write: one that answers may still refuse those (StoreRefused)."""
        await self.redis.set(self.keys.probe, "1", px=PROBE_MS)

    async def aclose(self) -> None:
        """Let go of every connection."""
        await self.redis.aclose()

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()
