"""A comment that carries our memo in an invisible first line, for platforms whose Markdown hides HTML comments."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from agentsmith.domain.conversation import unspoken
from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.memo import Memo
from agentsmith.domain.tracker import Sticky
from agentsmith.trackers.shared.texts import encodable, utf16_beginning, utf16_size

EMPTY: Final = "…"
"""What is said where there is nothing to say: platforms refuse a comment without text."""
_UNSAFE: Final = re.compile(r"[<>\s]|-(?=-)|-$")
_SHOWN: Final = "&lt;"


def as_it_is(text: str) -> str:
    """No change."""
    return text


@dataclass(frozen=True, slots=True)
class MarkedComment:
    """How our comment looks for one label prefix; comments made under a former prefix are recognised too."""

    labels: LabelSet
    limit: int
    """The longest comment, in code points, or in units of UTF-16 where `utf16` says so."""
    cut: str
    """What stands at the end of a text that had to be cut."""
    harmless: Callable[[str], str] = as_it_is
    """Disarms whatever the platform would carry out instead of showing it."""
    utf16: bool = False
    """Whether a character outside the basic plane counts twice."""

    def head(self, memo: Memo) -> str:
        """The machine-read line that stands before the text."""
        return f"<!-- {_safe(self.labels.prefix)}:status {memo.to_line()} -->\n"

    def fit(self, text: str, memo: Memo) -> str:
        """The text as it will stand there: what UTF-8 lacks replaced, made harmless, cut where it is too long."""
        return self._fitted(text, self.limit - self._size(self.head(memo)))

    def plain(self, text: str) -> str:
        """A comment beside our one, fitted too; never in our form, whatever the text says (T16)."""
        fitted = self._fitted(text, self.limit - len(_SHOWN)) or EMPTY
        return fitted if self.read(fitted.lstrip()) is None else fitted.replace("<", _SHOWN, 1)

    def _fitted(self, text: str, room: int) -> str:
        # Twice the room is more than any replacement needs; the rest of a huge text is not worth looking at.
        clean = encodable(text[: 2 * room + 2]).replace("\r\n", "\n").rstrip()
        clean = self.harmless(unspoken(clean, self.labels))
        return clean if self._size(clean) <= room else self._beginning(clean, room - self._size(self.cut)) + self.cut

    def _size(self, text: str) -> int:
        return utf16_size(text) if self.utf16 else len(text)

    def _beginning(self, text: str, room: int) -> str:
        return utf16_beginning(text, room) if self.utf16 else text[:room]

    def read(self, body: str) -> tuple[str, Memo | None] | None:
        """Text and memo of a comment in our form; None for any other. A memo that we cannot read is None."""
        head, _, text = body.replace("\r\n", "\n").partition("\n")
        for prefix in (self.labels.prefix, *self.labels.former_prefixes):
            start, end = f"<!-- {_safe(prefix)}:status ", " -->"
            if head.startswith(start) and head.endswith(end):
                return text, Memo.from_line(head[len(start) : -len(end)])
        return None

    def as_sticky(self, comment: int, author: int | None, body: str) -> Sticky:
        """A comment of ours, by its number and that of who wrote it."""
        text, memo = self.read(body) or (body, None)
        return Sticky(f"{comment}" if author is None else f"{comment}.{author}", text, memo)


def _safe(prefix: str) -> str:
    """The prefix as it may stand inside an HTML comment."""
    return _UNSAFE.sub("_", prefix)
