"""What people may type into a local ticket: each check answers the clean text or says what is wrong with it."""

from __future__ import annotations

import unicodedata
from typing import Final

from agentsmith.domain.errors import ConfigError
from agentsmith.domain.ticket import Actor
from agentsmith.trackers.local.rows import ME, fold

LONGEST_TITLE: Final = 500
LONGEST_LABEL: Final = 50
LONGEST_ACTOR: Final = 100
LARGEST_BODY: Final = 1024 * 1024


def clean_title(text: str) -> str:
    """One line with something in it."""
    return _line(text, "title", LONGEST_TITLE)


def clean_label(text: str) -> str:
    """A label that every platform could hold: one line, no comma, at most 50 characters."""
    label = _line(text, "label", LONGEST_LABEL)
    if "," in label:
        raise ConfigError("the label has a comma in it; give each label on its own")
    return label


def clean_actor(text: str) -> Actor:
    """A person: any name but our own, or anybody could speak as agentsmith (P7)."""
    name = _line(text, "actor", LONGEST_ACTOR)
    if fold(name) == fold(ME.name):
        raise ConfigError(f"{ME.name} is the program's own name; act under another one")
    return Actor(id=name, name=name)


def clean_body(text: str) -> str:
    """Any text of at most 1 MiB; it may be empty."""
    _whole(text, "body")
    size = len(text.encode("utf-8"))
    if size > LARGEST_BODY:
        raise ConfigError(f"the body has {size:,} bytes; at most {LARGEST_BODY:,} are allowed")
    return text


def clean_comment(text: str) -> str:
    """Like a body, but not empty."""
    if not text.strip():
        raise ConfigError("the comment is empty; write something")
    return clean_body(text)


def _line(text: str, what: str, longest: int) -> str:
    _whole(text, what)
    line = text.strip()
    if not line:
        raise ConfigError(f"the {what} is empty; give one")
    if any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in line):
        raise ConfigError(f"the {what} has a line break or a control character in it; put it on one line")
    if len(line) > longest:
        raise ConfigError(f"the {what} has {len(line)} characters; at most {longest} are allowed")
    return line


def _whole(text: str, what: str) -> None:
    if "\0" in text:
        raise ConfigError(f"the {what} has a NUL byte in it; remove it")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"the {what} is not valid Unicode at character {error.start + 1}; is the terminal set to UTF-8?"
        ) from None
