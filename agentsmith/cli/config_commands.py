"""`agentsmith config …`: what its commands are called, their options and help."""

from __future__ import annotations

from agentsmith.cli.options import AsJson, ConfigFile, group

app = group("Check the configuration file, or get its schema.")


@app.command()
def check(as_json: AsJson = False, config: ConfigFile = None) -> None:
    """Say whether the configuration is right, and what it amounts to.

    \b
    Example:
      agentsmith config check --config agentsmith.yaml
    """
    from agentsmith.cli import config as command

    command.check(config, as_json=as_json)


@app.command()
def schema() -> None:
    """Print the JSON schema of the configuration file, for editors.

    \b
    Example:
      agentsmith config schema > agentsmith.schema.json
    """
    from agentsmith.cli import config as command

    command.schema()
