"""GitLab's rate limit per user and minute, on the simulated clock; refusals are plain text, as GitLab's are."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.gitlab.answers import problem

WINDOW = 60
PLAIN = "Retry later\n"


@dataclass(slots=True)
class Bucket:
    """One minute of one user."""

    reset: float
    used: int = 0


class Limits:
    """Who has spent what. `limit` None switches it off, as on self-managed servers by default."""

    def __init__(self, clock: Clock, limit: int | None) -> None:
        self.clock, self.limit = clock, limit
        self._buckets: dict[str, Bucket] = {}

    def clear(self) -> None:
        """Everybody begins afresh."""
        self._buckets.clear()

    def spend(self, who: str) -> Response | None:
        """Count one request; a refusal once the minute's allowance is used up."""
        if self.limit is None:
            return None
        bucket = self._bucket(who)
        bucket.used += 1
        if bucket.used <= self.limit:
            return None
        return self.refusal(int(bucket.reset - self.clock.now()) + 1)

    def headers(self, who: str) -> dict[str, str]:
        """What every answer carries."""
        if self.limit is None:
            return {}
        bucket = self._bucket(who)
        return {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Name": "throttle_authenticated_api",
            "RateLimit-Observed": str(bucket.used),
            "RateLimit-Remaining": str(max(0, self.limit - bucket.used)),
            "RateLimit-Reset": str(int(bucket.reset)),
        }

    @staticmethod
    def refusal(retry_after: int | None) -> Response:
        """The answer beyond the limit: no JSON."""
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        return Response(PLAIN, 429, headers, media_type="text/plain")

    @staticmethod
    def endpoint_refusal() -> Response:
        """The answer beyond the limit of one endpoint, e.g. comments: JSON, and no time."""
        return problem(429, {"error": "This endpoint has been requested too many times. Try again later."})

    def _bucket(self, who: str) -> Bucket:
        now = self.clock.now()
        bucket = self._buckets.get(who)
        if bucket is None or now >= bucket.reset:
            bucket = self._buckets[who] = Bucket(float((int(now) // WINDOW + 1) * WINDOW))
        return bucket
