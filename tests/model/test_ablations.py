"""The model can fail: without the fence, or without the lease, it finds a story that breaks a promise."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from agentsmith.store.scripts import intents, leases, queue, runs
from tests.model.ablate import cut
from tests.model.actors import load_scripts
from tests.model.machine import Lifecycle
from tests.model.world import Bench
from tests.support.redis_server import RedisServer
from tests.support.scripts import ScriptType

Ablation = tuple[ScriptType, str, str]
"""The script, what is taken out and what comes in its place."""

FENCE: Final[tuple[Ablation, ...]] = (
    (leases.TakeFenced, "if newest(fence) > mine then return 'fenced' end", ""),
    (runs.Settle, "newest(fence) > mine or ", ""),
    (runs.Renew, "newest_fence > mine or ", ""),
    (intents.Published, "if newest(fence) > mine then return 'fenced' end", ""),
)
LEASE: Final[tuple[Ablation, ...]] = (
    (intents.BeginClaim, "if redis.call('EXISTS', heartbeat) == 1 then return {'leased', 0} end", ""),
    (queue.Push, "if redis.call('EXISTS', heartbeat) == 1 then return 'leased' end", ""),
)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ablations", [FENCE, LEASE], ids=["the fence", "the lease"])
def test_a_product_without_it_breaks_a_promise(
    bench: Bench, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, ablations: tuple[Ablation, ...]
) -> None:
    for script, old, new in ablations:
        cut(monkeypatch, script, old, new)
    with redis_server.admin() as admin:
        load_scripts(admin)
    with pytest.raises(AssertionError, match=r"P[1-6]"):
        run_state_machine_as_test(
            lambda: Lifecycle(bench),  # type: ignore[arg-type]  # any factory serves
            settings=settings(
                max_examples=400, stateful_step_count=30, derandomize=True, database=None, deadline=None,
                phases=(Phase.generate,),  # one is enough; nobody reads the shortest
            ),
        )  # fmt: skip
