"""What pull requests have in common on every platform: how any text becomes a title and a body. Pure.

Titles and bodies are made from tickets and from what agents say, so they may hold anything (F7). What was fitted is
what the platform will show, so that a second look finds it unchanged (F4).
"""

from __future__ import annotations

from typing import Final

from agentsmith.domain.ticket import Ticket
from agentsmith.trackers.shared.texts import encodable, utf16_beginning, utf16_size

PURPOSE: Final = "pull-request"
"""What the requests of a forge are booked under, whoever asks."""
ATTEMPTS: Final = 4
"""How often a platform is asked for what another of its machines has just confirmed: a branch, a pull request."""
_CUT: Final = "…"


def one_line(text: str, limit: int, *, otherwise: str) -> str:
    """The text as a title: one line of printable characters, cut to the limit; `otherwise` where nothing is left."""
    shown = "".join(c if c.isprintable() or _joins(c) else " " for c in text[: 4 * limit])
    line = " ".join(shown.split())
    if not any(c.isprintable() and not c.isspace() for c in line):
        return otherwise
    return line if utf16_size(line) <= limit else f"{utf16_beginning(line, limit - 1).rstrip()}{_CUT}"


def fitted(text: str, limit: int, cut: str) -> str:
    """The text as a body: what UTF-8 lacks replaced, plain line ends, and `cut` at the end where it is too long."""
    clean = unified(encodable(text[: 2 * limit])).rstrip()
    return (
        clean
        if len(text) <= 2 * limit and utf16_size(clean) <= limit
        else utf16_beginning(clean, limit - utf16_size(cut)) + cut
    )


def unified(text: str) -> str:
    """The text with one kind of line end: an editor in a browser leaves the other one behind."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def plain_mention(ticket: Ticket) -> str:
    """How a pull request names a ticket that its platform does not know."""
    name = ticket.key if not ticket.key.isdecimal() else f"#{ticket.key}"
    if ticket.url.startswith(("https://", "http://")) and not set(ticket.url) & set(" ()<>\n"):
        return f"Ticket: [{name}]({ticket.url})"
    # As code: bare, some platforms would take it for a ticket of their own.
    return f"Ticket: `{ticket.id.replace('`', '')}`"


def _joins(character: str) -> bool:
    """Whether it is invisible by itself, and holds an emoji or a word together."""
    return character in "\u200c\u200d\ufe0f"
