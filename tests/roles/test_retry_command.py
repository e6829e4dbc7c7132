"""What `agentsmith retry` tells a person: it looks now and then, and whatever happens between two looks counts."""

from __future__ import annotations

from pathlib import Path

from agentsmith.cli.runs import Answer, TicketAtHand, _taken_on
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.signal import SignalKind
from agentsmith.store import Store
from tests.support.world import World, open_world, sh


async def deal_with_signals(world: World) -> None:
    """Deal with every signal, and with those that come of them, as a daemon does."""
    while (payload := await world.store.signals.take(world.process.name, wait=0.01)) is not None:
        await world.intake._deal_with(payload)


async def test_a_run_that_began_and_ended_between_two_looks_is_told_of(
    tmp_path: Path, store: Store, redis_url: str
) -> None:
    async with open_world(tmp_path, store, redis_url, sh("exit 3")) as world:
        key = await world.open_ticket()
        await store.signals.send([world.signal(key)])
        await deal_with_signals(world)
        await world.run_queue()
        assert await world.statuses(key) == {Status.FAILED}

        tracker = world.trackers["local"]
        case = TicketAtHand(world.config, store, tracker, world.parts, await tracker.get(key), "ann")
        before = await store.intents.last_ended(case.id), await store.looks.of(case.id)

        async def told() -> Answer | None:
            return await _taken_on(case, *before)

        await store.signals.send([world.signal(key, kind=SignalKind.RETRY, by="ann")])
        assert await told() is None
        await deal_with_signals(world)
        queued = await told()
        assert queued is not None
        assert queued.outcome == "enqueued"
        await world.run_queue()
        # It ended as it did the last time, and nothing of it is in Redis any more but that it did.
        ended = await told()
        assert ended is not None
        assert (ended.outcome, ended.message) == ("ended", f"{case.id} ran again: failed")
