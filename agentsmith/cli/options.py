"""Options that several commands share, and groups of commands."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated

import typer

from agentsmith.cli import completing, output

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The configuration; else $AGENTSMITH_CONFIG, else ./agentsmith.yaml, else the defaults.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Answer with one JSON document instead of text.")]
Actor = Annotated[
    str | None,
    typer.Option("--actor", metavar="NAME", help="On whose behalf; else your user name.", show_default=False),
]
OnTracker = Annotated[
    str | None,
    typer.Option(
        "--tracker",
        metavar="NAME",
        help="Which local tracker, if there are several.",
        show_default=False,
        autocompletion=completing.trackers,
    ),
]
Ticket = Annotated[
    str,
    typer.Argument(
        metavar="TICKET",
        help="Key (3), tracker:key (local:3), id (local/tickets#3) or URL.",
        show_default=False,
        autocompletion=completing.tickets,
    ),
]


def help_without_command(context: typer.Context) -> None:
    """Show the help where only the group was named."""
    # On a terminal Typer prints it by itself and answers nothing.
    if context.invoked_subcommand is None and (text := context.get_help()):
        output.say(text)


def group(about: str) -> typer.Typer:
    """A group of commands that, by itself, shows its help."""
    return typer.Typer(help=about, callback=help_without_command, invoke_without_command=True)


def prose(text: str) -> str:
    """Help whose paragraphs flow to any width; those marked with a backspace keep their lines."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(part if part.startswith("\b") else " ".join(part.split("\n")) for part in paragraphs)
