"""One run of one ticket, from lease to settle: `lease → read by id → in-progress → acknowledge → steps → settle`.

`RunScope` is the one object that settles on every way out: success, failure, exception, cancellation, drain, lost
lease. Whatever it decides is recorded in Redis before the tracker hears of it, and work that is not finished is pushed
before that.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from typing import Final

import structlog

from agentsmith import logs
from agentsmith.boottime import boottime
from agentsmith.config import Pipeline
from agentsmith.domain.asking import Wake
from agentsmith.domain.errors import LeaseLost, MachineTrouble, TicketNotFound, TrackerError, told
from agentsmith.domain.gates import still_wanted
from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import Owner, Status, edge, resolve
from agentsmith.domain.report import StepLine
from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.signal import Signal
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import AlreadySo, Applied, LostRace, Tracker
from agentsmith.guard import cgroups
from agentsmith.guard.client import Guard, GuardDied
from agentsmith.pipelines.outcome import Outcome
from agentsmith.running.endings import WITHDRAWN, Dropped, broken, interrupted, stopped
from agentsmith.running.live_comment import LiveComment, note_start
from agentsmith.running.release_lease import farewell_for
from agentsmith.running.run_lease import KeptLease
from agentsmith.running.run_work import RunContext, Work, account_of
from agentsmith.running.wake import waking
from agentsmith.store import AWAY, TAKEN_OVER, Acquired, DeadLetter, Lease, Settled
from agentsmith.tickets.lock import LockBusy, holding
from agentsmith.tickets.publish import LOOK_AGAIN, NotYet

log = structlog.get_logger()

_LOOK_AFTER_TROUBLE: Final = 30.0


class RunScope:
    """A leased run. Enter it, `carry_out` the work, and leave: leaving settles."""

    def __init__(self, context: RunContext, request: PipelineRequest, payload: str, acquired: Acquired) -> None:
        self.request = replace(request, delivery=acquired.deliveries)
        self._context, self._payload, self._lease = context, payload, acquired.lease
        self._acquired, self._attempt = acquired, acquired.attempts
        self._counted = False
        self._kept = KeptLease(context.store, acquired, self._end_work)
        self._tracker: Tracker | None = context.trackers.get(request.tracker)
        self._ticket: Ticket | None = None
        self._guard: Guard | None = None
        self._work: Work | None = None
        self._outcome: Outcome | None = None
        self._letter: DeadLetter | None = None
        self._stop: str | None = None
        self._draining = False
        self._acknowledged = False
        self._shown = False
        self._wake = Wake(request.wake_reason or "")
        self.settled: Settled | None = None
        """How it ended, once that stands in Redis; what is given back has not."""
        self._doing: asyncio.Task[None] | None = None
        self._log = log.bind(ticket=request.ticket, run=request.run, fence=acquired.lease.fence)

    @property
    def step(self) -> str:
        """The step that runs now, or ran last."""
        return self._work.step if self._work is not None else ""

    async def carry_out(self) -> None:
        """Do the work and settle it; returns when the run is over, however it ended."""
        self._doing = asyncio.create_task(self._do())
        renewing = asyncio.create_task(self._kept.keep())
        if self._draining:
            self._end_work()
        try:
            try:
                await asyncio.wait({self._doing})
            except asyncio.CancelledError:
                self.drain()  # we are being cancelled ourselves: end the work before going
                await asyncio.wait({self._doing})
            dropped = self._judge()
            if self._work is not None and self._outcome is not None:
                await self._wind_up(self._work, self._outcome)
        finally:
            if self._guard is not None:
                await self._guard.close()
            if self._work is not None:
                self._work.leave()
            renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await renewing
        await self._settle(dropped)

    async def _wind_up(self, work: Work, outcome: Outcome) -> None:
        try:
            await work.wind_up(outcome)
        except Exception as error:  # what was decided stands, also when we cannot clear up after it
            self._log.error("what a run left could not be cleared away", exc_info=error)
            self._context.machine.broke(logs.redact(told(error)))

    def stop(self, reason: str) -> None:
        """A person cancelled or withdrew the ticket, or somebody took it over: end the work."""
        if reason == TAKEN_OVER:
            self._kept.lose(reason)  # no outcome: whoever took it over decides
        elif self._stop is None and self._kept.lost is None:
            self._stop = reason
            self._end_work()

    def drain(self) -> None:
        """The process ends: give the run back."""
        self._draining = True
        self._end_work()

    @property
    def served(self) -> bool:
        """Whether the run came to an end of its own: this machine is fit for work."""
        return self._outcome is not None and not self._outcome.give_back and not self._outcome.ours

    @property
    def holds_request(self) -> bool:
        """Whether the request is neither acknowledged nor settled, and so still in our consumer's list."""
        return not self._acknowledged

    async def restore(self, consumer: str, payload: str) -> None:
        """Redis lost its memory: put back the request, if it is not acknowledged, and the lease, now."""
        store = self._context.store
        if not self._acknowledged:
            await store.queue.restore(consumer, self.request.ticket, payload)
        self._kept.renew_now()

    def _end_work(self) -> None:
        if self._doing is not None:
            self._doing.cancel()

    async def _do(self) -> None:
        context, store = self._context, self._context.store
        if self._tracker is None:
            raise Dropped(f"no tracker is called {self.request.tracker!r}", look=_LOOK_AFTER_TROUBLE)
        cgroup = cgroups.make(context.settings.limits, self.request.run)
        self._guard = await context.open_guard(
            trusted_until=self._kept.until,
            grace=context.kill_grace,
            farewell=farewell_for(
                self._lease,
                url=context.redis_url,
                namespace=store.keys.namespace,
                times=store.times,
                lock_key=store.keys.claim_lock(self._tracker.platform, self.request.ticket),
                data_dir=context.data_dir,
            ),
            **({"cgroup": cgroup} if cgroup is not None else {}),
        )
        self._kept.watch_over(self._guard)
        if reason := await store.runs.stop_requested(self.request.ticket):
            self._stop = reason
            return
        pipeline = await self._begin(self._tracker)
        if pipeline is not None:
            await self._steps(pipeline, self._tracker, self._guard)

    async def _begin(self, tracker: Tracker) -> Pipeline | None:
        """Read the ticket, put it in progress and acknowledge the request; None when an outcome stands already."""
        try:
            ticket = self._ticket = await tracker.get(self.request.key)
            if not self._startable(tracker, ticket):
                return None
            pipeline = self._context.pipelines.get(self.request.pipeline)
            if pipeline is None:
                note = f"There is no pipeline `{self.request.pipeline}` any more."
                self._outcome = Outcome(Status.FAILED, "unknown pipeline", note)
                return None
            policy, why = self._context.policy(tracker.name), self.request.wake_reason or ""
            self._wake = await waking(self._context.store, tracker, ticket, policy, why)
            if not await self._count_attempt():
                return None
            # The answer to a write is of now; what was read before it may have come from a copy that lags behind.
            if self._withdrawn(await self._show_in_progress(tracker, ticket, pipeline)):
                return None
        except TicketNotFound as error:
            raise Dropped(f"there is no such ticket: {error}") from None
        except (TrackerError, LockBusy) as error:
            raise Dropped(f"the tracker failed: {error}", look=_LOOK_AFTER_TROUBLE, uncount=True) from None
        done = [(self.request.ticket, self._payload)]
        await self._context.store.queue.acknowledge_and_take(self._lease.consumer, done, room=0)
        self._acknowledged = True
        return pipeline

    def _startable(self, tracker: Tracker, ticket: Ticket) -> bool:
        status = resolve(tracker.labels.statuses(ticket.labels))
        # In progress with the lease in our hand: an earlier taker died between its label and its acknowledge.
        if status not in (Status.ENQUEUED, Status.IN_PROGRESS):
            raise Dropped(f"its label says {status.value}", look=0.0)
        if not self._withdrawn(ticket) and not self.request.pinned.sha256:
            raise Dropped("nobody knows what was vetted: the request does not tell its text", look=0.0)
        return self._stop is None

    def _withdrawn(self, ticket: Ticket) -> bool:
        if ticket.open and still_wanted(ticket, self.request.wanted, self._context.triggers):
            return False
        self._stop = WITHDRAWN + ("the trigger was removed" if ticket.open else "the ticket was closed")
        return True

    async def _count_attempt(self) -> bool:
        limits = self._context.limits
        word, attempts = await self._context.store.runs.start(self._lease, max_attempts=limits.max_attempts)
        if word == "lost":
            raise LeaseLost("the lease was lost before the run started")
        if word == "poison":
            note = f"It was started {attempts - 1} times and never finished; agentsmith gave up."
            self._outcome = Outcome(Status.FAILED, "attempts used up", note)
            self._letter = DeadLetter(self._payload, note, time.time())
            return False
        self._attempt, self._counted = attempts, True
        attempt, why = self._wake.before + attempts, self._wake.reason or None
        self.request = replace(self.request, attempt=attempt, wake_reason=why)
        return True

    async def _show_in_progress(self, tracker: Tracker, ticket: Ticket, pipeline: Pipeline) -> Ticket:
        async with self._lock(tracker) as lock:
            started = Outcome(Status.IN_PROGRESS, "started")
            until = min(lock.trust.until, self._kept.until)
            match await self._context.publisher.move(tracker, ticket, self._intent(started, ""), until=until):
                case Applied(ticket=moved) | AlreadySo(ticket=moved):
                    self._ticket, self._shown = moved, True
                    await self._context.store.intents.note_published(moved.id, Status.IN_PROGRESS)
                case LostRace():
                    raise Dropped("its label was changed meanwhile", look=0.0, uncount=True)
                case trouble:
                    raise Dropped(f"the label could not be set: {trouble}", look=_LOOK_AFTER_TROUBLE, uncount=True)
            note_start(self.request, tracker.platform, self._lease.fence)
            steps = [StepLine(step.name, "waiting") for step in pipeline.steps]
            note = account_of(self._context, self.request, started, steps, ticket=moved)
            try:
                intent = self._intent(started, note)
                await self._context.publisher.comment(
                    tracker, moved, Status.IN_PROGRESS, intent, lock=lock, passing=True
                )
            except TrackerError as error:
                self._log.warning("the comment could not be written", error=str(error))
        return moved

    async def _steps(self, pipeline: Pipeline, tracker: Tracker, guard: Guard) -> None:
        assert self._ticket is not None  # noqa: S101
        live = LiveComment(
            self._context.publisher,
            tracker,
            every=self._context.settings.comment_every,
            lock=lambda: self._lock(tracker),
            intent=self._tell,
        )
        work = self._work = await Work.open(
            self._context,
            self.request,
            pipeline,
            tracker=tracker,
            ticket=self._ticket,
            guard=guard,
            kept=self._kept,
            lock=lambda: self._lock(tracker),
            live=live,
            wake=self._wake,
        )
        commenting = asyncio.create_task(live.keep())
        try:
            self._outcome = await work.carry_out()
        finally:
            commenting.cancel()
            await asyncio.wait({commenting})
            self._ticket = work.ticket

    def _tell(self) -> Intent:
        """How the run stands, for the comment."""
        assert self._work is not None  # noqa: S101
        started = Outcome(Status.IN_PROGRESS, "started")
        return self._intent(started, self._work.account(started))

    def _judge(self) -> Dropped | None:
        """Turn the way out into an outcome."""
        assert self._doing is not None  # noqa: S101
        error = None if self._doing.cancelled() else self._doing.exception()
        if isinstance(error, Dropped):
            return error
        if isinstance(error, LeaseLost | GuardDied):
            self._kept.lose(str(error))  # a guard's trust window closed, or somebody killed it: nothing is left
        elif isinstance(error, AWAY):
            return Dropped(f"redis is away: {error}", look=0.0, uncount=True)
        elif error is not None:
            self._outcome = self._broke(error)
        if self._stop is not None:
            self._outcome, self._letter = stopped(self._stop, self.step), None
        elif self._outcome is None:
            self._outcome = interrupted(self.step)
        return None

    def _broke(self, error: BaseException) -> Outcome:
        """Something of ours broke; the machine takes nothing before it has passed a check."""
        why, foreseen = logs.redact(told(error)), isinstance(error, MachineTrouble | OSError)
        self._log.error("the run broke", why=why, exc_info=None if foreseen else error)
        self._context.machine.broke(why)
        self.request = replace(self.request, troubles=self.request.troubles + 1)
        most = self._context.limits.max_attempts
        return broken(self.request, why, consumer=self._lease.consumer, step=self.step, most=most)

    async def _settle(self, dropped: Dropped | None) -> None:
        store = self._context.store
        if self._kept.lost is not None and dropped is None and self._outcome is not None and self._outcome.give_back:
            # Nothing may be written any more (P6); the children are gone, so the ticket may be taken over.
            lock_key = store.keys.claim_lock(self._tracker.platform if self._tracker else "", self.request.ticket)
            await store.outage.outlast(lambda: store.runs.release_dead(self._lease, lock_key=lock_key))
            return
        if dropped is not None:
            self._log.info("not run", why=str(dropped))
            settled = await store.outage.outlast(
                lambda: store.runs.settle(
                    self._lease, self._payload, None, look_in=0, uncount=self._counted and dropped.uncount
                )
            )
            self._acknowledged = self._acknowledged or settled
            if settled and dropped.look is not None:
                await self._look_again(dropped)
            return
        assert self._outcome is not None  # noqa: S101
        outcome = self._outcome
        if outcome.ours and outcome.give_back:
            line = f"{time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime())}: {outcome.note}"
            await store.outage.outlast(lambda: store.runs.note_history(self.request.ticket, line))
        intent = self._intent(outcome, self._work.account(outcome) if self._work is not None else outcome.note)
        settled = await store.outage.outlast(
            lambda: store.runs.settle(
                self._lease,
                self._payload,
                intent,
                look_in=LOOK_AGAIN,
                uncount=self._counted and outcome.give_back,
                letter=self._letter,
            )
        )
        if not settled:
            self._log.warning("taken over by another run: the outcome is not published", outcome=outcome.word)
            return
        self._acknowledged = True
        if not outcome.give_back:
            self.settled = Settled(self._lease, intent, at=boottime())
        await self._publish(intent)

    async def _publish(self, intent: Intent) -> None:
        if self._tracker is None:
            return
        try:
            async with self._lock(self._tracker) as lock:
                told = await self._context.publisher.publish(intent, lock=lock, ticket=self._ticket)
            if self.settled is not None and not isinstance(told, NotYet):
                self.settled = replace(self.settled, intent=None)
        except (LockBusy, LeaseLost, *AWAY) as error:
            self._log.info("housekeeping will publish the outcome", why=str(error))

    async def _look_again(self, dropped: Dropped) -> None:
        signal = Signal(self.request.tracker, self.request.key, self.request.ticket, cause=str(dropped))
        store = self._context.store
        await store.outage.outlast(lambda: store.signals.send_later(signal, wait=dropped.look or 0.0))

    def _intent(self, outcome: Outcome, note: str) -> Intent:
        status = Status.IN_PROGRESS
        if outcome.to is Status.IN_PROGRESS:
            status = Status.ENQUEUED  # an earlier taker may have shown it as started, and got no further
        elif not self._shown and self._ticket is not None and self._tracker is not None:
            # What we have shown we move on from, whatever a person made of it in the same moment.
            status = resolve(self._tracker.labels.statuses(self._ticket.labels))
        return Intent(
            ticket=self.request.ticket,
            tracker=self.request.tracker,
            key=self.request.key,
            fence=self._lease.fence,
            edge=edge(status, outcome.to, Owner.RUN),
            run=self.request.run,
            outcome=outcome.word,
            note=note,
            due=self._acquired.clock() + outcome.wait if outcome.wait is not None else None,
            request=self.request.to_json() if outcome.give_back else "",
            attempt=self._attempt,
            text=self.request.pinned.sha256,
            trigger=self.request.wanted.trigger,
            question=self._wake.carried_on(logs.redact(outcome.question), at=time.time(), attempt=self.request.attempt),
            before=self._wake.before,
        )

    def _lock(self, tracker: Tracker) -> contextlib.AbstractAsyncContextManager[Lease]:
        store, holder, fence = self._context.store, self._lease.lock_holder, self._lease.fence
        where = (tracker.platform, self.request.ticket)
        return holding(store, *where, holder=holder, fence=fence, wait=store.times.lock * 2)
