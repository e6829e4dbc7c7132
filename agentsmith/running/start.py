"""The start of a run: `guard → read by id → count the attempt → in-progress → acknowledge`."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Final

import structlog

from agentsmith import logs
from agentsmith.config import Pipeline
from agentsmith.domain.errors import LeaseLost, TicketNotFound, TrackerError
from agentsmith.domain.gates import chosen, still_wanted
from agentsmith.domain.lifecycle import Status, resolve
from agentsmith.domain.report import StepLine
from agentsmith.domain.stop import StopReason
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import AlreadySo, Applied, LostRace, Tracker
from agentsmith.guard import cgroups
from agentsmith.guard.client import Guard
from agentsmith.pipelines.outcome import Outcome, OutcomeKind
from agentsmith.running.account import account_of, text_changed
from agentsmith.running.endings import STARTED, stopped
from agentsmith.running.intents import intent_of
from agentsmith.running.live_run import LiveRun
from agentsmith.running.release_lease import release_of
from agentsmith.running.stages import Dropped, Ended, LeasedRun, Progress, Started
from agentsmith.running.wake import waking
from agentsmith.store import DeadLetter, Lease
from agentsmith.tickets.lock import LockBusy

log = structlog.get_logger()

_LOOK_AFTER_TROUBLE: Final = 30.0
_LOOK_AFTER_CHANGE: Final = 1.0


async def start(live: LiveRun) -> Started | Dropped | Ended:
    """Begin the run, or say why not; the answer has what was done so far, also after an interruption."""
    run, at = live.run, Progress.none(live.run)
    tracker, store = run.tracker, run.store
    if tracker is None:
        return Dropped(at, f"no tracker is called {run.request.tracker!r}", look=_LOOK_AFTER_TROUBLE)
    try:
        guard = await _open_guard(live, tracker)
        at = replace(at, guard=guard)
        live.lease.watch_over(guard)
        if reason := await store.runs.stop_requested(run.ticket):
            return Ended(at, stopped(reason))
        ticket = await tracker.get(run.request.key)
        at = replace(at, ticket=ticket)
        if refused := _refused(run, at, tracker, ticket):
            return refused
        pipeline = run.context.pipelines.get(run.request.pipeline)
        agents = dict(run.context.agents)  # from one configuration: another may be in force before the steps begin
        if pipeline is None:  # it was taken out since; what the ticket's trigger starts now, a look tells
            look = _LOOK_AFTER_CHANGE if chosen(ticket, run.context.triggers) else _LOOK_AFTER_TROUBLE
            return Dropped(at, f"there is no pipeline {run.request.pipeline!r} any more", look=look)
        policy = run.context.policy(tracker.name)
        at = replace(at, wake=await waking(store, tracker, ticket, policy, run.request.wake_reason or ""))
        counted = await _count_attempt(run, at)
        if isinstance(counted, Ended):
            return counted
        at = counted
        async with run.lock(tracker) as lock:
            moved = await _move(live, at, ticket, tracker, lock)
            if isinstance(moved, Dropped):
                return moved
            at = replace(at, ticket=moved, shown=True)
            await store.intents.note_published(moved.id, Status.IN_PROGRESS)
            await _comment(run, at, moved, pipeline, lock)
        # The answer to a write is current; what was read before it may have come from a stale replica.
        if why := _withdrawn(run, moved):
            return Ended(at, stopped(why))
        await store.queue.acknowledge_and_take(run.lease.consumer, [(run.ticket, run.payload)], room=0)
        live.acknowledged = True
        return Started(at, tracker, moved, pipeline, agents, guard)
    except TicketNotFound as error:
        return Dropped(at, f"there is no such ticket: {error}")
    except (TrackerError, LockBusy) as error:
        return Dropped(at, f"the tracker failed: {error}", look=_LOOK_AFTER_TROUBLE, uncount=True)
    except asyncio.CancelledError:
        return Ended(at)
    except Exception as error:
        return Ended(at, error=error)


async def _open_guard(live: LiveRun, tracker: Tracker) -> Guard:
    run, context = live.run, live.run.context
    cgroup = cgroups.make(context.settings.limits, run.request.run)
    return await context.open_guard(
        trusted_until=live.lease.until,
        grace=context.kill_grace,
        release=release_of(
            run.lease,
            url=context.redis_url,
            namespace=run.store.keys.namespace,
            times=run.store.times,
            lock_key=run.store.keys.claim_lock(tracker.platform, run.ticket),
            data_dir=context.data_dir,
        ),
        **({"cgroup": cgroup} if cgroup is not None else {}),
    )


def _refused(run: LeasedRun, at: Progress, tracker: Tracker, ticket: Ticket) -> Dropped | Ended | None:
    """Why a ticket that was just read is not to be run, if it is not."""
    status = resolve(tracker.labels.statuses(ticket.labels))
    # In progress although the lease is ours: an earlier consumer died after the label, before its acknowledge.
    if status not in (Status.ENQUEUED, Status.IN_PROGRESS):
        return Dropped(at, f"its label says {status.value}", look=0.0)
    if why := _withdrawn(run, ticket):
        return Ended(at, stopped(why))
    if not run.request.pinned.sha256:
        return Dropped(at, "nobody knows what was vetted: the request does not tell its text", look=0.0)
    return None


def _withdrawn(run: LeasedRun, ticket: Ticket) -> StopReason | None:
    if ticket.open and still_wanted(ticket, run.request.wanted, run.context.triggers):
        return None
    return StopReason.withdrawn(open_=ticket.open)


async def _count_attempt(run: LeasedRun, at: Progress) -> Progress | Ended:
    word, attempts = await run.store.runs.start(run.lease, max_attempts=run.context.limits.max_attempts)
    if word == "lost":
        raise LeaseLost("the lease was lost before the run started")
    if word == "poison":
        note = f"It was started {attempts - 1} times and never finished; agentsmith gave up."
        letter = DeadLetter(run.payload, note, time.time())
        return Ended(at, Outcome(Status.FAILED, OutcomeKind.ATTEMPTS_USED_UP, note), letter=letter)
    request = replace(at.request, attempt=at.wake.before + attempts, wake_reason=at.wake.reason or None)
    return replace(at, request=request, attempt=attempts, counted=True)


async def _move(live: LiveRun, at: Progress, ticket: Ticket, tracker: Tracker, lock: Lease) -> Ticket | Dropped:
    run = live.run
    until = min(lock.trust.until, live.lease.until)
    match await run.context.publisher.move(tracker, ticket, intent_of(run, at, STARTED, ""), until=until):
        case Applied(ticket=moved) | AlreadySo(ticket=moved):
            return moved
        case LostRace():
            return Dropped(at, "its label was changed meanwhile", look=0.0, uncount=True)
        case trouble:
            return Dropped(at, f"the label could not be set: {trouble}", look=_LOOK_AFTER_TROUBLE, uncount=True)


async def _comment(run: LeasedRun, at: Progress, ticket: Ticket, pipeline: Pipeline, lock: Lease) -> None:
    """Say in log and comment that the ticket is in progress."""
    assert run.tracker is not None  # noqa: S101
    logs.transition(
        log,
        ticket=run.ticket,
        platform=run.tracker.platform,
        run=run.request.run,
        fence=run.lease.fence,
        from_=Status.ENQUEUED,
        to=Status.IN_PROGRESS,
        outcome=STARTED.word,
    )
    steps = [StepLine(step.name, "waiting") for step in pipeline.steps]
    note = account_of(run.context, at.request, STARTED, steps, text_changed=text_changed(ticket, at.request))
    try:
        intent = intent_of(run, at, STARTED, note)
        await run.context.publisher.comment(run.tracker, ticket, intent, lock=lock, passing=True)
    except TrackerError as error:
        run.log.warning("the comment could not be written", error=str(error))
