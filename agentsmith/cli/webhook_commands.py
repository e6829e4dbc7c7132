"""`agentsmith webhooks …`: what its commands are called, their options and help."""

from __future__ import annotations

from typing import Annotated

import typer

from agentsmith.cli import completing
from agentsmith.cli.options import AsJson, ConfigFile, group

app = group("Install, check and remove webhooks: work starts at once.")

Trackers = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TRACKER]…", help="Which; else all of them.", show_default=False, autocompletion=completing.trackers
    ),
]
Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="Where platforms reach us; else server.public_url.", show_default=False),
]


@app.command()
def install(trackers: Trackers = None, url: Url = None, as_json: AsJson = False, config: ConfigFile = None) -> None:
    """Make the webhooks on the platforms, or mend those that are there.

    Needs a webhook_secret per tracker, and a credential that may look after webhooks there. Exit code 1 says that one
    could not be made; the message says what to do by hand.

    \b
    Example:
      agentsmith webhooks install --url https://agentsmith.example.com
      agentsmith webhooks install web
    """
    from agentsmith.cli import webhooks

    if not webhooks.install(config, trackers or [], url, as_json=as_json):
        raise typer.Exit(1)


@app.command()
def check(trackers: Trackers = None, url: Url = None, as_json: AsJson = False, config: ConfigFile = None) -> None:
    """See whether the webhooks are there and tell us everything. Exit code 1 says that one is not.

    \b
    Example:
      agentsmith webhooks check
    """
    from agentsmith.cli import webhooks

    if not webhooks.check(config, trackers or [], url, as_json=as_json):
        raise typer.Exit(1)


@app.command()
def remove(trackers: Trackers = None, url: Url = None, as_json: AsJson = False, config: ConfigFile = None) -> None:
    """Take the webhooks away again; polling goes on.

    \b
    Example:
      agentsmith webhooks remove web
    """
    from agentsmith.cli import webhooks

    if not webhooks.remove(config, trackers or [], url, as_json=as_json):
        raise typer.Exit(1)
