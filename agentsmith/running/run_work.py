"""The work of one run: its pipeline in its folders, what it may do outside, and what is told about it.

Between the run, which owns lease and outcome, and the engine, which knows neither Redis nor trackers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

import structlog

from agentsmith import logs
from agentsmith.config import Agent, Pipeline, Run
from agentsmith.domain.asking import Wake
from agentsmith.domain.errors import LeaseLost, MachineTrouble, TrackerUnavailable, told
from agentsmith.domain.forge import Forge
from agentsmith.domain.gates import Policy, Trigger
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.report import TEXT_CHANGED, StepLine, account
from agentsmith.domain.request import PipelineRequest, text_hash
from agentsmith.domain.ticket import Ticket, slug
from agentsmith.domain.tracker import Tracker
from agentsmith.git import Diverged, GitError, GuardShell, OtherName, Pushed, SecretsFound
from agentsmith.guard import cgroups
from agentsmith.guard.client import Guard, GuardDied, User
from agentsmith.pipelines import engine
from agentsmith.pipelines.context import CodePlace, Limits, StepContext
from agentsmith.pipelines.machine import Machine
from agentsmith.pipelines.outcome import Outcome
from agentsmith.pipelines.prompt import BUILT_IN, make_prompt
from agentsmith.pipelines.record import Recorder
from agentsmith.pipelines.runner import ProcessRunner, confinement_for
from agentsmith.pipelines.steps.agent import facts_of
from agentsmith.pipelines.workplace import WORKSPACES, Workplace, environment
from agentsmith.running.live_comment import LiveComment
from agentsmith.running.run_lease import KeptLease
from agentsmith.store import Lease, Store
from agentsmith.tickets.lock import LockBusy
from agentsmith.tickets.publish import Publisher

log = structlog.get_logger()

BRANCH_PREFIX: Final = "agent-smith/"
_SAVE_WITHIN: Final = 120.0
_SAVE_ON_DRAIN: Final = 10.0
"""A process that ends gives a run back soon, pushed or not: what was not pushed stays on this machine."""
_LONGEST_ERROR: Final = 4_000
_ANSWER: Final = (
    "To answer, write a comment that begins with `/{prefix} answer` and goes on with your answer: it then runs again "
    "and is told. Or write any comments, and then say `agentsmith retry {key}` or remove the waiting label: that is "
    "heard without a webhook too."
)

Lock = Callable[[], AbstractAsyncContextManager[Lease]]


OpenGuard = Callable[..., Awaitable[Guard]]
"""Start a guard; see `Guard.open`."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """What every run of this process shares."""

    store: Store
    redis_url: str
    trackers: Mapping[str, Tracker]
    publisher: Publisher
    pipelines: Mapping[str, Pipeline]
    triggers: Iterable[Trigger]
    policy: Callable[[str], Policy]
    """Who may start work on the tickets of a tracker, as it is in force."""
    limits: Limits
    kill_grace: float
    data_dir: Path
    settings: Run = field(default_factory=Run)
    agents: Mapping[str, Agent] = field(default_factory=dict)
    forges: Mapping[str, Forge] = field(default_factory=dict)
    """Where the code of each tracker's tickets lives."""
    user: User | None = None
    """Who commands run as, if not we ourselves."""
    open_guard: OpenGuard = Guard.open
    """A model of the protocol puts its own workers in place of processes."""
    machine: Machine = field(default_factory=Machine)


class _Desk:
    """The run's ticket, written to only under its lock and our fence."""

    def __init__(self, work: Work, lock: Lock) -> None:
        self._work, self._lock = work, lock

    async def say(self, text: str) -> None:
        """See context.Desk."""
        try:
            async with self._lock() as lock:
                deadline = min(lock.trust.until, self._work.kept.until)
                await self._work.tracker.say(self._work.ticket, logs.redact(text), deadline=deadline)
        except LockBusy as error:
            raise TrackerUnavailable(str(error)) from None

    async def relabel(self, *, add: Collection[str] = (), remove: Collection[str] = ()) -> None:
        """See context.Desk."""
        work = self._work
        try:
            async with self._lock() as lock:
                deadline = min(lock.trust.until, work.kept.until)
                work.ticket = await work.tracker.relabel(work.ticket, add=add, remove=remove, deadline=deadline)
        except LockBusy as error:
            raise TrackerUnavailable(str(error)) from None


class Work:
    """One run at work."""

    @classmethod
    async def open(
        cls,
        context: RunContext,
        request: PipelineRequest,
        pipeline: Pipeline,
        *,
        tracker: Tracker,
        ticket: Ticket,
        guard: Guard,
        kept: KeptLease,
        lock: Lock,
        live: LiveComment,
        wake: Wake,
    ) -> Self:
        """Make the run's folders, and see where its work stands; `leave` when all of it has ended."""
        branch = await context.store.remembered_branch(request.ticket)
        place = await Workplace.make(context.data_dir, request, context.user)
        try:
            return cls(
                context,
                request,
                pipeline,
                tracker=tracker,
                ticket=ticket,
                guard=guard,
                kept=kept,
                place=place,
                branch=branch,
                lock=lock,
                live=live,
                wake=wake,
            )
        except BaseException:
            place.leave()
            raise

    def __init__(
        self,
        context: RunContext,
        request: PipelineRequest,
        pipeline: Pipeline,
        *,
        tracker: Tracker,
        ticket: Ticket,
        guard: Guard,
        kept: KeptLease,
        place: Workplace,
        branch: str,
        lock: Lock,
        live: LiveComment,
        wake: Wake,
    ) -> None:
        self.tracker, self.ticket, self.kept = tracker, ticket, kept
        self._context, self._request, self._live = context, request, live
        live.noticed(ticket, request.pinned.sha256)
        self._place = place
        self._recorder = Recorder(
            self._place.run,
            request,
            pipeline,
            fence=kept.lease.fence,
            platform=tracker.platform,
            on_change=live.changed,
        )
        self._second: Guard | None = None
        self._saved = ""
        settings = context.settings
        shell = GuardShell(guard, self._place.run / "git")
        self._steps = StepContext(
            request=request,
            ticket=ticket,
            platform=tracker.platform,
            pipeline=pipeline,
            place=self._place,
            runner=ProcessRunner(guard, confinement_for(context.user, settings.limits)),
            shell=shell,
            limits=context.limits,
            agents=context.agents,
            default_agent=settings.agent,
            desk=_Desk(self, lock),
            pen=kept,
            recorder=self._recorder,
            env=environment(request, ticket, tracker.platform, self._place, wake),
            wake=wake,
            code=self._code(shell, branch),
            alongside=self._checkpoints if settings.checkpoint_every is not None else None,
            memory=self._place.remembered(),
        )

    @property
    def step(self) -> str:
        """The step that runs now, or ran last."""
        started = [step.name for step in self._recorder.record.steps if step.started is not None]
        return started[-1] if started else ""

    async def carry_out(self) -> Outcome:
        """Run the pipeline."""
        self._recorder.save()
        prompt = make_prompt(BUILT_IN["do"], facts_of(self._steps))
        self._place.write(self._place.prompt_file, prompt)
        return await engine.carry_out(self._steps)

    async def wind_up(self, outcome: Outcome) -> None:
        """Push what is not finished, close the record, and clear away what only the run needed."""
        try:
            if outcome.to is not Status.DONE and self.kept.lost is None:
                await self._save(outcome)
            if self._steps.checkout is not None:
                await self._steps.checkout.close()
        finally:
            if self._second is not None:
                await self._second.close()
            self._remember(outcome)
            self._recorder.conclude(outcome.to.value if outcome.to else None, outcome.word, logs.redact(outcome.note))
            self._place.clear_temporary()
            cgroups.clear(self._context.settings.limits)

    def leave(self) -> None:
        """Nothing of the run is left in its folders; from now on they may be removed."""
        self._place.leave()

    def account(self, outcome: Outcome) -> str:
        """What the ticket's comment tells about the run."""
        return account_of(
            self._context,
            self._request,
            outcome,
            self._recorder.lines(),
            ticket=None,
            text_changed=self._live.text_changed,
            kept=self._kept_at(outcome),
        )

    def _kept_at(self, outcome: Outcome) -> list[str]:
        """Where people find what was made, whichever way the run ended; who is done names its pull request anyway."""
        made = self._steps.pull_request
        proposed = f"The {'draft of the ' if made.draft else ''}pull request: {made.url}" if made is not None else ""
        return [text for text in (proposed if outcome.to is not Status.DONE else "", self._saved) if text]

    async def _save(self, outcome: Outcome) -> None:
        """Push what is there as `[wip]`, before anything says that the run failed; a fenced-off run pushes nothing."""
        opened = self._steps.checkout
        if opened is None:
            return
        within = _SAVE_ON_DRAIN if outcome.give_back else _SAVE_WITHIN
        try:
            async with asyncio.timeout(within):
                saved = await opened.save_wip(
                    run=self._request.run,
                    pipeline=self._request.pipeline,
                    step=outcome.step or self.step,
                    begin_write=self.kept.begin_write,
                )
        except (LeaseLost, GuardDied) as error:
            self.kept.lose(str(error))
        except TimeoutError:
            self._saved = f"What was done so far could not be pushed within {within:.0f} s; it is kept on its machine."
        except (GitError, MachineTrouble, OSError) as error:
            self._saved = f"What was done so far could not be pushed ({told(error)}); it is kept on its machine."
        else:
            match saved:
                case Pushed():
                    self._saved = (
                        f"What was done so far is on the branch `{opened.branch}`; the next run goes on there."
                    )
                case Diverged() | SecretsFound():
                    self._saved = f"What was done so far was not pushed: {saved}. It is kept on its machine."

    async def _checkpoints(self) -> None:
        """Push the work of a long step now and then, beside it."""
        every, opened = self._context.settings.checkpoint_every, self._steps.checkout
        if every is None or opened is None:
            return
        while True:
            await asyncio.sleep(every)
            try:
                saved = await opened.checkpoint(
                    run=self._request.run,
                    pipeline=self._request.pipeline,
                    step=self.step,
                    begin_write=self.kept.begin_write,
                    shell=GuardShell(await self._second_guard(), self._place.run / "git-beside"),
                )
            except LeaseLost:
                return  # whoever noticed it ends the run
            except (GitError, GuardDied, MachineTrouble, OSError) as error:
                log.info("no checkpoint", run=self._request.run, why=str(error))
            else:
                log.info("checkpoint", run=self._request.run, outcome=type(saved).__name__)

    async def _second_guard(self) -> Guard:
        """A guard runs one command at a time, and the run's own is busy."""
        if self._second is None:
            self._second = await self._context.open_guard(
                trusted_until=self.kept.until, grace=self._context.kill_grace, farewell=None
            )
            self.kept.watch_over(self._second)
        return self._second

    def _code(self, shell: GuardShell, kept: str) -> CodePlace | None:
        forges, request = self._context.forges, self._request
        forge = forges.get(request.tracker)
        if forge is None:
            return None
        if kept.startswith(BRANCH_PREFIX):
            name, other = kept, None
        else:
            name, other = branch_for(request.key, request.tracker, forges), other_branch(request, forges)
        return CodePlace(forge, self._context.data_dir / WORKSPACES, name, shell, other, self._keep_branch)

    async def _keep_branch(self, branch: str) -> None:
        store = self._context.store
        await store.outage.outlast(lambda: store.remember_branch(self._request.ticket, branch))

    def _remember(self, outcome: Outcome) -> None:
        if outcome.give_back:
            return
        error = "" if outcome.to is Status.DONE else logs.redact(f"{outcome.note}\n{outcome.output}").strip()
        memory = replace(self._steps.memory, previous_error=error[-_LONGEST_ERROR:])
        self._place.remember(memory)


def branch_for(key: str, tracker: str, forges: Mapping[str, Forge]) -> str:
    """The branch of a ticket; the tracker is part of it where the tickets of two could meet in one repository."""
    return f"{BRANCH_PREFIX}{slug(key, tracker if _shared(tracker, forges) else None)}"


def other_branch(request: PipelineRequest, forges: Mapping[str, Forge]) -> OtherName:
    """What the branch was called before trackers came or went; with no tracker in it, it may be another's."""
    shared = _shared(request.tracker, forges)
    name = f"{BRANCH_PREFIX}{slug(request.key, None if shared else request.tracker)}"
    return OtherName(name, ours=not shared)


def _shared(tracker: str, forges: Mapping[str, Forge]) -> bool:
    here = forges[tracker].clone_url
    return sum(forge.clone_url == here for forge in forges.values()) > 1


def account_of(
    context: RunContext,
    request: PipelineRequest,
    outcome: Outcome,
    steps: Sequence[StepLine],
    *,
    ticket: Ticket | None,
    text_changed: bool = False,
    kept: Sequence[str] = (),
) -> str:
    """What the ticket's comment tells about a run, with no secret in it (P8). `kept` says where its work is."""
    links = list(kept)
    if context.settings.link is not None:
        links.append(f"[Everything about this run]({context.settings.link.replace('{run}', request.run)})")
    elif outcome.to in (Status.FAILED, Status.WAITING):
        links.append(f"All of its output: `agentsmith logs {request.run}`")
    hints = []
    if outcome.question:
        hints.append(_ANSWER.format(prefix=context.trackers[request.tracker].labels.prefix, key=request.key))
    if ticket is not None:
        text_changed = text_hash(ticket.title, ticket.body) != request.pinned.sha256
    if text_changed:
        hints.append(TEXT_CHANGED)
    return logs.redact(account(note=outcome.note, steps=steps, output=outcome.output, links=links, hints=hints))
