"""The coding agent: prompt in, work in the checkout, and what it says about itself read from its output."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from agentsmith.config import Agent
from agentsmith.config.presets import PROMPT
from agentsmith.config.steps import AgentSettings
from agentsmith.git import Conflicted
from agentsmith.guard.client import Exit
from agentsmith.pipelines.agents import argv_for, format_of, reads_stdin
from agentsmith.pipelines.apart import NotUsable, TooMuch, evaluate
from agentsmith.pipelines.context import StepContext
from agentsmith.pipelines.outcome import StepEnd, Verdict
from agentsmith.pipelines.prompt import BUILT_IN, PromptFacts, make_prompt
from agentsmith.pipelines.reports import AgentReport, safe_session
from agentsmith.pipelines.steps.command import carry_out
from agentsmith.pipelines.templates import LARGEST_SOURCE, BadTemplate
from agentsmith.pipelines.worker import quoted
from agentsmith.pipelines.workplace import with_session

_TAIL: Final = 64 * 1024
_TO_BEGIN: Final = 10.0
"""Seconds within which an agent says that there is no such session; one that ran for longer has worked."""
_REFUSAL: Final = 4096
"""Bytes in which it says so; one that printed more has worked."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One start of the agent."""

    end: StepEnd
    report: AgentReport
    ended: Exit | None = None
    silent: bool = False
    """Whether it ran and told of no work. A session is none: who finds no such session may name a new one."""

    def refused(self) -> bool:
        """Whether it ended before it began to work."""
        ended = self.ended
        if ended is None or ended.code is None or not self.silent:
            return False
        return ended.duration < _TO_BEGIN and ended.printed < _REFUSAL


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
    attempt = await _work(context, settings, preset, session)
    if session and attempt.end.verdict is Verdict.FAILED and attempt.refused():
        # The session is gone, with its home or its machine.
        context.warn(
            f"The agent `{name}` did not go on with its last session: it ended at once and told of no work. "
            "A new session was started."
        )
        attempt = await _work(context, settings, preset, "")
    end, report = attempt.end, attempt.report
    if report.session or (end.verdict is Verdict.FAILED and attempt.silent):
        # It is not started twice at double cost, but if the session was the trouble, the next attempt has another.
        context.memory = with_session(context.memory, name, report.session)
        context.place.remember(context.memory)
    context.summary = context.recorder.record.summary = context.summary or report.answer
    return replace(end, output=report.answer) if report.answer and end.output else end


async def _work(context: StepContext, settings: AgentSettings, preset: Agent, session: str) -> _Attempt:
    prompt, output = context.place.prompt_file, context.shell.scratch / "printed"
    _clear(output)  # a consumer that died in this run could not
    try:
        end, said, ended = await carry_out(
            context,
            settings,
            argv_for(preset, prompt_file=prompt, session=session, args=settings.args),
            names=preset.env,
            stdin=prompt if reads_stdin(preset) else None,
            tail_limit=_TAIL,
            report=output,
        )
        report = await _read(context, preset, _parts(output), ended.printed if ended else 0)
    finally:
        _clear(output)
    if report.usage and not said.usage:
        context.recorder.spent(context.index, report.usage)
    report = replace(
        report, session=safe_session(said.session) or report.session, answer=quoted(report.answer, context.say)
    )
    worked = report.usage or report.answer or said.usage or said.summary or said.progress
    return _Attempt(end, report, ended, silent=ended is not None and not worked)


def _parts(output: Path) -> list[Path]:
    """What the guard kept of the agent's output, from its beginning to its end."""
    found = [part for part in output.parent.glob(f"{output.name}.*") if part.suffix[1:].isdecimal() and part.is_file()]
    return sorted(found, key=lambda part: int(part.suffix[1:]))


def _clear(output: Path) -> None:
    for part in _parts(output):
        part.unlink(missing_ok=True)


async def _read(context: StepContext, preset: Agent, parts: list[Path], printed: int) -> AgentReport:
    if sum(part.stat().st_size for part in parts) < printed:
        context.warn(
            f"The agent printed {printed} bytes, not all of which could be kept until it ended: "
            "its usage may be more than is told here."
        )
    given = {"format": asdict(format_of(preset)), "parts": [str(part) for part in parts]}
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
        question=context.wake.question.text if context.wake.question is not None else "",
        answers="\n\n".join(f"{note.author}, {note.when}:\n{note.text}" for note in context.wake.notes),
    )
