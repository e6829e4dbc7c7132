"""Atlassian Document Format: our texts as documents, and any document as text. Pure.

The little Markdown that we write ourselves (code blocks, folds, `code`, **bold**, links) becomes nodes, everything else
plain text nodes, which Jira shows letter by letter: nothing that a ticket or a log says can turn into markup. Jira
refuses empty text nodes, so none is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from agentsmith.trackers.jira.blocks import Code, Fold, Lines, blocks, fenced, folded, free_fence

Node = dict[str, Any]

_INLINE: Final = re.compile(
    r"`(?P<code>[^`\n]+)`"
    r"|\*\*(?P<strong>[^*\n]+)\*\*"
    r"|\[(?P<name>[^\[\]\n]+)\]\((?P<link>https?://[^\s()\[\]]+)\)"
    r"|(?P<url>https?://[^\s<>()\[\]`*]*[^\s<>()\[\]`*.,;:!?])"
)
_DEEPEST: Final = 100
"""Nesting beyond this is nobody's text."""


def to_adf(text: str) -> Node:
    """The text as a document."""
    content = [_node(block) for block in blocks(text)]
    return {"version": 1, "type": "doc", "content": content or [{"type": "paragraph"}]}


def to_text(node: object) -> str:
    """A document as text; what `to_adf` made comes back as it was, blank lines apart. Anything odd is left out."""
    if isinstance(node, str):
        return node
    if not isinstance(node, dict):
        return ""
    return _Reader(free_fence(_lines(node, 0))).blocks(node, 0)


def _node(block: Code | Lines | Fold) -> Node:
    if isinstance(block, Fold):
        return {"type": "expand", "attrs": {"title": block.title}, "content": [_node(part) for part in block.parts]}
    return _code(block) if isinstance(block, Code) else _paragraph(block)


def _code(block: Code) -> Node:
    node: Node = {"type": "codeBlock"}
    if block.language:
        node["attrs"] = {"language": block.language}
    node["content"] = [{"type": "text", "text": block.text}]
    return node


def _paragraph(block: Lines) -> Node:
    content: list[Node] = []
    for number, line in enumerate(block.lines):
        if number:
            content.append({"type": "hardBreak"})
        content += _inline(line)
    return {"type": "paragraph", "content": content}


def _inline(line: str) -> Iterator[Node]:
    end = 0
    for found in _INLINE.finditer(line):
        if found.start() > end:
            yield {"type": "text", "text": line[end : found.start()]}
        end = found.end()
        if found["code"]:
            yield _marked(found["code"], {"type": "code"})
        elif found["strong"]:
            yield _marked(found["strong"], {"type": "strong"})
        else:
            href = found["link"] or found["url"]
            yield _marked(found["name"] or href, {"type": "link", "attrs": {"href": href}})
    if end < len(line):
        yield {"type": "text", "text": line[end:]}


def _marked(text: str, mark: Node) -> Node:
    return {"type": "text", "text": text, "marks": [mark]}


# --- reading -----------------------------------------------------------------------------------------------------


def _lines(node: Node, depth: int) -> Iterator[str]:
    """Every line of text in a document, whatever it stands in."""
    if depth <= _DEEPEST:
        yield from _inlines(node).split("\n")
        for child in _children(node):
            yield from _lines(child, depth + 1)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Turns nodes into text, with one fence around all code that nothing else in the document is taken for."""

    fence: str

    def blocks(self, node: Node, depth: int) -> str:
        """A node that stands on its own lines."""
        if depth > _DEEPEST:
            return ""
        kind = node.get("type")
        if kind == "codeBlock":
            return fenced(Code(_attribute(node, "language"), _inlines(node)), self.fence)
        if kind in ("paragraph", "heading", "taskItem", "decisionItem", "caption"):
            return _lead(node) + _inlines(node)
        if kind == "rule":
            return "---"
        if kind in ("bulletList", "orderedList"):
            return "\n".join(self._items(node, depth))
        if kind == "blockquote":
            return "\n".join(f"> {line}" for line in self._joined(node, depth, "\n\n").split("\n"))
        if kind == "tableRow":
            return " | ".join(self.blocks(cell, depth + 1).replace("\n", " ") for cell in _children(node))
        if kind == "expand":
            return folded(_attribute(node, "title"), self._joined(node, depth, "\n\n"))
        return self._joined(node, depth, "\n" if kind in ("table", "taskList", "decisionList") else "\n\n") or _leaf(
            node
        )

    def _joined(self, node: Node, depth: int, between: str) -> str:
        return between.join(filter(None, (self.blocks(child, depth + 1) for child in _children(node))))

    def _items(self, node: Node, depth: int) -> Iterator[str]:
        for number, item in enumerate(_children(node), 1):
            lead = "- " if node.get("type") == "bulletList" else f"{number}. "
            text = self._joined(item, depth + 1, "\n")
            yield lead + text.replace("\n", "\n" + " " * len(lead))


def _lead(node: Node) -> str:
    kind = node.get("type")
    if kind == "heading":
        level = node.get("attrs", {}).get("level", 1) if isinstance(node.get("attrs"), dict) else 1
        return "#" * (level if isinstance(level, int) and 0 < level < 7 else 1) + " "
    if kind == "taskItem":
        return "[x] " if _attribute(node, "state") == "DONE" else "[ ] "
    return ""


def _inlines(node: Node) -> str:
    return "".join(_leaf(child) for child in _children(node))


def _leaf(node: Node) -> str:
    """A node inside a line."""
    kind = node.get("type")
    if kind == "text":
        return _text(node)
    if kind == "hardBreak":
        return "\n"
    if kind == "date":
        stamp = _attribute(node, "timestamp")
        return datetime.fromtimestamp(int(stamp) / 1000, UTC).date().isoformat() if _is_moment(stamp) else ""
    if kind == "emoji":
        return _attribute(node, "text") or _attribute(node, "shortName")
    return _attribute(node, "text") or _attribute(node, "url")


def _text(node: Node) -> str:
    text = node.get("text")
    if not isinstance(text, str):
        return ""
    marks = node.get("marks")
    for mark in marks if isinstance(marks, list) else []:
        if not isinstance(mark, dict):
            continue
        if mark.get("type") == "code":
            text = f"`{text}`"
        elif mark.get("type") == "strong":
            text = f"**{text}**"
        elif mark.get("type") == "link" and (href := _attribute(mark, "href")) != text:
            text = f"[{text}]({href})"
    return text


def _children(node: Node) -> list[Node]:
    content = node.get("content")
    return [child for child in content if isinstance(child, dict)] if isinstance(content, list) else []


def _attribute(node: Node, name: str) -> str:
    attributes = node.get("attrs")
    value = attributes.get(name) if isinstance(attributes, dict) else None
    return value if isinstance(value, str) else ""


def _is_moment(stamp: str) -> bool:
    return stamp.isascii() and stamp.isdecimal() and len(stamp) < 15
