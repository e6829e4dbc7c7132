"""Commands in comments: how people write them, and what a tracker adds to its contract so that they can be obeyed.

T19 `remark` reads one comment of a ticket by the id that a webhook gave it: author and text as they are now, whatever
    the webhook said; None when it is gone.
    What we write ourselves is never a command: `unspoken` sees to that on every way out.
T20 `acknowledge` lets its writer see, once, that a comment was read: by a reaction where the platform has one. It
    answers whether it was this call, an earlier one, or that there is no way; in that case a short answer is said.
T22 `remarks` tells every comment that was written since a moment, oldest first, each with author, text and time; those
    of our own account too. The moment is by our clock: a platform whose clock may differ allows for `CLOCKS_DIFFER`.
    What is malformed may be left out; any error raises: an outage is not silence (P9).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.webhook import Remark


class Acknowledged(StrEnum):
    """What became of an acknowledgement."""

    NOW = "now"
    BEFORE = "before"
    """We had acknowledged it already."""
    NO_WAY = "no way"
    """The platform has no reactions."""


@runtime_checkable
class TakesCommands(Protocol):
    """A tracker on whose tickets people can talk to us (T19, T20)."""

    async def remark(self, ticket: Ticket, ref: str) -> Remark | None:
        """The comment that a webhook called `ref` (T19)."""

    async def acknowledge(self, ticket: Ticket, ref: str, *, deadline: float) -> Acknowledged:
        """Let the writer see that the comment was read (T20)."""


@runtime_checkable
class KeepsRemarks(Protocol):
    """A tracker that can tell what was said on a ticket (T22)."""

    async def remarks(self, ticket: Ticket, *, since: float) -> tuple[Remark, ...]:
        """Every comment written since then, in seconds since the epoch (T22)."""


class Verb(StrEnum):
    """What can be asked for."""

    RETRY = "retry"
    ANSWER = "answer"
    """The one that has something behind it: what the worker asked for."""
    CANCEL = "cancel"
    WHY = "why"


CLOCKS_DIFFER: Final = 5.0
"""Seconds by which a comment may seem older than it is: clocks differ, and some platforms tell whole seconds only."""
_MARKUP: Final = r"(?:[^\w\n]|_){0,40}"
"""What may stand at the beginning of a line, or between the slash and the prefix, and be no word."""
_LINES: Final = re.MULTILINE | re.IGNORECASE
KNOWN_VERBS: Final = ", ".join(Verb)


@dataclass(frozen=True, slots=True)
class CommentCommand:
    """A comment's first line, read; `verb` is None where it names nothing that we know."""

    verb: Verb | None
    word: str
    text: str = ""
    """What was said besides: behind `answer`, and in the lines below the first."""


def unspoken(text: str, labels: LabelSet) -> str:
    """The text with no line in it that could be taken for a command.

    A comment of ours may repeat what an agent said, and where we share a person's account nobody could tell it from
    theirs. A backslash stands before the slash then, which Markdown does not show. Markup around a command does not
    make it less of one: a platform may take that away.
    """
    for prefix in (labels.prefix, *labels.former_prefixes):
        text = re.sub(rf"^({_MARKUP}?)(?<!\\)/(?={_MARKUP}{re.escape(prefix)})", r"\1\/", text, flags=_LINES)
        if command_in(text.strip(), prefix) is not None:
            text = f"… {text.lstrip()}"
    return text


def command_in(text: str, prefix: str) -> CommentCommand | None:
    """The command that a comment is, if its first line begins with `/agent-smith`; one word says what to do.

    Behind `answer`, and only there, more may follow.
    """
    first, _, below = text.lstrip("\ufeff\u200b").partition("\n")
    head, *words = first.split() or [""]
    if head.casefold() != f"/{prefix}".casefold():
        return None
    if words and words[0].casefold() == Verb.ANSWER:
        said = first.split(maxsplit=2)[2] if len(words) > 1 else ""
        return CommentCommand(Verb.ANSWER, Verb.ANSWER.value, f"{said}\n{below}".strip())
    word = " ".join(words).casefold()
    return CommentCommand(next((verb for verb in Verb if verb == word), None), word, below.strip())
