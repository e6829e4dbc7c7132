"""Two governors, one rule: what a process does alone and what replicas do through Redis is the same, call by call."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentsmith.domain.pacing import FORGIVEN_AFTER
from agentsmith.store.keys import Keys
from agentsmith.store.quota import Quotas
from agentsmith.trackers.http import Governor, LocalGovernor
from tests.simulation.client import SimulatedRedis
from tests.simulation.server import SimulatedServer

EPOCH = 1_700_000_000
BUCKETS = st.sampled_from(["core", "core", "search"])
CALLS = st.one_of(
    st.tuples(st.just("pass"), st.sampled_from([1, 61, 130, FORGIVEN_AFTER, 2 * FORGIVEN_AFTER])),
    st.tuples(st.just("reserve"), BUCKETS, st.sampled_from([0.0, 2.5]), st.sampled_from([0.0, 60.0])),
    st.tuples(st.just("report"), BUCKETS, st.integers(0, 1), st.sampled_from([-9, 60, 61, 900, 3600])),
    st.tuples(st.just("pause"), st.sampled_from(["core", "*"]), st.sampled_from([None, None, 5, 900])),
)


class Both:
    """A governor of each kind, on one clock."""

    def __init__(self) -> None:
        self.now = EPOCH
        server = SimulatedServer(lambda: self.now * 1_000_000)

        class Direct:
            async def ask(self, words: tuple[bytes, ...]) -> Any:
                return server.execute(*words)

        redis: Any = SimulatedRedis(Direct())
        self.governors: tuple[Governor, Governor] = (LocalGovernor(lambda: self.now), Quotas(redis, Keys("ns")))

    async def do(self, call: tuple[Any, ...]) -> list[tuple[float, float, str]]:
        """What each of them answers."""
        match call:
            case ("pass", seconds):
                self.now += seconds
                return []
            case ("reserve", bucket, spacing, patience):
                holds = [await g.reserve("bot", bucket, spacing=spacing, patience=patience) for g in self.governors]
                return [(seconds, until, why) for seconds, until, why in holds]
            case ("report", bucket, remaining, reset):
                for governor in self.governors:
                    await governor.report("bot", bucket, limit=60, remaining=remaining, reset=self.now + reset)
            case ("pause", bucket, seconds):
                for governor in self.governors:
                    await governor.pause("bot", bucket, seconds=seconds, reason=f"{bucket} for {seconds}")
        return []


@settings(max_examples=300)
@given(st.lists(CALLS, max_size=30))
def test_alone_or_through_redis_everybody_waits_alike(calls: list[tuple[Any, ...]]) -> None:
    async def play() -> None:
        both = Both()
        for call in calls:
            answers = await both.do(call)
            assert len(set(answers)) <= 1, (call, answers)
            held = await both.do(("reserve", "core", 0.0, 0.0))
            assert len(set(held)) == 1, (call, held)

    asyncio.run(play())
