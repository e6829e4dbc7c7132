"""The pull request: made once, found again and brought up to date, a draft while a check is red."""

from __future__ import annotations

from typing import Final

from agentsmith.config.steps import PullRequestSettings
from agentsmith.domain.errors import TrackerError
from agentsmith.domain.forge import NoPullRequests, NothingToPropose, WantedPullRequest
from agentsmith.git import GitError
from agentsmith.pipelines.context import StepContext
from agentsmith.pipelines.outcome import StepEnd, Verdict, done, failed
from agentsmith.pipelines.steps.code import gone_wrong, no_checkout
from agentsmith.pipelines.templates import BadTemplate, render
from agentsmith.pipelines.words import BODY, values

_NOTHING: Final = "Nothing was changed, so there is nothing to propose."


async def pull_request(context: StepContext, settings: PullRequestSettings) -> StepEnd:
    """Propose what the branch holds beyond its base."""
    opened, code = context.checkout, context.code
    if opened is None or code is None:
        return no_checkout()
    try:
        if not await opened.changed():
            return failed(_NOTHING) if context.pipeline.needs_changes else done(_NOTHING)
        words = values(context)
        wanted = WantedPullRequest(
            branch=opened.branch,
            base=opened.base,
            title=render(settings.title, words).strip() or f"Work on {context.request.key}",
            body=render(settings.body or BODY, words).strip(),
            draft=settings.draft or bool(context.red),
            ticket=context.ticket,
        )
        await context.pen.begin_write()
        made = await code.forge.ensure(wanted, deadline=min(context.pen.until, context.deadline))
    except BadTemplate as error:
        return StepEnd(Verdict.BAD_CONFIGURATION, f"The template of the pull request cannot be used: {error}")
    except NothingToPropose:
        return failed(f"{_NOTHING} Is there a `push` before the `pull_request`?")
    except NoPullRequests as error:
        return StepEnd(Verdict.BAD_CONFIGURATION, str(error))
    except (GitError, TrackerError) as error:
        return gone_wrong("The pull request could not be made", error)
    context.pull_request = made
    context.recorder.record.pull_request = made.url
    return done(f"{'Draft' if made.draft else 'Pull request'} {made.url}")
