"""API quota, shared by all replicas of a credential: who must wait, who spent what, and what is left.

Speaks in plain data, so that trackers, which know nothing of Redis, can be handed it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from redis.exceptions import RedisError

from agentsmith.domain.errors import StoreUnavailable
from agentsmith.store.keys import Keys
from agentsmith.store.redis_commands import Commands
from agentsmith.store.scripts import quota as scripts


@contextlib.contextmanager
def _unavailable() -> Iterator[None]:
    try:
        yield
    except RedisError as error:
        raise StoreUnavailable(f"Redis is away: {error}") from None


@dataclass(frozen=True, slots=True)
class Allowance:
    """One allowance of a credential, as the platform last reported it."""

    bucket: str
    limit: int
    remaining: int
    reset: float


@dataclass(frozen=True, slots=True)
class Account:
    """What one credential spent, by purpose, since a moment, and what it has left."""

    credential: str
    since: float
    counted: dict[str, int]
    free: dict[str, int]
    allowances: tuple[Allowance, ...]
    paused_until: float | None
    paused_because: str


class Quotas:
    """Governor and ledger for every replica on this Redis; what fails is StoreUnavailable and nothing else."""

    def __init__(self, redis: Commands, keys: Keys) -> None:
        self._redis, self._keys = redis, keys

    async def reserve(
        self, credential: str, bucket: str, *, spacing: float, patience: float
    ) -> tuple[float, float, str]:
        """Seconds to wait, until when (since the epoch), and why; takes the slot if the wait is within `patience`."""
        books = self._keys.quota(credential)
        # Redis reads no infinity; a year is patience enough.
        with _unavailable():
            wait = await scripts.Reserve(
                books=books, bucket=bucket, spacing=f"{spacing:g}", patience=min(patience, 3e7)
            ).on(self._redis)
        return wait.seconds, wait.until, wait.reason

    async def report(self, credential: str, bucket: str, *, limit: int, remaining: int, reset: float) -> None:
        """Remember what the platform said is left."""
        with _unavailable():
            await scripts.Report(
                books=self._keys.quota(credential), bucket=bucket, limit=limit, left=remaining, resets=f"{reset:.3f}"
            ).on(self._redis)

    async def pause(self, credential: str, bucket: str, *, seconds: float | None, reason: str) -> None:
        """Hold the bucket (`*`: all) back; None: no time was named, so a minute, doubling while it goes on."""
        wait = -1.0 if seconds is None else max(0.0, seconds)
        with _unavailable():
            await scripts.Pause(books=self._keys.quota(credential), bucket=bucket, wait=wait, reason=reason).on(
                self._redis
            )

    async def record(self, credential: str, purpose: str, *, counted: bool) -> None:
        """One request was sent; `counted` when the platform takes it off the quota."""
        word = "counted" if counted else "free"
        with _unavailable():
            await scripts.Record(
                spent=self._keys.spent(credential),
                credentials=self._keys.credentials,
                credential=credential,
                purpose=purpose,
                counted=word,
            ).on(self._redis)

    async def accounts(self) -> list[Account]:
        """Every credential that was used within a day."""
        names = await self._redis.zrange(self._keys.credentials, 0, -1)
        return [await self._account(name) for name in sorted(names)]

    async def _account(self, credential: str) -> Account:
        spent = await self._redis.hgetall(self._keys.spent(credential))
        books = await self._redis.hgetall(self._keys.quota(credential))
        by_word: dict[str, dict[str, int]] = {"counted": {}, "free": {}}
        for name, value in spent.items():
            word, _, purpose = name.partition(":")
            if word in by_word:
                by_word[word][purpose] = int(value)
        buckets = sorted(name.partition(":")[2] for name in books if name.startswith("limit:"))
        pauses = {name.partition(":")[2]: float(at) for name, at in books.items() if name.startswith("pause-until:")}
        longest = max(pauses, key=lambda bucket: pauses[bucket], default=None)
        return Account(
            credential=credential,
            since=float(spent.get("since", 0)),
            counted=by_word["counted"],
            free=by_word["free"],
            allowances=tuple(
                Allowance(b, int(books[f"limit:{b}"]), int(books[f"remaining:{b}"]), float(books[f"reset:{b}"]))
                for b in buckets
            ),
            paused_until=pauses[longest] if longest is not None else None,
            paused_because=books.get(f"pause-reason:{longest}", ""),
        )
