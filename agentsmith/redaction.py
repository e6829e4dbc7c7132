"""Keeps secrets out of every text that leaves us: log lines, comments, errors (P8, T14)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote

MASK: Final = "***"
_WHOLE_WORD_BELOW: Final = 4
"""Shorter secrets are replaced only where they stand alone, or a careless `1` would blank out every log."""
_LONGEST_EXCERPT: Final = 200

_SHAPES: Final = (
    # Keys and tokens that show what they are, wherever they stand.
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), MASK),
    (re.compile(r"\b(?:gh[a-z]_|github_pat_|glpat-|gl[a-z]+-|ATATT|xox[a-z]-)[A-Za-z0-9_.=-]{8,}"), MASK),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){1,4}"), MASK),
    # Credentials inside an address.
    (re.compile(r"(://)[^\s/?#'\"<>]*@"), rf"\1{MASK}@"),
    # `Authorization: Bearer x`, `token=x`, `'password': 'x'`; `tokens=12` is a count and stays, and so does what is
    # said about a setting: `trackers.web.token: is missing`.
    (
        re.compile(
            r"(?<!\w\.)\b(authorization|(?:(?:access|private|refresh|client|api)[_-]|x-)?token|(?:client[_-])?secret"
            r"|password|passwd|(?:api|private)[_-]?key)"
            r"(['\"]?\s*[=:]\s*)(?:'[^']*'|\"[^\"]*\"|(?:(?:bearer|basic|token)\s+)?[^\s'\",;&}\])]+)",
            re.IGNORECASE,
        ),
        rf"\1\2{MASK}",
    ),
    # The same without its key. Only with a digit, a sign or a capital inside: `basic functionality` is plain text.
    (
        re.compile(
            r"\b(bearer|basic)\s+(?=\S*(?:[0-9=_+/]|(?-i:[a-z][A-Z])))[A-Za-z0-9._~+/=-]{8,}",
            re.IGNORECASE,
        ),
        rf"\1 {MASK}",
    ),
)


class _Secrets:
    """The registered values, in every spelling in which they could turn up, as one pattern."""

    def __init__(self) -> None:
        self.given: set[str] = set()
        self._values: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def add(self, value: str) -> None:
        self.given.add(value)
        for spelling in _spellings(value):
            self._values.add(spelling)
        longest_first = sorted(self._values, key=lambda text: (-len(text), text))
        parts = [
            rf"(?<!\w){re.escape(text)}(?!\w)" if len(text) < _WHOLE_WORD_BELOW else re.escape(text)
            for text in longest_first
        ]
        self._pattern = re.compile("|".join(parts)) if parts else None

    def hide(self, text: str) -> str:
        return self._pattern.sub(MASK, text) if self._pattern is not None else text

    def clear(self) -> None:
        self.given.clear()
        self._values.clear()
        self._pattern = None


def _spellings(value: str) -> Iterator[str]:
    # A key of many lines, also one whose line ends are written as \\n, shows up line by line.
    lines = value.replace("\\n", "\n").splitlines()
    for text in (value, value.strip(), *(line for line in lines if len(line) >= 16)):
        if text.strip():
            yield text
            yield quote(text, safe="", errors="replace")
            yield json.dumps(text)[1:-1]
            yield repr(text)[1:-1]
            yield repr(text.encode("utf-8", "surrogatepass"))[2:-1]


_secrets: Final = _Secrets()
"""Of the process, like logging itself: a value that was ever a secret stays one."""


def register_secret(value: str) -> None:
    """From now on the value appears in no log line, nor in what `redact` answers; blank values are ignored."""
    _secrets.add(value)


def registered() -> frozenset[str]:
    """The values themselves, for those who must look for them elsewhere."""
    return frozenset(_secrets.given)


def without(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets; those too short to be one are left, or they would only garble it."""
    for secret in sorted({s for s in secrets if len(s) >= _WHOLE_WORD_BELOW}, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def redact(text: str) -> str:
    """The text without registered secrets, and without anything that looks like a credential."""
    text = _secrets.hide(text)
    for shape, replacement in _SHAPES:
        text = shape.sub(replacement, text)
    return text


def excerpt(text: str, secrets: Iterable[str] = ()) -> str:
    """The beginning of the text on one line, redacted first, so that a cut cannot leave half a secret behind."""
    flat = " ".join(redact(without(text, secrets)).split())
    printable = "".join(c if c.isprintable() else "?" for c in flat)
    return printable if len(printable) <= _LONGEST_EXCERPT else printable[: _LONGEST_EXCERPT - 1] + "…"
