"""The model can fail: without the fence, or without the lease, it finds a story that breaks a promise."""

from __future__ import annotations

from types import ModuleType
from typing import Final

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from agentsmith.store import intents, leases, queue, runs
from agentsmith.store.scripting import Script
from tests.model.ablate import without
from tests.model.actors import load_scripts
from tests.model.machine import Lifecycle
from tests.model.world import Bench
from tests.support.redis_server import RedisServer

Ablation = tuple[ModuleType, str, tuple[str, str]]
"""Where the script is, its name, what is taken out and what comes in its place."""

FENCE: Final[tuple[Ablation, ...]] = (
    (leases, "_TAKE_FENCED", ("if newest(KEYS[2]) > tonumber(ARGV[3]) then return 'fenced' end", "")),
    (runs, "_SETTLE", ("newest(fence) > tonumber(mine) or ", "")),
    (runs, "_RENEW", ("newest_fence > tonumber(mine) or ", "")),
    (intents, "_PUBLISHED", ("if newest(fence) > tonumber(mine) then return 'fenced' end", "")),
)
LEASE: Final[tuple[Ablation, ...]] = (
    (intents, "_BEGIN_CLAIM", ("if redis.call('EXISTS', heartbeat) == 1 then return {'leased', 0} end", "")),
    (queue, "_PUSH", ("if redis.call('EXISTS', heartbeat) == 1 then return 'leased' end", "")),
)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ablations", [FENCE, LEASE], ids=["the fence", "the lease"])
def test_a_product_without_it_breaks_a_promise(
    bench: Bench, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, ablations: tuple[Ablation, ...]
) -> None:
    for module, name, cut in ablations:
        script: Script = getattr(module, name)
        monkeypatch.setattr(module, name, without(script, cut))
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
