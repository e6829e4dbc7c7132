"""Jira's wiki markup, for Data Center: our texts so that nothing in them is markup, and back. Pure.

A ticket's title, an error or a log may hold anything, `{code}`, `[~mention]` or `!image!` among it. Outside of code
every character that could begin markup is escaped; code stands in a block that Jira does not look into. Nothing folds
here: what would be in a fold elsewhere is in a panel under the same title.
"""

from __future__ import annotations

import re
from typing import Final

from agentsmith.trackers.jira.blocks import Code, Fold, Lines, blocks, fenced, folded, free_fence

_FENCE: Final = "{noformat}"
_ENDS: Final = re.compile(r"\{(noformat|panel)\}")
_GUARDED: Final = "{\u200b\\1}"
_PANEL: Final = re.compile(r"\{panel:title=(?P<title>[^{}|]+)\}")
_PANEL_END: Final = "{panel}"
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
    return "\n\n".join(map(_markup, blocks(text)))


def _markup(block: Code | Lines | Fold) -> str:
    if isinstance(block, Fold):
        inside = "\n\n".join(map(_markup, block.parts))
        return f"{{panel:title={block.title}}}\n{inside}\n{_PANEL_END}"
    if isinstance(block, Code):
        return f"{_FENCE}\n{_ENDS.sub(_GUARDED, block.text)}\n{_FENCE}"
    return "\n".join(map(_line, block.lines))


def to_text(markup: str) -> str:
    """What `to_wiki` made the markup of; other markup comes back as it is, but for its escapes."""
    lines = markup.replace("\r\n", "\n").split("\n")
    return _text(lines, free_fence(_plain(line) for line in lines if line.startswith("```")))


def _text(lines: list[str], fence: str) -> str:
    at, found = 0, list[str]()
    while at < len(lines):
        panel = _PANEL.fullmatch(lines[at])
        ends = _FENCE if lines[at] == _FENCE else _PANEL_END if panel else None
        end = lines.index(ends, at + 1) if ends and ends in lines[at + 1 :] else None
        if end is None:
            found.append(_plain(lines[at]))
        elif panel:
            found.append(folded(panel["title"], _text(lines[at + 1 : end], fence)))
            at = end
        else:
            found.append(fenced(Code("", "\n".join(lines[at + 1 : end])), fence))
            at = end
        at += 1
    return "\n".join(found)


def _plain(line: str) -> str:
    return _ESCAPED.sub(lambda m: m[1] or _MEANT[m[0]], line)


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
