"""What a pipeline may do on its ticket: comment, and set people's labels."""

from __future__ import annotations

from agentsmith.config.steps import CommentSettings, LabelSettings
from agentsmith.domain.errors import ConfigError, TrackerError
from agentsmith.pipelines.context import StepContext
from agentsmith.pipelines.outcome import StepEnd, Verdict, done
from agentsmith.pipelines.steps.code import gone_wrong
from agentsmith.pipelines.templates import BadTemplate, render
from agentsmith.pipelines.words import values


async def comment(context: StepContext, settings: CommentSettings) -> StepEnd:
    """Post a comment of its own."""
    try:
        text = render(settings.text, values(context)).strip()
    except BadTemplate as error:
        return StepEnd(Verdict.BAD_CONFIGURATION, f"The template of the comment cannot be used: {error}")
    if not text:
        return done("There was nothing to say.")
    try:
        await context.ticket_writer.say(text)
    except TrackerError as error:
        return gone_wrong("The comment could not be written", error)
    return done()


async def label(context: StepContext, settings: LabelSettings) -> StepEnd:
    """Add and remove labels."""
    try:
        await context.ticket_writer.relabel(add=settings.add, remove=settings.remove)
    except ConfigError as error:
        return StepEnd(Verdict.BAD_CONFIGURATION, f"The labels are not set: {error}")
    except TrackerError as error:
        return gone_wrong("The labels could not be set", error)
    return done()
