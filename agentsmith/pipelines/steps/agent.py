"""The coding agent: prompt in, work in the checkout, and what it says about itself read from its output."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Final

from agentsmith.config import Agent
from agentsmith.config.presets import PROMPT
from agentsmith.config.steps import AgentSettings
from agentsmith.pipelines.agents import argv_for, format_of, reads_stdin
from agentsmith.pipelines.apart import NotUsable, TooMuch, evaluate
from agentsmith.pipelines.context import StepContext
from agentsmith.pipelines.git import Conflicted
from agentsmith.pipelines.outcome import StepEnd, Verdict
from agentsmith.pipelines.prompt import BUILT_IN, PromptFacts, make_prompt
from agentsmith.pipelines.reports import AgentReport, safe_session
from agentsmith.pipelines.steps.command import carry_out
from agentsmith.pipelines.templates import LARGEST_SOURCE, BadTemplate
from agentsmith.pipelines.worker import quoted
from agentsmith.pipelines.workplace import with_session

_TAIL: Final = 64 * 1024


async def agent(context: StepContext, settings: AgentSettings) -> StepEnd:
    """Have the agent work; goes on with its last session where it can, and starts a new one where that is gone."""
    name = settings.agent or context.default_agent
    preset = context.agents.get(name)
    if preset is None:
        return StepEnd(Verdict.BAD_CONFIGURATION, f"There is no agent `{name}` any more; see `agents`.")
    try:
        await write_prompt(context, settings)
    except (BadTemplate, NotUsable) as error:
        return StepEnd(Verdict.BAD_CONFIGURATION, f"The template of the prompt cannot be used: {error}")
    except TooMuch as error:
        note = f"The template of the prompt {error}; make `{PROMPT}` on the repository's default branch simpler."
        return StepEnd(Verdict.BAD_CONFIGURATION, note)
    session = safe_session(context.memory.sessions.get(name, "")) if settings.resume else ""
    end, report = await _work(context, settings, preset, session)
    if session and end.verdict is Verdict.FAILED and not report.usage and not report.answer:
        # It did not even begin: the session is gone, with its home or its machine.
        end, report = await _work(context, settings, preset, "")
    if report.session:
        context.memory = with_session(context.memory, name, report.session)
        context.place.remember(context.memory)
    context.summary = context.recorder.record.summary = context.summary or report.answer
    return replace(end, output=report.answer) if report.answer and end.output else end


async def _work(
    context: StepContext, settings: AgentSettings, preset: Agent, session: str
) -> tuple[StepEnd, AgentReport]:
    prompt, log = context.place.prompt_file, context.place.log
    start = log.stat().st_size if log.exists() else 0
    end, said = await carry_out(
        context,
        settings,
        argv_for(preset, prompt_file=prompt, session=session, args=settings.args),
        names=preset.env,
        stdin=prompt if reads_stdin(preset) else None,
        tail_limit=_TAIL,
    )
    report = await _read(context, preset, start)
    if report.usage and not said.usage:
        context.recorder.spent(context.index, report.usage)
    session = safe_session(said.session) or report.session
    return end, replace(report, session=session, answer=quoted(report.answer, context.say))


async def _read(context: StepContext, preset: Agent, start: int) -> AgentReport:
    given = {"format": asdict(format_of(preset)), "output": str(context.place.log), "start": start}
    try:
        return AgentReport.of(await evaluate(context.shell, "report", given))
    except TooMuch as error:
        context.warn(f"What the agent printed could not be read: it {error}.")
        return AgentReport()


async def write_prompt(context: StepContext, settings: AgentSettings) -> None:
    """Write the prompt file: from the step's template, the repository's, or the built-in one, in this order."""
    facts = facts_of(context, settings.task)
    theirs: bytes | None = None
    if settings.prompt is None and context.checkout is not None:
        theirs = await context.checkout.show(PROMPT, limit=LARGEST_SOURCE)
    if theirs:
        given = {"template": theirs.decode("utf-8", "replace"), "facts": asdict(facts)}
        prompt = str(await evaluate(context.shell, "prompt", given))
    else:
        prompt = make_prompt(settings.prompt or BUILT_IN[settings.task], facts)
    context.place.write(context.place.prompt_file, prompt)


def facts_of(context: StepContext, task: str = "do") -> PromptFacts:
    """What a prompt of this run is made of."""
    request, ticket = context.request, context.ticket
    conflicts: tuple[str, ...] = ()
    if context.checkout is not None and isinstance(context.checkout.merge, Conflicted):
        conflicts = context.checkout.merge.paths
    return PromptFacts(
        id=request.ticket,
        key=request.key,
        url=ticket.url,
        platform=context.platform,
        title=request.pinned.title,
        body=request.pinned.body,
        author=ticket.author,
        labels=tuple(sorted(ticket.labels)),
        pipeline=request.pipeline,
        task=task,
        branch=context.checkout.branch if context.checkout else "",
        conflicts=conflicts,
        attempt=request.attempt,
        wake_reason=request.wake_reason or "",
        previous_error=context.memory.previous_error,
    )
