"""`agentsmith init` and `agentsmith doctor`: what they are called, their options and help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentsmith.cli.options import AsJson, ConfigFile


def _of_tracker(name: str, about: str) -> typer.models.OptionInfo:
    return typer.Option(f"--{name}", metavar="TEXT", help=about, show_default=False)  # type: ignore[no-any-return]


def init(
    platform: Annotated[
        str | None,
        typer.Option(
            "--platform",
            metavar="NAME",
            help="Where your tickets are: github, gitlab, azure-devops, jira or local.",
            show_default=False,
        ),
    ] = None,
    repository: Annotated[str | None, _of_tracker("repository", "For GitHub: owner/name.")] = None,
    project: Annotated[str | None, _of_tracker("project", "For GitLab, Azure DevOps and Jira.")] = None,
    organization: Annotated[str | None, _of_tracker("organization", "For Azure DevOps.")] = None,
    base_url: Annotated[str | None, _of_tracker("base-url", "For Jira, and for servers of your own.")] = None,
    email: Annotated[str | None, _of_tracker("email", "For Jira Cloud: the account of the token.")] = None,
    pipeline: Annotated[
        str | None, _of_tracker("pipeline", "What the label starts: hello, fix-bug, add-feature or run-script.")
    ] = None,
    run: Annotated[str | None, _of_tracker("run", "A command of your own that the label starts.")] = None,
    code: Annotated[
        str | None, _of_tracker("code", "For Jira and local tickets: the address of the repository with the code.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="The file to write; else ./agentsmith.yaml.", show_default=False),
    ] = None,
) -> None:
    """Write a first configuration that works.

    On a terminal it asks for what it needs; with any of the options below it asks nothing. Secrets are never written:
    the file names the environment variables that hold them.

    \b
    Example:
      agentsmith init
      agentsmith init --platform github --repository acme/web --pipeline fix-bug
      agentsmith init --platform local --run 'make test'
    """
    from agentsmith.cli import init as command

    options = {
        "repository": repository,
        "project": project,
        "organization": organization,
        "base_url": base_url,
        "email": email,
    }
    given = {name: text for name, text in options.items() if text is not None}
    command.init(
        config, platform=platform, given=given, pipeline=pipeline, run=run, code=code, force=force, as_json=as_json
    )


def doctor(as_json: AsJson = False, config: ConfigFile = None) -> None:
    """Look whether everything is right, and what to do.

    Configuration, data folder, git, coding agents, Redis, every tracker and its credential, code repositories and
    webhooks. It only reads. Exit code 1 says that something is wrong.

    \b
    Example:
      agentsmith doctor
      agentsmith doctor --json | jq '.checks[] | select(.state == "wrong")'
    """
    from agentsmith.cli import doctor as command

    if not command.doctor(config, as_json=as_json):
        raise typer.Exit(1)
