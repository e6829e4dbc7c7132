"""The checkout and what comes of it: `checkout`, `commit` and `push`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from agentsmith.config.steps import CheckoutSettings, CommitSettings, PushSettings
from agentsmith.domain.errors import TrackerError
from agentsmith.git import (
    Checkout,
    Conflicted,
    Diverged,
    GitError,
    Pushed,
    PushOutcome,
    SecretsFound,
    open_checkout,
)
from agentsmith.guard.client import User
from agentsmith.pipelines.context import StepContext
from agentsmith.pipelines.outcome import StepEnd, Verdict, done, failed
from agentsmith.pipelines.templates import BadTemplate, render
from agentsmith.pipelines.words import values


async def checkout(context: StepContext, settings: CheckoutSettings) -> StepEnd:
    """Bring the workspace to where the work on the ticket's branch stands."""
    code = context.code
    if code is None:
        tracker = context.request.tracker
        note = f"The tracker `{tracker}` has no repository for its code; name one in `trackers.{tracker}.code`."
        return StepEnd(Verdict.BAD_CONFIGURATION, note)
    try:
        context.checkout = await open_checkout(
            code.forge,
            root=code.root,
            workspace=context.place.work,
            branch=code.branch,
            other=code.other,
            base=settings.base,
            shell=code.shell,
            submodules=settings.submodules,
            lfs=settings.lfs,
        )
    except (GitError, TrackerError) as error:
        return gone_wrong("The repository could not be checked out", error)
    if context.place.user is not None:
        await asyncio.to_thread(_give_all, context.place.work, context.place.user)
    context.recorder.record.branch = context.checkout.branch
    await code.keep(context.checkout.branch)
    return done(" ".join(_found(context.checkout)))


def _found(opened: Checkout) -> list[str]:
    told = [f"It goes on from the branch `{opened.branch}`."] if opened.resumed else []
    if isinstance(opened.merge, Conflicted):
        told.append(f"Merging `{opened.base}` left conflicts in {len(opened.merge.paths)} files.")
    return [*told, *opened.notes]


def _give_all(folder: Path, user: User) -> None:
    """Let the steps' user have everything in the folder; links are given, not followed."""
    for top, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            os.chown(os.path.join(top, name), user.uid, user.gid, follow_symlinks=False)


async def commit(context: StepContext, settings: CommitSettings) -> StepEnd:
    """Commit all that is in the workspace."""
    opened = context.checkout
    if opened is None:
        return no_checkout()
    try:
        message = render(settings.message, values(context)).strip() or f"Work on {context.request.key}"
        made = await opened.commit(message, trailers=trailers(context))
    except BadTemplate as error:
        return StepEnd(Verdict.BAD_CONFIGURATION, f"The template of the commit message cannot be used: {error}")
    except GitError as error:
        return gone_wrong("The changes could not be committed", error)
    return done(f"Commit {made[:12]}." if made else "There was nothing new to commit.")


async def push(context: StepContext, settings: PushSettings) -> StepEnd:  # noqa: ARG001 - it has no settings
    """Push what was committed, never by force."""
    opened = context.checkout
    if opened is None:
        return no_checkout()
    try:
        if not opened.resumed and not await opened.changed():
            return done("There is nothing to push.")
        return told(await opened.push(context.pen.begin_write))
    except GitError as error:
        return gone_wrong("The branch could not be pushed", error)


def told(pushed: PushOutcome) -> StepEnd:
    """What a push means for its step."""
    match pushed:
        case Pushed(commit=commit, moved=moved):
            return done(f"The branch is at {commit[:12]}." if moved else "The branch was there already.")
        case Diverged():
            return failed(
                f"Nothing was pushed: {pushed}. The next run starts from the server's branch; "
                "what this one did is kept on the machine that it ran on."
            )
        case SecretsFound():
            return failed(f"Nothing was pushed: {pushed}. Remove them from the work, and change them if they are real.")


def trailers(context: StepContext) -> dict[str, str]:
    """What every commit of ours says about where it comes from."""
    return {"Agentsmith-Run": context.request.run, "Agentsmith-Pipeline": context.request.pipeline}


def gone_wrong(what: str, error: GitError | TrackerError) -> StepEnd:
    """The end of a step whose server did not do its part: later, if that can help."""
    return StepEnd(Verdict.TRY_LATER if error.retryable else Verdict.FAILED, f"{what}: {error}")


def no_checkout() -> StepEnd:
    """The end of a step that needs one where there is none."""
    return StepEnd(Verdict.BAD_CONFIGURATION, "There is no checkout: its step was skipped.")
