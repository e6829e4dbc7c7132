"""GitHub's rate limits on the simulated clock: an hourly quota, and secondary limits if switched on."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.github.answers import problem

WINDOW = 3600.0
ANONYMOUS = "anonymous"
ANONYMOUS_LIMIT = 60
SECONDARY_MESSAGE = (
    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again. "
    "If you reach out to GitHub Support for help, please include the request ID."
)


@dataclass(slots=True)
class Bucket:
    """One hour of one resource."""

    limit: int
    used: int = 0
    reset: float = 0.0

    @property
    def remaining(self) -> int:
        """What is left."""
        return max(0, self.limit - self.used)


@dataclass(slots=True)
class _Recent:
    points: deque[tuple[float, int]] = field(default_factory=deque)
    contents: deque[float] = field(default_factory=deque)


class Limits:
    """Who has spent what. `limit` None switches everything off, as on Enterprise Server by default."""

    def __init__(self, clock: Clock, limit: int | None, *, secondary: bool = False) -> None:
        self.clock, self.limit, self.secondary = clock, limit, secondary
        self._buckets: dict[tuple[str, str], Bucket] = {}
        self._recent: dict[str, _Recent] = {}

    def clear(self) -> None:
        """Everybody begins afresh."""
        self._buckets.clear()
        self._recent.clear()

    def bucket(self, who: str, resource: str) -> Bucket:
        """The current window; a new one opens when the old has passed."""
        now = self.clock.now()
        bucket = self._buckets.get((who, resource))
        if bucket is None or now >= bucket.reset:
            limit = ANONYMOUS_LIMIT if who == ANONYMOUS else self.limit or 0
            bucket = Bucket(limit, reset=float(int(now + WINDOW)))
            self._buckets[who, resource] = bucket
        return bucket

    def spend(self, who: str, resource: str) -> bool:
        """Count one request; answers whether there is a quota that it counted against."""
        if self.limit is None:
            return False
        self.bucket(who, resource).used += 1
        return True

    def exhaust(self, who: str, resource: str, reset_in: float | None = None) -> None:
        """Use the quota up; it comes back at the reset."""
        bucket = self.bucket(who, resource)
        bucket.used = bucket.limit
        if reset_in is not None:
            bucket.reset = float(int(self.clock.now() + reset_in))

    def headers(self, who: str, resource: str) -> dict[str, str]:
        """What every answer carries."""
        if self.limit is None:
            return {}
        bucket = self.bucket(who, resource)
        return {
            "X-RateLimit-Limit": str(bucket.limit),
            "X-RateLimit-Remaining": str(bucket.remaining),
            "X-RateLimit-Reset": str(int(bucket.reset)),
            "X-RateLimit-Used": str(min(bucket.used, bucket.limit)),
            "X-RateLimit-Resource": resource,
        }

    def overview(self, who: str) -> dict[str, Any]:
        """What `GET /rate_limit` answers."""

        def shown(resource: str, limit: int | None = None) -> dict[str, int]:
            bucket = self.bucket(who, resource)
            if limit is not None and not bucket.used:
                bucket.limit = limit
            left, reset = bucket.remaining, int(bucket.reset)
            return {"limit": bucket.limit, "used": bucket.used, "remaining": left, "reset": reset}

        core = shown("core")
        resources = {"core": core, "search": shown("search", 30), "graphql": shown("graphql")}
        return {"resources": resources, "rate": core}

    def check(self, who: str, resource: str, method: str, *, content: bool) -> Response | None:
        """Refuse a request that is over a limit; else count it for the secondary ones."""
        if self.limit is None:
            return None
        if self.bucket(who, resource).remaining == 0:
            return self.primary_refusal(who, resource)
        return self._check_secondary(who, method, content=content) if self.secondary else None

    @staticmethod
    def primary_refusal(who: str, resource: str, status: int = 0) -> Response:
        """The answer beyond the hourly quota; the headers tell when it ends. GraphQL has its own manner."""
        message = f"API rate limit exceeded for {who}."
        if resource == "graphql":
            return JSONResponse({"errors": [{"type": "RATE_LIMITED", "message": message}]})
        return problem(status or 403, message)

    @staticmethod
    def secondary_refusal(status: int = 403, retry_after: int | None = None) -> Response:
        """The answer to a burst; `retry-after` is not always there."""
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        return problem(status or 403, SECONDARY_MESSAGE, headers=headers)

    def _check_secondary(self, who: str, method: str, *, content: bool) -> Response | None:
        now = self.clock.now()
        recent = self._recent.setdefault(who, _Recent())
        while recent.points and recent.points[0][0] <= now - 60:
            recent.points.popleft()
        while recent.contents and recent.contents[0] <= now - 3600:
            recent.contents.popleft()
        cost = 1 if method in ("GET", "HEAD", "OPTIONS") else 5
        last_minute = sum(1 for at in recent.contents if at > now - 60)
        burst = sum(points for _, points in recent.points) + cost > 900
        if burst or (content and (last_minute >= 80 or len(recent.contents) >= 500)):
            return self.secondary_refusal(403, 60)
        recent.points.append((now, cost))
        if content:
            recent.contents.append(now)
        return None
