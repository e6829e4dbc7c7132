"""The commands that stand alone: what they are called, their options and help.

What they do is imported when it is done, so that help and shell completion answer at once.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from agentsmith.cli.options import Actor, AsJson, ConfigFile, Ticket, prose
from agentsmith.cli.setup_commands import doctor, init


class RoleName(StrEnum):
    """The daemon's roles; a test keeps the two alike, because importing the daemon here would slow down help."""

    RECEIVER = "receiver"
    POLLER = "poller"
    CONSUMER = "consumer"
    HOUSEKEEPING = "housekeeping"


def add_to(app: typer.Typer) -> None:
    """Make the commands part of `app`, in the order in which a newcomer meets them."""
    for command in (
        demo,
        init,
        doctor,
        up,
        status,
        why,
        cancel,
        retry,
        quota,
        labels,
        replay,
        simulator,
        bench,
        docs,
        schema,
    ):
        app.command(help=prose(command.__doc__ or ""))(command)


def demo(
    tracker: Annotated[
        str, typer.Option("--tracker", metavar="PLATFORM", help="Play it on this platform's simulator.")
    ] = "local",
    tickets: Annotated[int, typer.Option("--tickets", min=3, max=50, metavar="N", help="How many tickets.")] = 6,
    speed: Annotated[
        float,
        typer.Option("--speed", min=1, max=40, metavar="F", help="How many times shorter than normal all waits are."),
    ] = 20,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder with tickets, logs and outputs.")] = False,
    as_json: AsJson = False,
) -> None:
    """See it work, in seconds and without setting anything up.

    Labels several tickets at once, has real processes work on them, kills one of these in the middle of its work,
    and shows how the ticket comes back and is finished. Everything happens in a temporary folder.

    \b
    Example:
      agentsmith demo
      agentsmith demo --tracker github
      agentsmith demo --tickets 20 --keep
    """
    from agentsmith.cli import app, demo_command

    if not demo_command.demo(
        tracker=tracker, tickets=tickets, speed=speed, keep=keep, as_json=as_json, program=app.run
    ):
        raise typer.Exit(1)


def up(
    role: Annotated[
        list[RoleName] | None,
        typer.Option(
            "--role",
            metavar="ROLE",
            help="Only receiver, poller, consumer or housekeeping; may be given several times. Else all.",
            show_default=False,
        ),
    ] = None,
    shadow: Annotated[
        bool, typer.Option("--shadow", help="Look and decide, but write nothing: no label, no comment, no run.")
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Start agentsmith, and serve until Ctrl-C.

    One process does everything. On several machines, give each its roles and all the same redis.url: the poller finds
    labelled tickets, consumers run them, housekeeping brings back what got stuck, the receiver takes webhooks.

    The first Ctrl-C lets runs finish for a while and gives the rest back; the second ends at once.

    \b
    Example:
      agentsmith up
      agentsmith up --role consumer --config /etc/agentsmith.yaml
      agentsmith up --shadow
    """
    from agentsmith.cli import up as command

    command.up(config, role or (), shadow=shadow)


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every second, until Ctrl-C.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """See what is queued, running and waiting, and who does it.

    Also shows the filters that list tickets by status in each tracker.

    \b
    Example:
      agentsmith status
      agentsmith status --json | jq '.queue[].ticket'
    """
    from agentsmith.cli import status as command

    command.status(config, as_json=as_json, watch=watch)


def why(ticket: Ticket, as_json: AsJson = False, config: ConfigFile = None) -> None:
    """See why a ticket did or did not run.

    Names every gate between a label and a run, what was seen there and when, and what to do about it. What was not
    looked at is said to be unknown.

    \b
    Example:
      agentsmith why 3
    """
    from agentsmith.cli import why as command

    command.why(ticket, config, as_json=as_json)


def quota(as_json: AsJson = False, config: ConfigFile = None) -> None:
    """See how many API requests were spent and are left.

    Who spent them on what, and when they are renewed.

    \b
    Example:
      agentsmith quota
    """
    from agentsmith.cli import quota as command

    command.quota(config, as_json=as_json)


def labels(
    create: Annotated[bool, typer.Option("--create", help="Make those that a platform does not have yet.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """See the labels that start work and that show how it goes.

    Also shows whether they exist; all of them can be made where they are missing. The poller makes those that show how
    it goes by itself, where the credential may. Exit code 1 says that it could not be done somewhere.

    \b
    Example:
      agentsmith labels
      agentsmith labels --create
    """
    from agentsmith.cli import labels as command

    if not command.labels(config, create=create, as_json=as_json):
        raise typer.Exit(1)


def replay(
    delivery: Annotated[
        str | None, typer.Argument(metavar="[DELIVERY]", help="Which; without it, they are listed.", show_default=False)
    ] = None,
    tracker: Annotated[
        str | None, typer.Option("--tracker", metavar="NAME", help="Of this tracker only.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Feed a webhook delivery in again, or list them.

    The last hundred of each tracker are kept for three days, without anything secret. A command in a comment that was
    carried out is not carried out again.

    \b
    Example:
      agentsmith replay
      agentsmith replay 72d3162e-cc78-11e3-81ab-4c9367dc0958
    """
    from agentsmith.cli import replay as command

    command.replay(config, delivery, tracker=tracker, as_json=as_json)


def simulator(
    platform: Annotated[
        str | None, typer.Argument(metavar="PLATFORM", help="github, gitlab, azure-devops or jira.", show_default=False)
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, metavar="N", help="Where to listen; 0 takes a free port.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Serve a platform in memory, to play with, until Ctrl-C.

    It listens on this machine only and behaves as the platform does, limits and webhooks included. It shows a project
    with a token and a few tickets, a configuration for agentsmith, and how to do what people do.

    \b
    Example:
      agentsmith simulator github --port 9000
    """
    from agentsmith.cli import simulator as command

    command.simulator(platform, port=port, as_json=as_json)


def bench(
    row: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ROW]...", help="queue, run, receiver, life, start; or growth.", show_default=False),
    ] = None,
    passes: Annotated[
        int, typer.Option("--passes", min=1, max=100, metavar="N", help="How often each is measured.")
    ] = 3,
    effort: Annotated[
        float,
        typer.Option(
            "--effort", min=0.01, max=100, metavar="F", help="How much is done in a pass; 1 is worth telling."
        ),
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Measure the product on this machine.

    As ratios to what Redis, HTTP or the system do raw in the same run, so that machines can be compared: the receiver,
    the queue, runs without work, whole lives of tickets, and how long it takes to start. Nothing else should run.
    Whether a daemon grows with what it has done takes minutes, and is measured only if it is named (growth).

    \b
    Example:
      agentsmith bench
      agentsmith bench queue receiver --passes 5
    """
    from agentsmith.cli import bench as command

    command.bench(row or (), passes=passes, effort=effort, as_json=as_json)


def cancel(ticket: Ticket, actor: Actor = None, as_json: AsJson = False, config: ConfigFile = None) -> None:
    """Stop the work on a ticket, or take it off the queue.

    Its label then says failed, and the comment by whom. Exit code 1 says that there was nothing to stop.

    \b
    Example:
      agentsmith cancel 3
      agentsmith cancel github.com/acme/web#12
    """
    from agentsmith.cli import runs

    if not runs.cancel(config, ticket, actor=actor, as_json=as_json):
        raise typer.Exit(1)


def retry(ticket: Ticket, actor: Actor = None, as_json: AsJson = False, config: ConfigFile = None) -> None:
    """Run a ticket again that is done, failed or waiting.

    While it is running, this asks for one more run afterwards.

    \b
    Example:
      agentsmith retry 3
    """
    from agentsmith.cli import runs

    if not runs.retry(config, ticket, actor=actor, as_json=as_json):
        raise typer.Exit(1)


def docs(
    page: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Which page; without it, they are listed.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read the documentation, which comes with the program.

    \b
    Example:
      agentsmith docs
      agentsmith docs install
      agentsmith docs trackers/github | less
    """
    from agentsmith.cli import shipped

    shipped.docs(page, as_json=as_json)


def schema(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND]...", help="Which, or `error`; else all.", show_default=False),
    ] = None,
) -> None:
    """Print the JSON schema of what a command answers with --json.

    Every schema names its version. Within one, fields are only added. Any command that fails answers as `error` says.

    \b
    Example:
      agentsmith schema status
      agentsmith schema ticket show | jq '."$id"'
    """
    from agentsmith.cli import answers, output

    output.json_result(answers.schema_of(" ".join(command)) if command else answers.schemas())
