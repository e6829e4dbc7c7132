"""The coding agent: prompt in, work in the checkout, and what it says about itself read from its output."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from agentsmith.config import Agent
from agentsmith.config.presets import PROMPT
from agentsmith.config.steps import AgentSettings
from agentsmith.pipelines.agents import AgentReport, argv_for, read_output, reads_stdin, safe_session
from agentsmith.pipelines.context import StepContext
from agentsmith.pipelines.git import Conflicted
from agentsmith.pipelines.outcome import StepEnd, Verdict
from agentsmith.pipelines.prompt import BUILT_IN, PromptFacts, make_prompt
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
    except BadTemplate as error:
        return StepEnd(Verdict.BAD_CONFIGURATION, f"The template of the prompt cannot be used: {error}")
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
    report = await asyncio.to_thread(read_output, preset, log, start=start)
    if report.usage and not said.usage:
        context.recorder.spent(context.index, report.usage)
    session = safe_session(said.session) or report.session
    return end, replace(report, session=session, answer=quoted(report.answer, context.say))


async def write_prompt(context: StepContext, settings: AgentSettings) -> None:
    """Write the prompt file: from the step's template, the repository's, or the built-in one, in this order."""
    template = settings.prompt
    if template is None and context.checkout is not None:
        found = await context.checkout.show(PROMPT, limit=LARGEST_SOURCE)
        template = found.decode("utf-8", "replace") if found is not None else None
    facts = facts_of(context, settings.task)
    context.place.write(context.place.prompt_file, make_prompt(template or BUILT_IN[settings.task], facts))


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
