"""Keeps secrets and whole bodies out of every text that leaves the HTTP layer (T14)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MASK: Final = "***"
_LONGEST_EXCERPT: Final = 200
_SHORTEST_SECRET: Final = 4
"""Masking shorter ones would only garble the text; no platform issues such a token."""

_SHAPES: Final = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S),
    re.compile(r"\b(?:gh[a-z]_|github_pat_|glpat-|gl[a-z]+-|ATATT|xox[a-z]-)[A-Za-z0-9_.=-]{8,}"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){1,4}"),
)
_SCHEMES: Final = re.compile(r"\b(basic|bearer|token)\s+[A-Za-z0-9._~+/=-]{8,}", re.I)
_USERINFO: Final = re.compile(r"(?<=://)[^/\s@]+@")
_PARAMETERS: Final = re.compile(
    r"((?:access_|private_|refresh_|client_)?(?:token|secret|password|key)[\"']?\s*[=:]\s*[\"']?)[^\s&\"',;]{4,}",
    re.I,
)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without the given secrets and without anything that looks like a credential."""
    for secret in sorted((s for s in secrets if len(s) >= _SHORTEST_SECRET), key=len, reverse=True):
        text = text.replace(secret, MASK)
    for shape in _SHAPES:
        text = shape.sub(MASK, text)
    text = _SCHEMES.sub(rf"\1 {MASK}", text)
    text = _USERINFO.sub(f"{MASK}@", text)
    return _PARAMETERS.sub(rf"\1{MASK}", text)


def excerpt(text: str, secrets: Iterable[str] = (), *, limit: int = _LONGEST_EXCERPT) -> str:
    """The beginning of `text` on one line, redacted first, so that a cut cannot leave half a secret behind."""
    flat = " ".join(redact(text, secrets).split())
    printable = "".join(c if c.isprintable() else "?" for c in flat)
    return printable if len(printable) <= limit else printable[: limit - 1] + "…"
