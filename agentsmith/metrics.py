"""What is counted, for Prometheus. Counters are this process's own; depths are asked of Redis when somebody scrapes.

Labels hold names from the configuration and words of ours only: nothing that a stranger could make up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, generate_latest

REGISTRY: Final = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

LOOKS: Final = Counter(
    "agentsmith_looks", "Looks at tickets, by what came of them.", ("tracker", "outcome"), registry=REGISTRY
)
WEBHOOKS: Final = Counter(
    "agentsmith_webhooks", "Webhook deliveries, by the status that they were answered with.", ("tracker", "status"),
    registry=REGISTRY,
)  # fmt: skip
POLLS: Final = Counter(
    "agentsmith_polls", "Polls of a tracker, by how they ended.", ("tracker", "outcome"), registry=REGISTRY
)
UNANNOUNCED: Final = Counter(
    "agentsmith_poll_unannounced",
    "Tickets that a poll found although webhooks are on and none had told of them.",
    ("tracker",),
    registry=REGISTRY,
)
HEALED: Final = Counter(
    "agentsmith_deliveries_healed", "Failed webhook deliveries that were asked for again.", ("tracker",),
    registry=REGISTRY,
)  # fmt: skip
DEPTH: Final = Gauge(
    "agentsmith_depth", "How many there are: queued, running, signals and so on.", ("what",), registry=REGISTRY
)
UP: Final = Gauge("agentsmith_redis_up", "Whether Redis answered when this was asked.", registry=REGISTRY)


def exposed(depths: Mapping[str, int] | None) -> bytes:
    """Everything in Prometheus' text form; None says that Redis could not be asked, which is not the same as empty."""
    UP.set(0 if depths is None else 1)
    if depths is None:
        for metric in DEPTH.collect():
            for sample in metric.samples:
                DEPTH.labels(sample.labels["what"]).set(math.nan)
    else:
        for what, count in depths.items():
            DEPTH.labels(what).set(count)
    return generate_latest(REGISTRY)
