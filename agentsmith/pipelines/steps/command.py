"""Commands: any program is a worker. `run` is one, and `verify` is one that has to succeed."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import structlog

from agentsmith import redaction
from agentsmith.config.presets import VERIFY
from agentsmith.config.steps import Argument, CommandSettings, RunSettings, ScriptSettings, VerifySettings
from agentsmith.domain.errors import pass_over
from agentsmith.guard.client import CommandNotStarted, Exit
from agentsmith.pipelines.context import StepContext
from agentsmith.pipelines.outcome import ExitCode, StepEnd, Verdict
from agentsmith.pipelines.runner import TAIL, Command
from agentsmith.pipelines.worker import SAY, Said, keep_artifacts, quoted
from agentsmith.pipelines.workplace import ALWAYS_PASSED, passed_on

log = structlog.get_logger()

_SHELL: Final = ("/bin/sh",)
_LARGEST_SCRIPT: Final = 1024 * 1024
_CREDENTIAL: Final = re.compile(
    r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|_PASS|_PWD|_PAT|_AUTH|_COOKIE)$", re.I
)
_RANDOM: Final = re.compile(r"(?=[^\s:/]*[0-9])(?=[^\s:/]*[a-z])(?=[^\s:/]*[A-Z])[^\s:/]{20,}|[0-9a-f]{32,}")
"""Nobody makes up such a value, whatever the name of its variable."""
_SHORTEST_SECRET: Final = 8
_IGNORED: Final = (
    "A line of output began with `::` and did not count, since it could come from the ticket or from a file. A worker "
    f'says such things with `echo "${{{SAY}}}question Which one?"`, or in the status file.'
)


async def run(context: StepContext, settings: RunSettings) -> StepEnd:
    """Run the command."""
    end, _, _ = await carry_out(context, settings, argv_of(settings.command, settings))
    return end


async def verify(context: StepContext, settings: VerifySettings) -> StepEnd:
    """Run the gate: red leads to a draft or to a failed run, as configured."""
    if settings.command is not None:
        argv = argv_of(settings.command, settings)
    else:
        script = await _own_script(context)
        if script is None:
            note = f"There is nothing to verify with: no command is configured, and there is no `{VERIFY}`."
            return StepEnd(Verdict.SKIPPED, note)
        argv = (str(script),)
    end, _, _ = await carry_out(context, settings, argv)
    if settings.red == "draft" and end.verdict in (Verdict.FAILED, Verdict.TIMED_OUT):
        context.red.append(end.note)
        return StepEnd(Verdict.RED, end.note, end.output, end.code, end.signal, end.truncated)
    return end


async def _own_script(context: StepContext) -> Path | None:
    """The repository's gate as its default branch has it, so that no run can weaken the gate it is held to."""
    if context.checkout is None:
        return None
    content = await context.checkout.show(VERIFY, limit=_LARGEST_SCRIPT)
    if content is None:
        return None
    file = context.place.temporary / "verify"
    file.write_bytes(content)
    file.chmod(0o700)
    context.place.give(file)
    return file


def argv_of(command: Argument, settings: ScriptSettings) -> tuple[str, ...]:
    """A list as it is; a text for the shell that the step names."""
    if isinstance(command, tuple):
        return command
    return (*(settings.shell or _SHELL), "-c", command)


async def carry_out(
    context: StepContext,
    settings: CommandSettings,
    argv: tuple[str, ...],
    *,
    names: tuple[str, ...] = (),
    stdin: Path | None = None,
    tail_limit: int = TAIL,
    report: Path | None = None,
) -> tuple[StepEnd, Said, Exit | None]:
    """Run a worker, take in what it says, and judge how it ended. `names` are further variables that it may see."""
    place = context.place
    cwd = place.work / settings.working_directory if settings.working_directory else place.work
    if not cwd.resolve().is_relative_to(place.work.resolve()):
        note = f"Step `{shown(context.step.name)}` would run outside the workspace: `working_directory` is a link."
        return StepEnd(Verdict.BAD_CONFIGURATION, note), Said(), None
    allowed = passed_on((*context.pipeline.env, *names, *settings.env))
    _keep_quiet_about(allowed)
    said = Said(say=context.say, on_progress=lambda text: context.recorder.progress(context.index, text))
    try:
        place.status_file.unlink()
    except OSError as error:  # mostly there is none; whatever else a worker made of it is not read either
        pass_over(error)
    command = Command(
        argv=argv,
        env={**allowed, **context.env},
        cwd=cwd,
        log=place.log,
        log_limit=context.limits.log_limit,
        timeout=context.left,
        stall=context.limits.stall_timeout,
        stdin=stdin,
        tail_limit=tail_limit,
        report=report,
    )
    try:
        async with _going_on(context):
            ended = await context.runner.run(command, said.hear)
    except CommandNotStarted as error:
        return StepEnd(Verdict.FAILED, f"Step `{shown(context.step.name)}` could not start: {error}"), said, None
    said.read_status(place.status_file)
    if ended.unheard:
        context.warn(
            f"The worker said more than is heard: of `usage` and `artifact`, {ended.unheard} lines did not count. "
            "Say them less often, or write them in the status file."
        )
    await _take_in(context, said)
    return judge(context.step.name, replace(ended, tail=quoted(ended.tail, context.say)), said), said, ended


@contextlib.asynccontextmanager
async def _going_on(context: StepContext) -> AsyncIterator[None]:
    """Cancel what runs beside the command together with it."""
    beside = asyncio.ensure_future(context.alongside()) if context.alongside and context.checkout else None
    try:
        yield
    finally:
        if beside is not None:
            beside.cancel()
            await asyncio.wait({beside})
            if not beside.cancelled() and (error := beside.exception()) is not None:
                log.error("what ran beside a command failed", run=context.request.run, exc_info=error)


async def _take_in(context: StepContext, said: Said) -> None:
    record = context.recorder.record
    context.recorder.spent(context.index, said.usage)
    context.summary = said.summary or context.summary
    record.question, record.summary = said.question, context.summary
    if said.ignored:
        context.warn(_IGNORED)
    if said.unread:
        context.warn("The status file is longer than 1 MiB: it may say something that was not read.")
    if not said.artifacts:
        return
    kept, left = await asyncio.to_thread(
        keep_artifacts,
        said.artifacts,
        inside=context.place.work,
        folder=context.place.artifacts,
        limit=context.limits.artifact_limit,
    )
    record.artifacts += kept
    record.not_kept += left
    if said.more_artifacts:
        record.not_kept.append(f"{said.more_artifacts} more: of one step, {len(said.artifacts)} are kept")


def judge(step: str, ended: Exit, said: Said) -> StepEnd:
    """What a worker's exit means."""
    name = shown(step)

    def end(verdict: Verdict, note: str) -> StepEnd:
        return StepEnd(verdict, note, ended.tail.strip(), ended.code, ended.signal, ended.truncated)

    if ended.stopped:
        return end(Verdict.STOPPED, f"Step `{name}` was stopped: {ended.stopped}")
    if ended.stalled:
        return end(
            Verdict.TIMED_OUT, f"Step `{name}` was stopped: it printed nothing for too long (`run.stall_timeout`)."
        )
    if ended.timed_out:
        return end(Verdict.TIMED_OUT, f"Step `{name}` ran into its time limit.")
    match ended.code:
        case ExitCode.DONE if not said.question:
            return StepEnd(Verdict.DONE, code=0, truncated=ended.truncated)
        case ExitCode.QUESTION | ExitCode.DONE:
            asked = f"Step `{name}` has a question for a person.{f' {_IGNORED}' if said.ignored else ''}"
            return end(Verdict.QUESTION, said.question or asked)
        case ExitCode.TRY_LATER:
            return end(Verdict.TRY_LATER, f"Step `{name}` asked to be tried again later.")
        case ExitCode.NOT_PERMITTED:
            return end(Verdict.NOT_PERMITTED, f"Step `{name}` says that it may not do this.")
        case ExitCode.BAD_CONFIGURATION:
            return end(Verdict.BAD_CONFIGURATION, f"Step `{name}` is not set up right.")
    how = f"signal {ended.signal}" if ended.code is None else f"exit code {ended.code}"
    return end(Verdict.FAILED, f"Step `{name}` failed with {how}.")


def shown(name: str) -> str:
    """A step's name between back-ticks."""
    return name.replace("`", "'")


def _keep_quiet_about(env: dict[str, str]) -> None:
    """A credential that a step is given may turn up in its output or its work; redact it from now on (P8)."""
    for name, value in env.items():
        for secret in credentials_in(name, value):
            if secret not in _known:
                _known.add(secret)
                redaction.register_secret(secret)


def credentials_in(name: str, value: str) -> Iterator[str]:
    """What of a variable is secret: all of it, or the password of an address."""
    if name in ALWAYS_PASSED:
        return
    if (_CREDENTIAL.search(name) and len(value) >= _SHORTEST_SECRET) or _RANDOM.fullmatch(value):
        yield value
    try:
        password = urlsplit(value).password if "://" in value else None
    except ValueError:
        return
    if password and len(password) >= _SHORTEST_SECRET:
        yield password
        yield unquote(password)


_known: Final[set[str]] = set()
