"""The work of one run: its pipeline in its folders, and what is kept of it however it ends.

Between the run, which owns lease and outcome, and the engine, which knows neither Redis nor trackers.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

import structlog

from agentsmith import redaction
from agentsmith.domain.errors import LeaseLost, MachineTrouble, describe
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.ticket import Ticket
from agentsmith.git import Diverged, GitError, GuardShell, Pushed, SecretsFound
from agentsmith.guard import cgroups
from agentsmith.guard.client import Guard, GuardDied
from agentsmith.pipelines import engine
from agentsmith.pipelines.context import CodePlace, StepContext
from agentsmith.pipelines.outcome import Outcome
from agentsmith.pipelines.prompt import BUILT_IN, make_prompt
from agentsmith.pipelines.record import Recorder
from agentsmith.pipelines.runner import ProcessRunner, confinement_for
from agentsmith.pipelines.steps.agent import facts_of
from agentsmith.pipelines.workplace import WORKSPACES, Workplace, environment
from agentsmith.running.account import account_of
from agentsmith.running.branches import branch_for, is_ours, other_branch
from agentsmith.running.live_comment import LiveComment
from agentsmith.running.live_run import LiveRun
from agentsmith.running.stages import Ended, Started
from agentsmith.running.ticket_writer import LockedTicketWriter

log = structlog.get_logger()

_SAVE_WITHIN: Final = 120.0
_SAVE_ON_DRAIN: Final = 10.0
"""A process that ends gives a run back soon, pushed or not: what was not pushed stays on this machine."""
_LONGEST_ERROR: Final = 4_000


async def work(live: LiveRun, started: Started) -> Ended:
    """Carry out the pipeline, with the ticket's comment kept up to date beside it."""
    at, comment, opened = started.at, LiveComment(live.run, started), None
    outcome, error = None, None
    try:
        opened = await PipelineRun.open(live, started, comment)
        commenting = asyncio.create_task(comment.keep(opened.account))
        try:
            outcome = await opened.carry_out()
        finally:
            commenting.cancel()
            await asyncio.wait({commenting})
    except asyncio.CancelledError:  # whoever cancelled it knows why
        pass
    except Exception as raised:
        error = raised
    if opened is not None:
        at = replace(at, ticket=opened.ticket, pipeline_run=opened)
    return Ended(at, outcome, error)


class PipelineRun:
    """The pipeline of one run: its folders, its record, and what its steps are given."""

    @classmethod
    async def open(cls, live: LiveRun, started: Started, comment: LiveComment) -> PipelineRun:
        """Make the run's folders, and see where its work stands; `leave` when all of it has ended."""
        context, request = live.run.context, started.at.request
        branch = await context.store.remembered_branch(request.ticket)
        place = await Workplace.make(context.data_dir, request, context.user)
        try:
            return cls(live, started, comment, place, branch)
        except BaseException:
            place.leave()
            raise

    def __init__(self, live: LiveRun, started: Started, comment: LiveComment, place: Workplace, branch: str) -> None:
        self._context, self._request, self._lease = live.run.context, started.at.request, live.lease
        self._comment, self._place = comment, place
        self._writer = LockedTicketWriter(live, started)
        self._recorder = Recorder(
            place.run,
            self._request,
            started.pipeline,
            fence=live.run.lease.fence,
            platform=started.tracker.platform,
            on_change=comment.changed,
        )
        self._second: Guard | None = None
        self._saved = ""
        self._steps = self._make_context(started, branch)

    def _make_context(self, started: Started, branch: str) -> StepContext:
        context, request, place = self._context, self._request, self._place
        settings, platform, wake = context.settings, started.tracker.platform, started.at.wake
        shell = GuardShell(started.guard, place.run / "git")
        return StepContext(
            request=request,
            ticket=started.ticket,
            platform=platform,
            pipeline=started.pipeline,
            place=place,
            runner=ProcessRunner(started.guard, confinement_for(context.user, settings.limits)),
            shell=shell,
            limits=context.limits,
            agents=started.agents,
            default_agent=settings.agent,
            ticket_writer=self._writer,
            permit=self._lease,
            recorder=self._recorder,
            env=environment(request, started.ticket, platform, place, wake),
            wake=wake,
            code=self._code(shell, branch),
            alongside=self._checkpoints if settings.checkpoint_every is not None else None,
            memory=place.remembered(),
        )

    @property
    def ticket(self) -> Ticket:
        """As it was last read or written."""
        return self._writer.ticket

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
        """Push what is not finished, close the record, and remove what only the run needed."""
        try:
            if outcome.to is not Status.DONE and self._lease.lost is None:
                await self._save(outcome)
            if self._steps.checkout is not None:
                await self._steps.checkout.close()
        finally:
            if self._second is not None:
                await self._second.close()
            self._remember(outcome)
            self._recorder.conclude(
                outcome.to.value if outcome.to else None, outcome.word, redaction.redact(outcome.note)
            )
            self._place.clear_temporary()
            cgroups.clear(self._context.settings.limits)

    def leave(self) -> None:
        """Release the run's folders: nothing of it uses them any more, and they may be removed."""
        self._place.leave()

    def account(self, outcome: Outcome) -> str:
        """What the ticket's comment tells about the run."""
        return account_of(
            self._context,
            self._request,
            outcome,
            self._recorder.lines(),
            text_changed=self._comment.text_changed,
            results=self._results(outcome),
        )

    def _results(self, outcome: Outcome) -> list[str]:
        """Where people find what was made, however the run ended; one that is done names its pull request anyway."""
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
                    begin_write=self._lease.begin_write,
                )
        except (LeaseLost, GuardDied) as error:
            self._lease.lose(str(error))
        except TimeoutError:
            self._saved = f"What was done so far could not be pushed within {within:.0f} s; it is kept on its machine."
        except (GitError, MachineTrouble, OSError) as error:
            self._saved = f"What was done so far could not be pushed ({describe(error)}); it is kept on its machine."
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
                    begin_write=self._lease.begin_write,
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
                trusted_until=self._lease.until, grace=self._context.kill_grace, release=None
            )
            self._lease.watch_over(self._second)
        return self._second

    def _code(self, shell: GuardShell, remembered: str) -> CodePlace | None:
        forges, request = self._context.forges, self._request
        forge = forges.get(request.tracker)
        if forge is None:
            return None
        if is_ours(remembered):
            name, other = remembered, None
        else:
            name, other = branch_for(request.key, request.tracker, forges), other_branch(request, forges)
        return CodePlace(forge, self._context.data_dir / WORKSPACES, name, shell, other, self._keep_branch)

    async def _keep_branch(self, branch: str) -> None:
        store = self._context.store
        await store.outage.outlast(lambda: store.remember_branch(self._request.ticket, branch))

    def _remember(self, outcome: Outcome) -> None:
        if outcome.give_back:
            return
        error = "" if outcome.to is Status.DONE else redaction.redact(f"{outcome.note}\n{outcome.output}").strip()
        memory = replace(self._steps.memory, previous_error=error[-_LONGEST_ERROR:])
        self._place.remember(memory)
