"""The end of a run: what was decided is recorded in Redis, and then published on the ticket."""

from __future__ import annotations

import time
from dataclasses import replace

from agentsmith.boottime import boottime
from agentsmith.domain.errors import LeaseLost
from agentsmith.domain.intent import Intent
from agentsmith.domain.signal import Signal
from agentsmith.domain.ticket import Ticket
from agentsmith.running.intents import intent_of
from agentsmith.running.live_run import LiveRun
from agentsmith.running.stages import Decided, Dropped
from agentsmith.store import AWAY, Settled
from agentsmith.tickets.lock import LockBusy
from agentsmith.tickets.publish import LOOK_AGAIN, NotYet


async def drop(live: LiveRun, dropped: Dropped) -> None:
    """Release the lease and acknowledge the request; nothing is published."""
    run, store = live.run, live.run.store
    run.log.info("not run", why=dropped.why)
    uncount = dropped.at.counted and dropped.uncount
    settled = await store.outage.outlast(
        lambda: store.runs.settle(run.lease, run.payload, None, look_in=0, uncount=uncount)
    )
    live.acknowledged = live.acknowledged or settled
    if settled and dropped.look is not None:
        signal, wait = Signal(run.request.tracker, run.request.key, run.ticket, cause=dropped.why), dropped.look
        await store.outage.outlast(lambda: store.signals.send_later(signal, wait=wait))


async def settle(live: LiveRun, decided: Decided) -> None:
    """Record the outcome, and publish it."""
    run, store, at, outcome = live.run, live.run.store, decided.at, decided.outcome
    if live.lease.lost is not None and outcome.give_back:
        # Nothing may be written any more (P6); the children are gone, so the ticket may be taken over.
        await store.outage.outlast(lambda: store.runs.release_dead(run.lease, lock_key=run.lock_key))
        return
    if outcome.ours and outcome.give_back:
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime())}: {outcome.note}"
        await store.outage.outlast(lambda: store.runs.note_history(run.ticket, line))
    account = at.pipeline_run.account(outcome) if at.pipeline_run is not None else outcome.note
    intent = intent_of(run, at, outcome, account)
    settled = await store.outage.outlast(
        lambda: store.runs.settle(
            run.lease,
            run.payload,
            intent,
            look_in=LOOK_AGAIN,
            uncount=at.counted and outcome.give_back,
            letter=decided.letter,
        )
    )
    if not settled:
        run.log.warning("taken over by another run: the outcome is not published", outcome=outcome.word)
        return
    live.acknowledged = True
    if not outcome.give_back:
        live.settled = Settled(run.lease, intent, at=boottime())
    await _publish(live, intent, at.ticket)


async def _publish(live: LiveRun, intent: Intent, ticket: Ticket | None) -> None:
    run = live.run
    if run.tracker is None:
        return
    try:
        async with run.lock(run.tracker) as lock:
            published = await run.context.publisher.publish(intent, lock=lock, ticket=ticket)
        if live.settled is not None and not isinstance(published, NotYet):
            live.settled = replace(live.settled, intent=None)
    except (LockBusy, LeaseLost, *AWAY) as error:
        run.log.info("housekeeping will publish the outcome", why=str(error))
