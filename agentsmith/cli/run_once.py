"""`agentsmith run`: one ticket in the foreground, or what would happen to it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from agentsmith.cli import finding, output, session
from agentsmith.cli.pipelines import described
from agentsmith.cli.records import followed
from agentsmith.config import Config, Pipeline, Step
from agentsmith.config.lacking import demand
from agentsmith.config.models import secrets_in
from agentsmith.config.names import choices
from agentsmith.config.steps import NEEDS_CODE, AgentSettings
from agentsmith.daemon.foreground import Foreground, open_foreground
from agentsmith.daemon.open import open_forges, open_trackers
from agentsmith.domain.errors import ConfigError
from agentsmith.domain.gates import GateResult, is_asked_for, is_open, is_pending
from agentsmith.domain.gates import chosen as chosen_by_label
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.outcomes import Claimed, Deferred, Held, LookOutcome, NothingToDo, Rejected
from agentsmith.domain.report import duration_text
from agentsmith.domain.stop import StopReason
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Tracker
from agentsmith.pipelines.record import RunRecord, read
from agentsmith.running.branches import branch_for
from agentsmith.tickets.live_rules import rules_of

COMMAND: Final = "command"
"""What a pipeline is called that was put together on the command line: nobody else can run it."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the person asked for."""

    ticket: str
    command: tuple[str, ...]
    pipeline: str | None
    actor: str | None
    dry_run: bool
    as_json: bool


def run(file: Path | None, wanted: Wanted) -> bool:
    """Run the ticket, or show what would happen; False when it did not end in done, or could not run."""
    config = session.begin(file)
    return asyncio.run(_plan(config, wanted) if wanted.dry_run else _run(config, wanted))


async def _find(config: Config, wanted: Wanted) -> tuple[Tracker, Ticket]:
    async with open_trackers(config) as trackers:
        tracker, key = finding.find(wanted.ticket, trackers)
        return tracker, await finding.read(tracker, key)


def chosen(config: Config, ticket: Ticket, wanted: Wanted) -> tuple[str, Pipeline]:
    """The pipeline to run, under the name that it has; ConfigError when it is not clear which."""
    name = wanted.pipeline or ("run-script" if wanted.command else None)
    if name is None:
        matches = chosen_by_label(ticket, rules_of(config).triggers)
        if len(matches) != 1:
            why = "no label of it starts one" if not matches else "its labels start several"
            raise ConfigError(f"which pipeline? {why}; say --pipeline, one of {', '.join(config.pipelines)}")
        name = matches[0].pipeline
    if name not in config.pipelines:
        raise ConfigError(f"there is no pipeline {name!r}{choices(name, config.pipelines)}")
    pipeline = config.pipelines[name]
    return (COMMAND, with_command(name, pipeline, wanted.command)) if wanted.command else (name, pipeline)


def with_command(name: str, pipeline: Pipeline, command: tuple[str, ...]) -> Pipeline:
    """The pipeline with the command in the place of its first agent or command."""
    steps = list(pipeline.steps)
    for index, step in enumerate(steps):
        if step.kind in ("agent", "run"):
            mine = Step.read({"run": list(command), "id": step.id or step.kind})
            steps[index] = mine.model_copy(update={"condition": step.condition, "timeout": step.timeout})
            return pipeline.model_copy(update={"steps": tuple(steps)})
    raise ConfigError(f"pipeline {name!r} has no agent and no command whose place {command[0]!r} could take")


async def _plan(config: Config, wanted: Wanted) -> bool:
    """Show what a run would do; nothing is written anywhere."""
    tracker, ticket = await _find(config, wanted)
    name, pipeline = chosen(config, ticket, wanted)
    gates = [is_open(ticket), is_asked_for(session.whoever(wanted.actor)), is_pending(ticket, tracker.labels)]
    async with open_forges(config) as forges:
        forge = forges.get(ticket.tracker)
        code = {"url": forge.clone_url, "branch": branch_for(ticket.key, ticket.tracker, forges)} if forge else None
    plan = {
        "ticket": ticket.id,
        "title": ticket.title,
        "would_run": all(gate.passed for gate in gates),
        "gates": [asdict(gate) for gate in gates],
        "pipeline": {**described(name, pipeline, config), "agents": _agents(config, pipeline)},
        "code": code,
        "workspace": str(config.data_dir / "workspaces"),
    }
    if wanted.as_json:
        output.json_result(plan)
    else:
        _show(plan, gates)
    return bool(plan["would_run"])


def _agents(config: Config, pipeline: Pipeline) -> dict[str, list[str]]:
    found = {s.settings.agent or config.run.agent for s in pipeline.steps if isinstance(s.settings, AgentSettings)}
    return {name: list(config.agents[name].command) for name in sorted(found)}


def _show(plan: dict[str, Any], gates: list[GateResult]) -> None:
    output.say(f"{plan['ticket']}: {output.clean(plan['title'])}")
    for gate in gates:
        output.say(f"  {'open' if gate.passed else 'shut'}  {gate.gate.value}: {output.clean(gate.saw)}")
    code = plan["code"]
    output.say(f"Code      {code['url']}, branch {code['branch']}" if code else "Code      this tracker has none")
    output.say(f"Pipeline  {plan['pipeline']['name']}")
    output.rows(
        ("Step", "If", "With"),
        [(step["name"], step["if"], _brief(step["with"])) for step in plan["pipeline"]["steps"]],
    )
    for name, argv in plan["pipeline"]["agents"].items():
        output.say(f"Agent     {name}: {' '.join(argv)}")
    output.note("Nothing was changed." if plan["would_run"] else "It would not run: a gate is shut.")


def _brief(values: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items()) or "-"


def _demand_code(config: Config, tracker: str, pipeline: Pipeline) -> None:
    """SecretMissing now, rather than in the middle of the run, when its code cannot be had."""
    code = config.code_of(tracker)
    if code is not None and any(step.kind in NEEDS_CODE for step in pipeline.steps):
        for secret in secrets_in(code[1]):
            demand(secret)


async def _run(config: Config, wanted: Wanted) -> bool:
    _, ticket = await _find(config, wanted)
    name, pipeline = chosen(config, ticket, wanted)
    _demand_code(config, ticket.tracker, pipeline)
    who = session.whoever(wanted.actor)
    write: Callable[[str], None] = output.note if wanted.as_json else output.say
    async with open_foreground(config, {name: pipeline}) as here:
        outcome = await here.claim(ticket, name, who)
        if not isinstance(outcome, Claimed):
            return _refused(ticket, outcome, as_json=wanted.as_json)
        _listen(here, ticket, who)
        output.note(f"run {outcome.run} of {ticket.id}, pipeline {name}; Ctrl-C cancels it")
        over = asyncio.Event()
        following = asyncio.create_task(followed(config.data_dir, outcome.run, write, until=over))
        try:
            status = await here.run(ticket)
        finally:
            over.set()
            await following
    return _tell(ticket, status, read(config.data_dir, outcome.run), as_json=wanted.as_json)


def _listen(here: Foreground, ticket: Ticket, who: str) -> None:
    """The first Ctrl-C cancels the run, and waits for what that takes; the second ends at once."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        output.note("cancelling the run; once more ends it at once")
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        here.stop(ticket.id, StopReason.cancelled_by(who))

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)


def _refused(ticket: Ticket, outcome: LookOutcome, *, as_json: bool) -> bool:
    """Say why it cannot run now."""
    remedy = ""
    match outcome:
        case Rejected(gates=gates):
            shut = next(gate for gate in gates if not gate.passed)
            why, remedy = shut.saw, shut.remedy
        case NothingToDo(why=why) | Deferred(why=why) | Held(why=why):
            pass
        case _:
            why = type(outcome).__name__
    message = f"{ticket.id} cannot run now: {why}" + (f"; {remedy}" if remedy else "")
    if as_json:
        output.json_result({"ticket": ticket.id, "ok": False, "outcome": "not run", "message": message})
    else:
        output.note(output.clean(message))
    return False


def _tell(ticket: Ticket, status: Status, record: RunRecord | None, *, as_json: bool) -> bool:
    ok = status is Status.DONE
    if as_json:
        fields = asdict(record) if record is not None else {}
        output.json_result({"ticket": ticket.id, "ok": ok, "status": status.value, "run": fields})
        return ok
    if record is not None:
        output.title("Steps")
        output.rows(
            ("Step", "State", "Took", "Note"),
            [
                (
                    s.name,
                    s.state,
                    duration_text(s.duration) if s.duration is not None else "-",
                    s.note.splitlines()[0] if s.note else "",
                )
                for s in record.steps
            ],
        )
    note = f" ({output.clean(record.note.splitlines()[0])})" if record is not None and record.note else ""
    output.say(f"{ticket.id} is {status.value}{note}")
    return ok
