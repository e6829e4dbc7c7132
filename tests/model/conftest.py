"""The bench that every example of a model test is played on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from structlog.typing import EventDict, WrappedLogger

from agentsmith.config import Claim, Consumer, Lease, LoopLimit, Run
from agentsmith.config.durations import Duration
from tests.model.actors import load_scripts
from tests.model.clockwork import TIMES
from tests.model.world import Bench
from tests.support.redis_server import RedisServer, Tenant
from tests.support.world import world_config


def _drop(_: WrappedLogger, __: str, ___: EventDict) -> EventDict:
    raise structlog.DropEvent


@pytest.fixture
def quiet_log() -> Iterator[None]:
    """Thousands of simulated crashes need no log lines."""
    before = structlog.get_config()
    structlog.configure(processors=[_drop])
    yield
    structlog.configure(**before)


@pytest.fixture
def bench(redis_server: RedisServer, tenant: Tenant, tmp_path: Path, quiet_log: None) -> Bench:
    """One namespace of the session's server, emptied before and after every example."""
    del quiet_log
    return make_bench(redis_server, tenant, tmp_path)


def make_bench(redis_server: RedisServer, tenant: Tenant, folder: Path) -> Bench:
    """The same outside of pytest."""
    config = world_config(
        folder / "data",
        lease=Lease(
            ttl=Duration(TIMES.ttl),
            renew_every=Duration(TIMES.renew_every),
            margin=Duration(TIMES.margin),
            claim_lock=Duration(TIMES.lock),
            leader=Duration(TIMES.leader),
        ),
        consumer=Consumer(),
        # 5.1 s doubled up to six times never comes near a multiple of the model's step.
        claim=Claim(loop_limit=LoopLimit(claims=1000), retry_backoff=Duration(5.1)),
        run=Run(retry_backoff=Duration(20)),
    )
    with redis_server.admin() as admin:
        load_scripts(admin)
    return Bench(redis_server.url, tenant.namespace, config)
