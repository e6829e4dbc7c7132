"""What Azure DevOps does to the text of a comment, in HTML as in Markdown: comments and unknown tags go, and a `<` that
nothing closes takes everything behind it along."""

from __future__ import annotations

import re

KNOWN = frozenset(
    {"a", "b", "blockquote", "br", "code", "div", "em", "h1", "h2", "h3", "h4", "hr", "i", "img", "li", "ol", "p"}
    | {"pre", "span", "strong", "sub", "sup", "table", "tbody", "td", "th", "thead", "tr", "u", "ul"}
)
_OPENING = re.compile(r"<(?=[A-Za-z/!?])")
_TAG = re.compile(r"</?([A-Za-z][A-Za-z0-9]*)[^<>]*>")


def sanitised(text: str) -> str:
    """The text as it is stored."""
    kept: list[str] = []
    position = 0
    while found := _OPENING.search(text, position):
        kept.append(text[position : found.start()])
        if text.startswith("<!--", found.start()):
            end = text.find("-->", found.start())
            if end < 0:
                return "".join(kept)
            position = end + 3
            continue
        tag = _TAG.match(text, found.start())
        if tag is None:
            return "".join(kept)
        if tag[1].lower() in KNOWN:
            kept.append(tag[0])
        position = tag.end()
    kept.append(text[position:])
    return "".join(kept)
