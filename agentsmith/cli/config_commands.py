"""`agentsmith config …`: what its commands are called, their options and help."""

from __future__ import annotations

from typing import Annotated

import typer

from agentsmith.cli.options import AsJson, ConfigFile, group

app = group("Check the configuration file, or get an example or its schema.")


@app.command()
def check(
    without_secrets: Annotated[
        bool, typer.Option("--without-secrets", help="Do not mind secrets whose variables are not set.")
    ] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Say whether the configuration is right, and what it amounts to.

    \b
    Example:
      agentsmith config check --config agentsmith.yaml
      agentsmith config check --without-secrets
    """
    from agentsmith.cli import config as command

    command.check(config, without_secrets=without_secrets, as_json=as_json)


@app.command()
def schema() -> None:
    """Print the JSON schema of the configuration file, for editors.

    \b
    Example:
      agentsmith config schema > agentsmith.schema.json
    """
    from agentsmith.cli import config as command

    command.schema()


@app.command()
def example() -> None:
    """Print an example that explains every setting.

    \b
    Example:
      agentsmith config example > agentsmith.yaml
    """
    from agentsmith.cli import shipped

    shipped.example()
