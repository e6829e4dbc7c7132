"""`agentsmith dead-letters …`: what its commands are called, their options and help."""

from __future__ import annotations

from typing import Annotated

import typer

from agentsmith.cli.options import Actor, AsJson, ConfigFile, group

app = group("See requests that nobody could run; retry or drop them.")

Letter = Annotated[str, typer.Argument(metavar="ID", help="The letter's id, or how it begins.", show_default=False)]


@app.command("list")
def list_(as_json: AsJson = False, config: ConfigFile = None) -> None:
    """Show them, oldest first, each with its reason.

    \b
    Example:
      agentsmith dead-letters list
    """
    from agentsmith.cli import dead_letters

    dead_letters.show_all(config, as_json=as_json)


@app.command()
def show(letter: Letter, as_json: AsJson = False, config: ConfigFile = None) -> None:
    """Show everything that is known about one.

    \b
    Example:
      agentsmith dead-letters show 3f9c
    """
    from agentsmith.cli import dead_letters

    dead_letters.show(config, letter, as_json=as_json)


@app.command()
def retry(letter: Letter, actor: Actor = None, as_json: AsJson = False, config: ConfigFile = None) -> None:
    """Run its ticket again, and forget the letter.

    Exit code 1 says that the ticket cannot run, or that the letter cannot be read; it is then kept.

    \b
    Example:
      agentsmith dead-letters retry 3f9c
    """
    from agentsmith.cli import dead_letters

    if not dead_letters.retry(config, letter, actor=actor, as_json=as_json):
        raise typer.Exit(1)


@app.command()
def drop(
    letters: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Their ids.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Forget letters. Their tickets are not touched.

    \b
    Example:
      agentsmith dead-letters drop 3f9c
      agentsmith dead-letters drop --all
    """
    from agentsmith.cli import dead_letters

    dead_letters.drop(config, letters or (), everything=everything, as_json=as_json)
