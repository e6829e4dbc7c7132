"""Jira's limits: so many writes to one issue within 2 and within 30 seconds; others as faults."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta

from starlette.responses import Response

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.jira.answers import problem

PER_ISSUE = "jira-per-issue-on-write"
BURST = "jira-burst-based"
QUOTA = "jira-quota-tenant-based"
_WINDOWS = ((2.0, 20), (30.0, 100))


class Limits:
    """Counts writes per issue."""

    def __init__(self, clock: Clock, *, enforced: bool) -> None:
        self.clock, self.enforced = clock, enforced
        self._writes: dict[int, deque[float]] = {}

    def clear(self) -> None:
        """Forget everything."""
        self._writes.clear()

    def check(self, issue_id: int) -> Response | None:
        """Count one write; the refusal if it is one too many."""
        if not self.enforced:
            return None
        now = self.clock.now()
        writes = self._writes.setdefault(issue_id, deque())
        while writes and writes[0] <= now - 30:
            writes.popleft()
        for seconds, most in _WINDOWS:
            recent = [at for at in writes if at > now - seconds]
            if len(recent) >= most:
                return self.refusal(PER_ISSUE, max(1, round(recent[0] + seconds - now)))
        writes.append(now)
        return None

    def refusal(self, reason: str, retry_after: int | None) -> Response:
        """A 429, with the reason in its header."""
        headers = {"RateLimit-Reason": reason, "X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "0"}
        if retry_after is not None:
            reset = datetime.fromtimestamp(self.clock.now(), UTC) + timedelta(seconds=retry_after)
            headers |= {"Retry-After": str(retry_after), "X-RateLimit-Reset": reset.strftime("%Y-%m-%dT%H:%MZ")}
        return problem(429, "Rate limit exceeded.", headers=headers)
