"""Jira's wiki markup, for Data Center: our texts so that nothing in them is markup, and back. Pure.

A ticket's title, an error or a log may hold anything, `{code}`, `[~mention]` or `!image!` among it. Outside of code
every character that could begin markup is escaped; code stands in a block that Jira does not look into.
"""

from __future__ import annotations

import re
from typing import Final

from agentsmith.trackers.jira.blocks import Code, blocks

_FENCE: Final = "{noformat}"
_GUARDED: Final = "{\u200bnoformat}"
_SPECIAL: Final = re.compile(r"[{}\[\]*_+^~?!|#-]")
_URL: Final = re.compile(r"https?://[A-Za-z0-9/:._~%=+,@-]*[A-Za-z0-9/]")
_BLOCK: Final = re.compile(r"^(\s*(?:h[1-6]|bq))\.", re.I)
_BACKSLASH: Final = "&#92;"
"""Two backslashes would be a line break, so none is ever written as itself."""
_DOT: Final = "&#46;"
_ESCAPED: Final = re.compile(r"\\([{}\[\]*_+^~?!|#-])|&#92;|&#46;|&amp;")
_MEANT: Final = {_BACKSLASH: "\\", _DOT: ".", "&amp;": "&"}


def to_wiki(text: str) -> str:
    """The text as markup that shows it as it is."""
    parts = []
    for block in blocks(text):
        if isinstance(block, Code):
            code = block.text.replace(_FENCE, _GUARDED)
            parts.append(f"{_FENCE}\n{code}\n{_FENCE}")
        else:
            parts.append("\n".join(_line(line) for line in block.lines))
    return "\n\n".join(parts)


def to_text(markup: str) -> str:
    """What `to_wiki` made the markup of; other markup comes back as it is, but for its escapes."""
    lines, at, found = markup.replace("\r\n", "\n").split("\n"), 0, []
    while at < len(lines):
        end = lines.index(_FENCE, at + 1) if lines[at] == _FENCE and _FENCE in lines[at + 1 :] else None
        if end is None:
            found.append(_ESCAPED.sub(lambda m: m[1] or _MEANT[m[0]], lines[at]))
        else:
            found += ["```", *lines[at + 1 : end], "```"]
            at = end
        at += 1
    return "\n".join(found)


def _line(line: str) -> str:
    parts, end = [], 0
    for url in _URL.finditer(line):
        parts += [_escaped(line[end : url.start()]), url[0]]
        end = url.end()
    return _BLOCK.sub(rf"\1{_DOT}", "".join([*parts, _escaped(line[end:])]))


def _escaped(text: str) -> str:
    text = text.replace("&", "&amp;").replace("\\", _BACKSLASH)
    # The entities that have just been written hold a `#`, which must stay.
    return re.sub(rf"{_BACKSLASH}|{_SPECIAL.pattern}", lambda m: m[0] if m[0] == _BACKSLASH else f"\\{m[0]}", text)
