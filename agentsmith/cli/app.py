"""The `agentsmith` command: its parts, and what every ending means to a shell.

Exit codes: 0 fine, 1 the answer is no, 2 bad input or configuration, 130 interrupted. Never a traceback, unless
AGENTSMITH_DEBUG is set.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import typer

from agentsmith import __version__, privacy
from agentsmith.cli import (
    commands,
    config_commands,
    dead_letter_commands,
    inherited,
    output,
    run_commands,
    ticket_commands,
    webhook_commands,
)
from agentsmith.cli.options import help_without_command
from agentsmith.domain.errors import AgentSmithError

NO: Final = 1
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130

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
        return _misused(error)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:
        if os.environ.get("AGENTSMITH_DEBUG"):
            raise
        return _explained(error)


def _misused(error: typer.TyperException) -> int:
    output.error(error.format_message().replace("Value error, ", ""))
    if (context := getattr(error, "ctx", None)) is not None:
        output.note(f"see: {context.command_path} --help")
    return BAD_INPUT


def _explained(error: Exception) -> int:
    causes = list(_causes(error))
    ours = [cause for cause in causes if _ours(cause)]
    if ours:
        # What fails beside them fails because of them.
        output.error("\n".join(dict.fromkeys(str(cause) for cause in ours)))
        return BAD_INPUT
    told = dict.fromkeys(f"{type(cause).__name__}: {cause}" for cause in causes)
    output.error(f"something broke inside agentsmith: {'; '.join(told)}")
    output.note("This is a bug. Set AGENTSMITH_DEBUG=1 to see where, and report it with what you did.")
    return NO


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The errors inside groups of errors."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _causes(inner)
    else:
        yield error


def _ours(error: BaseException) -> bool:
    # Looked up only now, because the store is slow to import and most commands end well.
    from agentsmith.store.server.binary import ServerUnavailable

    return isinstance(error, AgentSmithError | ServerUnavailable)
