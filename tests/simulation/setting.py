"""The configuration that the simulation runs, who runs what, and how long it may take until all is well again."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

from agentsmith.config import Claim, Config, Consumer, Housekeeping, Lease, LoopLimit, Run
from agentsmith.config.durations import Duration
from agentsmith.config.rules import broken_rules
from agentsmith.daemon.process import Role
from agentsmith.tickets.publish import LOOK_AGAIN
from agentsmith.trackers.local.settings import LocalSettings
from tests.support.world import world_config

NAMESPACE: Final = "simulated"
SCALE: Final = 5
"""Every duration of the defaults is divided by this: virtual time costs nothing, but what is done meanwhile does."""
IDLE_WAIT: Final = 10.0
"""How long an idle consumer or intake blocks; a second in production, where waiting costs nothing."""

_EVERYTHING: Final = frozenset(Role)
_INTAKE: Final = frozenset({Role.RECEIVER, Role.POLLER})
_CONSUMER: Final = frozenset({Role.CONSUMER})
_KEEPER: Final = frozenset({Role.HOUSEKEEPING})
TOPOLOGIES: Final[tuple[dict[str, frozenset[Role]], ...]] = (
    {"a1": _EVERYTHING, "a2": _EVERYTHING},
    {"a1": _EVERYTHING, "a2": _EVERYTHING, "a3": _EVERYTHING},
    {"i1": _INTAKE, "i2": _INTAKE, "c1": _CONSUMER, "c2": _CONSUMER, "h1": _KEEPER, "h2": _KEEPER},
    {"i1": _INTAKE | _KEEPER, "i2": _INTAKE | _KEEPER, "c1": _CONSUMER, "c2": _CONSUMER},
)


def configuration(data_dir: Path) -> Config:
    """The defaults, faster as a whole; what is asked over and over when nothing is to do is asked less often."""
    return _configuration().model_copy(update={"data_dir": data_dir})


@functools.cache
def _configuration() -> Config:
    config = world_config(
        Path("data"),
        # Short against the work, so that some lapse in the middle of it and somebody takes over.
        lease=Lease(leader=Duration(100), ttl=Duration(70), renew_every=Duration(20), margin=Duration(10)),
        consumer=Consumer(stop_poll=Duration(17.5)),
        claim=Claim(loop_limit=LoopLimit(claims=1000)),
        run=Run(),
        housekeeping=Housekeeping(sweep_every=Duration(30), reconcile_every=Duration(300)),
        trackers={"local": LocalSettings(poll_interval=Duration(60))},
    ).scaled(1 / SCALE)
    assert not list(broken_rules(config))
    return config


def bound(config: Config) -> float:
    """Seconds from the end of all trouble until every label tells the truth (P5), at the very worst.

    What can come one after another: a lost machine is noticed (its lease lapses, two looks); Redis settles; a lost
    request is found; a poller and a signal that failed often come back; an outcome is published; and up to three
    attempts of the longest work take their time in turn with those of other tickets.
    """
    lease, every = config.lease, config.housekeeping
    poll = float(config.trackers["local"].poll_interval)
    noticed = lease.leader + lease.ttl + lease.renew_every + 2 * every.stale_every
    settled = lease.renew_every + lease.margin + every.reconcile_every
    found = 9 * poll + 64 * config.claim.retry_backoff
    published = 4 * LOOK_AGAIN
    return noticed + settled + found + published + 3 * LONGEST_WORK


LONGEST_WORK: Final = 45.0
"""See `guard.Work`."""
