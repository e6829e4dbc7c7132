"""`agentsmith ticket …`: what people do with the tickets of a local tracker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from agentsmith.cli import finding, output, reach, session
from agentsmith.cli.reach import Word
from agentsmith.config import Config
from agentsmith.daemon.open import open_trackers
from agentsmith.domain.conversation import command_in
from agentsmith.domain.errors import ConfigError, TicketNotFound
from agentsmith.domain.lifecycle import Status, resolve
from agentsmith.domain.ticket import Ticket
from agentsmith.trackers.local.settings import LocalSettings
from agentsmith.trackers.local.tickets import LocalTickets, TicketDetails, ticket_json

if TYPE_CHECKING:
    from rich.text import Text

Edit = Callable[[LocalTickets, str], Awaitable[Ticket]]
"""A change of the ticket with that key."""
LABELLED: Final = "labelled"


def new(
    file: Path | None,
    *,
    tracker: str | None,
    actor: str | None,
    title: str,
    body: str,
    labels: Sequence[str],
    as_json: bool,
) -> None:
    """Open a ticket."""
    config = session.begin(file)

    async def work() -> tuple[Ticket, Word]:
        name = _the_local(config, tracker)
        async with _local_tickets(config, name) as local:
            ticket = await local.new(title=title, body=body, labels=labels, actor=session.whoever(actor))
        return ticket, await reach.announce(config, ticket)

    ticket, heard = asyncio.run(work())
    _tell(config, ticket, heard, f"opened {ticket.id}: {ticket.title}", as_json=as_json)


def change(file: Path | None, text: str, edit: Edit, *, tracker: str | None, did: str, as_json: bool) -> None:
    """Change one ticket and have it looked at."""
    config = session.begin(file)

    async def work() -> tuple[Ticket, Word]:
        name, key = await _which(config, text, tracker)
        async with _local_tickets(config, name) as local:
            try:
                ticket = await edit(local, key)
            except TicketNotFound as error:
                raise finding.unknown(error) from None
        return ticket, await reach.announce(config, ticket, labelled=did == LABELLED)

    ticket, heard = asyncio.run(work())
    _tell(config, ticket, heard, f"{did} {ticket.id}: {ticket.title}", as_json=as_json)


def comment(file: Path | None, text: str, body: str, *, tracker: str | None, actor: str | None, as_json: bool) -> None:
    """Write a comment; one that is a command is handed to the daemon."""
    config = session.begin(file)

    async def work() -> tuple[Ticket, Word, bool]:
        name, key = await _which(config, text, tracker)
        async with _local_tickets(config, name) as local:
            try:
                ticket = await local.comment(key, body, actor=session.whoever(actor))
            except TicketNotFound as error:
                raise finding.unknown(error) from None
            command = command_in(body, config.label_prefix) is not None
            said = (await local.show(key)).comments[-1] if command else None
        heard = await reach.announce(config, ticket, remark=str(said.id) if said else "")
        return ticket, heard, command

    ticket, heard, command = asyncio.run(work())
    _tell(config, ticket, heard, f"commented on {ticket.id}: {ticket.title}", as_json=as_json)
    if command and heard is Word.WAITS:
        output.note("no daemon is up; the command is obeyed as soon as one is: agentsmith up")
    elif command and heard is Word.LOST:
        output.note("no daemon is up to obey the command; start one (agentsmith up) and say it again")


def list_them(
    file: Path | None,
    *,
    tracker: str | None,
    labels: Sequence[str],
    state: Literal["open", "closed", "all"],
    as_json: bool,
) -> None:
    """Show the tickets that carry every one of the labels."""
    config = session.begin(file)

    async def work() -> list[Ticket]:
        found: list[Ticket] = []
        for name in [_the_local(config, tracker)] if tracker else _locals(config):
            async with _local_tickets(config, name) as local:
                found += await local.tickets(labels=labels, state=state)
        return found

    tickets = asyncio.run(work())
    if as_json:
        output.json_result([ticket_json(ticket) for ticket in tickets])
    elif not tickets:
        output.note("no ticket matches; `agentsmith ticket new --title …` opens one")
    else:
        several = len(_locals(config)) > 1
        output.rows(
            ("Ticket", "Status", "Title", "Other labels"),
            [
                (
                    f"{t.tracker}:{t.key}" if several else t.key,
                    _status(config, t),
                    t.title,
                    ", ".join(_others(config, t)),
                )
                for t in tickets
            ],
        )


def show(file: Path | None, text: str, *, tracker: str | None, as_json: bool) -> None:
    """Show one ticket with its comments."""
    config = session.begin(file)

    async def work() -> TicketDetails:
        name, key = await _which(config, text, tracker)
        async with _local_tickets(config, name) as local:
            try:
                return await local.show(key)
            except TicketNotFound as error:
                raise finding.unknown(error) from None

    details = asyncio.run(work())
    if as_json:
        output.json_result(ticket_json(details.ticket, comments=details.comments, blockers=details.blockers))
        return
    _show(config, details)


def _show(config: Config, details: TicketDetails) -> None:
    ticket = details.ticket
    heading = f"{ticket.id}: {output.clean(ticket.title)}"
    output.heading(heading)
    about: list[tuple[str, str | Text]] = [
        ("Status", _status(config, ticket)),
        ("Labels", ", ".join(sorted(ticket.labels)) or "none"),
        ("Opened by", ticket.author),
        ("URL", ticket.url),
    ]
    if details.blockers:
        about.append(("Waits for", ", ".join(blocker.id for blocker in details.blockers)))
    for name, value in about:
        plain = output.clean(value) if isinstance(value, str) else value.plain
        output.say(f"{name:<10} {plain}")
    if ticket.body:
        output.say(f"\n{output.clean(ticket.body, lines=True)}")
    for comment in details.comments:
        edited = ", edited" if comment.edited_at else ""
        output.title(f"{output.clean(comment.author.name)} wrote on {comment.created_at[:19]}{edited}:")
        output.say(output.clean(comment.body, lines=True))


def _tell(config: Config, ticket: Ticket, heard: Word, sentence: str, *, as_json: bool) -> None:
    if as_json:
        output.json_result(ticket_json(ticket))
    else:
        output.say(output.clean(sentence))
        output.say(output.clean(f"labels: {', '.join(sorted(ticket.labels)) or 'none'}"))
    if (
        ticket.open
        and _asked_for(config, ticket)
        and _state(config, ticket) is Status.PENDING
        and heard in (Word.WAITS, Word.LOST)
    ):
        output.note("work on it begins as soon as a daemon runs; start one: agentsmith up")


def _state(config: Config, ticket: Ticket) -> Status:
    return resolve(config.labels.statuses(ticket.labels))


def _asked_for(config: Config, ticket: Ticket) -> bool:
    labels = {label.casefold() for label in ticket.labels}
    return any(trigger.label.casefold() in labels for trigger in config.triggers_for(ticket.tracker))


def _status(config: Config, ticket: Ticket) -> str | Text:
    """What a person sees first: the lifecycle, `closed`, or nothing for a ticket that nobody asked us to do."""
    if not ticket.open:
        return "closed"
    status = _state(config, ticket)
    if status is Status.PENDING and not _asked_for(config, ticket):
        return "open"
    return output.status_text(status.value)


def _others(config: Config, ticket: Ticket) -> list[str]:
    return sorted(ticket.labels - config.labels.lifecycle(ticket.labels))


def _locals(config: Config) -> list[str]:
    return [name for name, settings in config.trackers.items() if isinstance(settings, LocalSettings)]


def _the_local(config: Config, name: str | None) -> str:
    """The local tracker that is meant, if that is clear."""
    known = _locals(config)
    if name is None:
        if len(known) == 1:
            return known[0]
        if not known:
            raise ConfigError("no tracker is local, and only local tickets are kept here; use the tracker's own pages")
        raise ConfigError(f"there are several local trackers; say which: --tracker {' or --tracker '.join(known)}")
    if name in known:
        return name
    if name not in config.trackers:
        raise ConfigError(f"there is no tracker {name!r}; the local ones are: {', '.join(known) or 'none'}")
    platform = config.trackers[name].platform
    raise ConfigError(f"tracker {name!r} is not local but {platform}: change its tickets on its own pages")


async def _which(config: Config, text: str, tracker: str | None) -> tuple[str, str]:
    """Tracker and key of the ticket that a person named."""
    async with open_trackers(config) as trackers:
        if tracker is not None:
            trackers = {name: made for name, made in trackers.items() if name == _the_local(config, tracker)}
        found, key = finding.find(text, trackers)
    return _the_local(config, found.name), key


@contextlib.asynccontextmanager
async def _local_tickets(config: Config, name: str) -> AsyncIterator[LocalTickets]:
    settings: Any = config.trackers[name]
    assert isinstance(settings, LocalSettings)  # noqa: S101 - tells the type checker, _the_local made sure
    async with LocalTickets(path=settings.file(config.data_dir), project=settings.project, name=name) as local:
        yield local
