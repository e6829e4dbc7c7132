"""Tickets as a crash leaves them: label and lease stand, and nobody is there."""

from __future__ import annotations

from agentsmith.domain.lifecycle import Status
from agentsmith.domain.request import PipelineRequest
from agentsmith.store import Acquired, RunLease
from tests.support.wait import wait_until
from tests.support.world import World


async def started_by(world: World, key: str, consumer: str = "host-gone") -> RunLease:
    """A run as a consumer leaves it behind that dies in mid-run."""
    await world.claim(key)
    payload = await world.store.queue.take(consumer, wait=0.1)
    assert payload is not None
    request = PipelineRequest.from_json(payload)
    acquired = await world.store.runs.acquire(request, payload, consumer=consumer, ttl=5, max_deliveries=3)
    assert isinstance(acquired, Acquired)
    await world.store.runs.start(acquired.lease, max_attempts=3)
    await world.desk.label(key, "agent-smith:in-progress", actor="mona")
    await world.desk.unlabel(key, "agent-smith:enqueued", actor="mona")
    await world.store.intents.note_published(request.ticket, Status.IN_PROGRESS)
    await world.store.queue.acknowledge_and_take(consumer, [(request.ticket, payload)], room=0)
    return acquired.lease


async def killed(world: World, key: str) -> RunLease:
    """The same, after its guard has ended the run and let the lease go."""
    lease = await started_by(world, key)
    lock = world.store.keys.claim_lock("local", lease.ticket)
    assert await world.store.runs.release_dead(lease, lock_key=lock)
    return lease


async def brought_back(world: World) -> None:
    """Return once housekeeping's second look has brought one ticket back."""

    async def recovered() -> bool:
        return (await world.housekeeping.sweep.run_once()).recovered == 1

    await wait_until(recovered, what="the second look")


async def finish(world: World, key: str) -> None:
    """Let claim and consumer do their work, once whoever brought the ticket back let go of it; it is done then."""
    await let_go(world, key)
    await world.drain_signals()
    await world.run_queue()

    async def done() -> bool:  # soon, if housekeeping that works beside has to publish it
        return await world.statuses(key) == {Status.DONE}

    await wait_until(done, what="the ticket to be done")


async def let_go(world: World, key: str) -> None:
    """Wait until nobody holds the ticket's lock."""
    lock = world.store.keys.claim_lock("local", world.ticket_id(key))

    async def free() -> bool:
        return not await world.store.redis.exists(lock)

    await wait_until(free, what="the ticket to be let go of")
