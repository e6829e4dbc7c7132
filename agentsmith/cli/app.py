"""The `agentsmith` command: its parts, and what every ending means to a shell.

Exit codes: 0 fine, 1 the answer is no, 2 bad input or configuration, 130 interrupted. Never a traceback, unless
AGENTSMITH_DEBUG is set.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from agentsmith import __version__, privacy
from agentsmith.cli import (
    commands,
    config_commands,
    dead_letter_commands,
    failing,
    inherited,
    output,
    run_commands,
    ticket_commands,
    webhook_commands,
)
from agentsmith.cli.options import help_without_command

app = typer.Typer(
    name="agentsmith",
    # Panels and colours for people; plain text where the help is piped.
    rich_markup_mode="rich" if output.fancy() else None,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        output.say(f"agentsmith {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def agentsmith(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Label a ticket, work happens, and the ticket's label tells you how it went.

    \b
    Try these first:
      agentsmith demo                 see it all in ten seconds, nothing to set up
      agentsmith up                   start everything on this machine
      agentsmith ticket new --title "Say hello" --label agent-smith
      agentsmith init                 then write a configuration for your tracker

    Every command takes --help. Options go after the command.
    """
    help_without_command(context)


commands.add_to(app)
run_commands.add_to(app)
app.add_typer(ticket_commands.app, name="ticket")
app.add_typer(config_commands.app, name="config")
app.add_typer(webhook_commands.app, name="webhooks")
app.add_typer(dead_letter_commands.app, name="dead-letters")


def main() -> None:
    """Run the command line and leave with its exit code."""
    inherited.put_right()
    privacy.keep_to_ourselves()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """The exit code of these arguments; whatever goes wrong is one clear message."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that knows few letters shows a `?`, rather than nothing at all.
            stream.reconfigure(errors="replace")
    try:
        with output.quiet_pipe():
            code = typer.main.get_command(app).main(args=list(arguments), prog_name="agentsmith", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except typer.TyperException as error:
        failure = failing.misused(error)
    except (KeyboardInterrupt, typer.Abort):
        failure = failing.INTERRUPT
    except Exception as error:
        if os.environ.get("AGENTSMITH_DEBUG"):
            raise
        failure = failing.failed(error)
    with output.quiet_pipe():
        failing.tell(failure, as_json=_as_json(arguments))
    return failure.exit_code


def _as_json(arguments: Sequence[str]) -> bool:
    """Whether the answer is to be JSON, also where nobody came to understand the arguments."""
    ours = list(arguments)
    return "--json" in (ours[: ours.index("--")] if "--" in ours else ours)
