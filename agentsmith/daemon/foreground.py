"""One ticket, run here and now: the same claim, lease and fence as a daemon's, in this process and nowhere else."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from agentsmith.config import Config, Pipeline
from agentsmith.daemon.build import assemble, run_context, this_process
from agentsmith.daemon.open import open_forges, open_store, open_trackers
from agentsmith.daemon.services import PRESENCE, REDIS, STRAYS, Node, StartedServices
from agentsmith.domain.facts import RunNow
from agentsmith.domain.lifecycle import Status, resolve
from agentsmith.domain.outcomes import Deferred, LookOutcome
from agentsmith.domain.signal import Signal
from agentsmith.domain.stop import StopReason
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.running.consumer import Consumer

_CLAIM_WITHIN: Final = 10.0
_LONGEST_WAIT: Final = 1.0


@dataclass(slots=True)
class Foreground:
    """A process that runs single tickets on demand."""

    node: Node
    consumer: Consumer

    async def claim(self, ticket: Ticket, pipeline: str, by: str) -> LookOutcome:
        """Take the ticket on, for this process alone; waits a moment for others who look at it."""
        signal = Signal(ticket.tracker, ticket.key, ticket.id, cause=f"{by} asked for it")
        now = RunNow(pipeline, by, self.node.process.name)
        give_up = time.monotonic() + _CLAIM_WITHIN
        while True:
            outcome = await self.node.parts.looks.on_signal(signal, now)
            if not isinstance(outcome, Deferred) or time.monotonic() > give_up:
                return outcome
            await asyncio.sleep(min(outcome.wait, _LONGEST_WAIT))

    async def run(self, ticket: Ticket) -> Status:
        """Run what was claimed; answers what the ticket's label says then."""
        for payload in await self.node.opened.store.queue.in_hand(self.node.process.name):
            await self.consumer.run(payload)
        tracker = self.node.trackers[ticket.tracker]
        return resolve(tracker.labels.statuses((await tracker.get(ticket.key)).labels))

    def stop(self, ticket: TicketId, reason: StopReason) -> None:
        """End the run of the ticket."""
        self.consumer.stop_runs({ticket: reason}, asked=self.consumer.running)


@contextlib.asynccontextmanager
async def open_foreground(config: Config, pipelines: Mapping[str, Pipeline]) -> AsyncIterator[Foreground]:
    """Everything that a run needs, in this process; `pipelines` are there beside the configured ones."""
    async with (
        open_store(config) as opened,
        open_trackers(config, opened.store) as trackers,
        open_forges(config, opened.store) as forges,
    ):
        parts, process = assemble(config, opened.store, trackers), this_process(config, frozenset())
        context = run_context(config, opened, trackers, parts, forges)
        context = replace(context, pipelines={**context.pipelines, **pipelines})
        limit = config.consumer.max_deliveries
        consumer = Consumer(context, process, slots=1, max_deliveries=limit, take_wait=1.0)
        node = Node(config, process, opened, trackers, parts, consumer)
        beside = StartedServices((REDIS, PRESENCE, STRAYS), node, asyncio.create_task)
        try:
            yield Foreground(node, consumer)
        finally:
            await beside.stop()
