"""Texts on Cloud are documents: made from plain text, checked as Jira does, and shown as text by the older API."""

from __future__ import annotations

import json
from typing import Any

LIMIT = 32_767


def document(text: str) -> dict[str, Any]:
    """A document that shows a text; blank lines part paragraphs."""
    paragraphs = []
    for part in text.replace("\r\n", "\n").split("\n\n"):
        content: list[dict[str, Any]] = []
        for number, line in enumerate(part.split("\n")):
            content += [{"type": "hardBreak"}] if number else []
            content += [{"type": "text", "text": line}] if line else []
        paragraphs.append({"type": "paragraph", "content": content})
    return {"version": 1, "type": "doc", "content": paragraphs}


def plain(body: Any) -> str:
    """What a document says, as the API that knows no documents shows it."""
    if not isinstance(body, dict):
        return str(body or "")
    kind, content = body.get("type"), body.get("content") or []
    if kind == "text":
        return str(body["text"])
    if kind == "hardBreak":
        return "\n"
    inner = [plain(child) for child in content]
    return ("\n\n" if kind == "doc" else "").join(inner)


def fault_in(body: Any) -> str | None:
    """Why Jira refuses a document; None for a good one."""
    if not isinstance(body, dict) or body.get("type") != "doc" or body.get("version") != 1:
        return "INVALID_INPUT"
    if not isinstance(body.get("content"), list) or not _well_formed(body):
        return "INVALID_INPUT"
    if not plain(body).strip():
        return "Comment body can not be empty!"
    if len(json.dumps(body, ensure_ascii=False, separators=(",", ":"))) > LIMIT:
        return "The entered text is too long. It exceeds the allowed limit of 32,767 characters."
    return None


def _well_formed(node: dict[str, Any]) -> bool:
    if not isinstance(node.get("type"), str):
        return False
    if node["type"] == "text":
        text = node.get("text")
        return isinstance(text, str) and text != "" and not any(ord(c) < 32 and c not in "\n\t" for c in text)
    content = node.get("content", [])
    return isinstance(content, list) and all(isinstance(child, dict) and _well_formed(child) for child in content)
