"""The text and the memo of our comment, as Cloud (documents) or Data Center (wiki markup) takes them. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from agentsmith.domain.conversation import unspoken
from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.memo import Memo
from agentsmith.trackers.jira import adf, wiki
from agentsmith.trackers.jira.blocks import clean, cut

COMMENT_LIMIT: Final = 32_767
"""Characters, as Jira counts them: whether of the text or of the whole document is not documented, so both fit."""
CUT: Final = "\n\n… (cut: Jira takes no longer comment)"
EMPTY: Final = "…"
"""Jira refuses a comment without text."""


@dataclass(frozen=True, slots=True)
class CommentFormat:
    """How our comment looks for one label prefix; comments made under a former prefix are recognised too."""

    labels: LabelSet
    cloud: bool

    @property
    def properties(self) -> tuple[str, ...]:
        """The comment properties that mark a comment as ours; the first is the one that we write."""
        return tuple(f"{prefix}.status" for prefix in (self.labels.prefix, *self.labels.former_prefixes))

    def fit(self, text: str) -> str:
        """The text as it will come back: without control characters, and cut where it is too long."""
        text = self._settled(unspoken(clean(text[: 2 * COMMENT_LIMIT]), self.labels))
        # What the markup hid shows now.
        text = self._settled(unspoken(text, self.labels))
        if self._size(text) <= COMMENT_LIMIT:
            return text
        low, high = 0, len(text)
        while low < high:  # the longest beginning that fits; escapes and nodes take room, too
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._size(_cut(text, middle)) <= COMMENT_LIMIT else (low, middle - 1)
        return self._settled(_cut(text, low))

    def body(self, fitted: str, memo: Memo) -> dict[str, Any]:
        """What is sent to make or edit the comment."""
        property_ = {"key": self.properties[0], "value": self.value(memo)}
        return {**self.plain(fitted), "properties": [property_]}

    def plain(self, fitted: str) -> dict[str, Any]:
        """What is sent to make a comment beside our one; without the property nobody takes it for ours (T16)."""
        return {"body": self._written(fitted)}

    def value(self, memo: Memo) -> dict[str, Any]:
        """The value of our comment property."""
        return {"memo": memo.to_line()}

    def memo(self, value: object) -> Memo | None:
        """The memo in our comment property; None when it is not one that we can read."""
        line = value.get("memo") if isinstance(value, dict) else None
        return Memo.from_line(line) if isinstance(line, str) else None

    def text(self, body: object) -> str:
        """The text of a comment."""
        if self.cloud:
            return adf.to_text(body)
        return wiki.to_text(body) if isinstance(body, str) else ""

    def is_ours(self, record: object) -> bool:
        """Whether a comment's property, as Jira lists it, is ours."""
        return isinstance(record, dict) and record.get("key") in self.properties

    def _written(self, text: str) -> Any:
        return adf.to_adf(text) if self.cloud else wiki.to_wiki(text)

    def _settled(self, text: str) -> str:
        """The text after a round trip, which is what a later read will be compared with."""
        return self.text(self._written(text)).strip("\n").rstrip() or EMPTY

    def _size(self, text: str) -> int:
        written = self._written(text)
        packed = written if isinstance(written, str) else json.dumps(written, ensure_ascii=False)
        return len(packed.encode("utf-16-le")) // 2


def _cut(text: str, length: int) -> str:
    """The beginning of a text with a note."""
    return cut(text, length) + CUT
