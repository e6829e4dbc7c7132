"""One run of one ticket, from its lease to its end: `start → work → settle`.

It is settled whichever way it ends: success, failure, exception, cancellation, drain, lost lease. The outcome is
recorded in Redis before it is published on the tracker, and work that is not finished is pushed before that.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

from agentsmith import redaction
from agentsmith.domain.errors import LeaseLost, MachineTrouble, describe
from agentsmith.guard.client import GuardDied
from agentsmith.pipelines.outcome import Outcome
from agentsmith.running.endings import broken, interrupted, stopped
from agentsmith.running.live_run import LiveRun
from agentsmith.running.settle import drop, settle
from agentsmith.running.stages import Decided, Dropped, Ended, Progress, Started
from agentsmith.running.start import start
from agentsmith.running.work import work
from agentsmith.store import AWAY


async def carry_out(live: LiveRun) -> None:
    """Start, work and settle; returns when the run is over, however it ended."""
    doing = live.begin(_start_and_work(live))
    renewing = asyncio.create_task(live.lease.keep())
    end: Dropped | Ended = Ended(Progress.none(live.run))
    try:
        try:
            await asyncio.wait({doing})
        except asyncio.CancelledError:
            live.drain()  # our own task is cancelled: end the work first
            await asyncio.wait({doing})
        if not doing.cancelled():
            end = doing.result()
        decided = _judge(live, end)
        if isinstance(decided, Decided):
            live.served = not decided.outcome.give_back and not decided.outcome.ours
            await _wind_up(live, decided)
    finally:
        if end.at.guard is not None:
            await end.at.guard.close()
        if end.at.pipeline_run is not None:
            end.at.pipeline_run.leave()
        renewing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await renewing
    if isinstance(decided, Dropped):
        await drop(live, decided)
    else:
        await settle(live, decided)


async def _start_and_work(live: LiveRun) -> Dropped | Ended:
    started = await start(live)
    return await work(live, started) if isinstance(started, Started) else started


def _judge(live: LiveRun, end: Dropped | Ended) -> Dropped | Decided:
    """Where the ticket goes after this end, and after what came from outside."""
    if isinstance(end, Dropped):
        return end
    at, outcome, error = end.at, end.outcome, end.error
    if isinstance(error, LeaseLost | GuardDied):
        live.lease.lose(str(error))  # the guard closed its trust window, or was killed: nothing of the run is left
    elif isinstance(error, AWAY):
        return Dropped(at, f"redis is away: {error}", look=0.0, uncount=True)
    elif error is not None:
        at = replace(at, request=replace(at.request, troubles=at.request.troubles + 1))
        outcome = _broken(live, at, error)
    if live.stop_reason is not None:
        return Decided(at, stopped(live.stop_reason, at.step))
    return Decided(at, outcome or interrupted(at.step), end.letter)


def _broken(live: LiveRun, at: Progress, error: Exception) -> Outcome:
    """Something of ours broke; this machine takes no work before it has passed a check."""
    why, foreseen = redaction.redact(describe(error)), isinstance(error, MachineTrouble | OSError)
    live.run.log.error("the run broke", why=why, exc_info=None if foreseen else error)
    live.run.context.machine.broke(why)
    most = live.run.context.limits.max_attempts
    return broken(at.request, why, consumer=live.run.lease.consumer, step=at.step, most=most)


async def _wind_up(live: LiveRun, decided: Decided) -> None:
    if decided.at.pipeline_run is None:
        return
    try:
        await decided.at.pipeline_run.wind_up(decided.outcome)
    except Exception as error:  # the outcome stands, also when its clean-up fails
        live.run.log.error("what a run left could not be cleared away", exc_info=error)
        live.run.context.machine.broke(redaction.redact(describe(error)))
