"""`agentsmith run`, `runs`, `logs` and `pipelines`: what they are called, their options and help."""

from __future__ import annotations

from typing import Annotated

import typer

from agentsmith.cli import completing
from agentsmith.cli.options import Actor, AsJson, ConfigFile, Ticket, prose


def add_to(app: typer.Typer) -> None:
    """Make the commands part of `app`."""
    for command in (run, runs, logs, pipelines):
        app.command(help=prose(command.__doc__ or ""))(command)


def run(
    ticket: Ticket,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND …]",
            help="Run this in the place of the pipeline's first agent or command.",
            show_default=False,
        ),
    ] = None,
    pipeline: Annotated[
        str | None,
        typer.Option(
            "--pipeline",
            metavar="NAME",
            help="Which one; else the one that its label starts.",
            autocompletion=completing.pipelines,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would happen.")] = False,
    actor: Actor = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Run one ticket here and now, without a daemon.

    Its label changes, its comment tells and its work is pushed as always, and nobody else can run it meanwhile. Only
    the label that starts a pipeline is not needed. Ctrl-C cancels the run. Exit code 1: the ticket is not done.

    With a command and no pipeline, run-script is the pipeline.

    \b
    Example:
      agentsmith run 3 --pipeline fix-bug
      agentsmith run 3 -- make format
      agentsmith run github.com/acme/web#12 --pipeline fix-bug --dry-run
    """
    from agentsmith.cli import run_once

    wanted = run_once.Wanted(
        ticket=ticket, command=tuple(command or ()), pipeline=pipeline, actor=actor, dry_run=dry_run, as_json=as_json
    )
    if not run_once.run(config, wanted):
        raise typer.Exit(1)


def runs(
    ticket: Annotated[
        str | None,
        typer.Argument(
            metavar="[TICKET]",
            help="Only the runs of this ticket.",
            show_default=False,
            autocompletion=completing.tickets,
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="At most so many, newest first.")] = 20,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """See what was run on this machine, and how it went.

    \b
    Example:
      agentsmith runs
      agentsmith runs 3 --json | jq '.[0].usage'
    """
    from agentsmith.cli import records

    records.runs(config, ticket, limit=limit, as_json=as_json)


def logs(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A run, the beginning of its name, or a ticket: its latest run.",
            show_default=False,
            autocompletion=completing.runs,
        ),
    ],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run ends.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show the output of a run on this machine.

    \b
    Example:
      agentsmith logs 20260314-101502-1f0c2a9b
      agentsmith logs 3 --follow
      agentsmith logs 3 --json | jq -r '.lines[-1]'
    """
    from agentsmith.cli import records

    records.logs(config, run, follow=follow, as_json=as_json)


def pipelines(as_json: AsJson = False, config: ConfigFile = None) -> None:
    """List the pipelines that a label can start.

    Those of the configuration, and the presets that need none.

    \b
    Example:
      agentsmith pipelines
      agentsmith pipelines --json | jq '.[] | select(.name == "fix-bug").steps'
    """
    from agentsmith.cli import pipelines as command

    command.pipelines(config, as_json=as_json)
