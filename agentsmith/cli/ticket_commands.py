"""`agentsmith ticket …`: what its commands are called, their options and help."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from agentsmith.cli.options import Actor, AsJson, ConfigFile, OnTracker, Ticket, group

app = group("Open, show, label and close tickets of the built-in tracker.")

State = Literal["open", "closed", "all"]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="LABEL", help="May be given several times.", show_default=False),
]
LabelNames = Annotated[list[str], typer.Argument(metavar="LABEL…", help="One or several.", show_default=False)]


@app.command()
def new(
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="What is to be done.", show_default=False)],
    body: Annotated[str, typer.Option("--body", metavar="TEXT", help="The details.", show_default=False)] = "",
    label: Labels = None,
    tracker: OnTracker = None,
    actor: Actor = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Open a ticket. With a label that starts a pipeline, work begins.

    \b
    Example:
      agentsmith ticket new --title "Say hello" --label agent-smith
    """
    from agentsmith.cli import tickets

    tickets.new(config, tracker=tracker, actor=actor, title=title, body=body, labels=label or (), as_json=as_json)


@app.command("list")
def list_them(
    label: Labels = None,
    state: Annotated[State, typer.Option("--state", help="Which tickets.")] = "open",
    tracker: OnTracker = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """List tickets, those with every given label.

    \b
    Example:
      agentsmith ticket list --label agent-smith:failed
    """
    from agentsmith.cli import tickets

    tickets.list_them(config, tracker=tracker, labels=label or (), state=state, as_json=as_json)


@app.command()
def show(ticket: Ticket, tracker: OnTracker = None, as_json: AsJson = False, config: ConfigFile = None) -> None:
    """Show a ticket and its comments, which tell how the work went.

    \b
    Example:
      agentsmith ticket show 3
    """
    from agentsmith.cli import tickets

    tickets.show(config, ticket, tracker=tracker, as_json=as_json)


@app.command()
def label(
    ticket: Ticket,
    labels: LabelNames,
    tracker: OnTracker = None,
    actor: Actor = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Put labels on a ticket.

    \b
    Example:
      agentsmith ticket label 3 agent-smith
    """
    from agentsmith.cli import session, tickets

    by = session.whoever(actor)
    tickets.change(
        config,
        ticket,
        lambda local, key: local.label(key, *labels, actor=by),
        tracker=tracker,
        did=tickets.LABELLED,
        as_json=as_json,
    )


@app.command()
def unlabel(
    ticket: Ticket,
    labels: LabelNames,
    tracker: OnTracker = None,
    actor: Actor = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Take labels off a ticket. Without the label that started it, a run is stopped.

    \b
    Example:
      agentsmith ticket unlabel 3 agent-smith
    """
    from agentsmith.cli import session, tickets

    by = session.whoever(actor)
    tickets.change(
        config,
        ticket,
        lambda local, key: local.unlabel(key, *labels, actor=by),
        tracker=tracker,
        did="unlabelled",
        as_json=as_json,
    )


@app.command()
def comment(
    ticket: Ticket,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say.", show_default=False)],
    tracker: OnTracker = None,
    actor: Actor = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Write a comment on a ticket. Its first line may be a command: /agent-smith retry, answer, cancel or why.

    \b
    Example:
      agentsmith ticket comment 3 "Please also update the docs."
      agentsmith ticket comment 3 "/agent-smith why"
    """
    from agentsmith.cli import tickets

    tickets.comment(config, ticket, text, tracker=tracker, actor=actor, as_json=as_json)


@app.command()
def close(
    ticket: Ticket,
    tracker: OnTracker = None,
    actor: Actor = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Close a ticket. If it is being worked on, that is stopped.

    \b
    Example:
      agentsmith ticket close 3
    """
    from agentsmith.cli import session, tickets

    by = session.whoever(actor)
    tickets.change(
        config, ticket, lambda local, key: local.close(key, actor=by), tracker=tracker, did="closed", as_json=as_json
    )


@app.command()
def reopen(
    ticket: Ticket,
    tracker: OnTracker = None,
    actor: Actor = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Open a closed ticket again.

    \b
    Example:
      agentsmith ticket reopen 3
    """
    from agentsmith.cli import session, tickets

    by = session.whoever(actor)
    tickets.change(
        config, ticket, lambda local, key: local.reopen(key, actor=by), tracker=tracker, did="reopened", as_json=as_json
    )
