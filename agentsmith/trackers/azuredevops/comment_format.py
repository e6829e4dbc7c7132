"""How our comment is written on a work item, and how it is recognised. Pure.

Azure DevOps strips HTML comments, drops tags that it does not know, and cuts a text off at a `<` that nothing closes,
in Markdown too. So nothing can be hidden and nothing may look like a tag: every `<`, `>` and `&` is escaped, and the
memo stands in a last line that people see. It counts only in a comment that our own account wrote. The same line says
where to look for what is not worth an edit: the comment is not written again only to tell that the work has begun.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Final, Literal

from agentsmith.domain.conversation import unspoken
from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.memo import Memo
from agentsmith.domain.tracker import Words

Format = Literal["markdown", "html"]

COMMENT_LIMIT: Final = 150_000
HINT: Final = "The tags say how it stands now."
CUT: Final = "\n\n… (cut: Azure DevOps takes no longer comment)"
EMPTY: Final = "…"
"""What is said where there is nothing to say."""
_BREAK: Final = re.compile(r"<br\s*/?>\n?", re.I)
_MARKUP: Final = re.compile(r"</?(?:div|p|span|code|pre)\b[^<>]*>", re.I)


@dataclass(frozen=True, slots=True)
class CommentInMove:
    """Our comment, ready to be sent together with a move; there it is HTML always."""

    text: str
    memo: Memo
    body: str


@dataclass(frozen=True, slots=True)
class CommentFormat:
    """How our comment looks for one label prefix; comments made under a former prefix are recognised too."""

    labels: LabelSet
    format: Format = "markdown"
    """Markdown where the service knows it; a Server shows HTML only."""

    def foot(self, memo: Memo) -> str:
        """The machine-read line that stands after the text."""
        return f"{HINT} `{_marker(self.labels.prefix)}{memo.to_line()}`"

    def fit(self, text: str, memo: Memo) -> str:
        """The text as it will stand there: what UTF-8 lacks replaced, cut where it is too long."""
        return self._fitted(text, COMMENT_LIMIT - self._size(f"\n\n{self.foot(memo)}"))

    def plain(self, text: str) -> str:
        """A comment beside our one as it is sent, fitted too; never in our form, whatever the text says (T16)."""
        fitted = self._fitted(text, COMMENT_LIMIT - self._size(f"\n\n{EMPTY}")) or EMPTY
        if self.read(html.escape(fitted, quote=False)) is not None:
            fitted += f"\n\n{EMPTY}"  # our form is in the last line, so this must not be it
        return self._escaped(fitted)

    def _fitted(self, text: str, room: int) -> str:
        clean = text[:room].replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
        clean = unspoken(clean.replace("\r\n", "\n").replace("\r", "\n").rstrip(), self.labels)
        if len(text) <= room and self._size(clean) <= room:
            return clean
        return self._first(clean, room - self._size(CUT)) + CUT

    def write(self, fitted: str, memo: Memo) -> str:
        """The whole comment as it is sent."""
        return self._escaped(f"{fitted}\n\n{self.foot(memo)}")

    def _escaped(self, text: str) -> str:
        whole = html.escape(text, quote=False)
        return whole if self.format == "markdown" else whole.replace("\n", "<br>")

    def for_move(self, said: Words) -> CommentInMove:
        """The comment as a move can carry it."""
        form = CommentFormat(self.labels, "html")
        fitted = form.fit(said.text, said.memo)
        return CommentInMove(fitted, said.memo, form.write(fitted, said.memo))

    def read(self, body: str) -> tuple[str, Memo | None] | None:
        """Text and memo of a comment in our form; None for any other. A memo that we cannot read is None."""
        shown = _MARKUP.sub("", _BREAK.sub("\n", body))
        text, _, foot = html.unescape(shown).replace("\r\n", "\n").rstrip().rpartition("\n")
        foot = foot.strip().removeprefix(HINT).lstrip()
        for prefix in (self.labels.prefix, *self.labels.former_prefixes):
            start = f"`{_marker(prefix)}"
            if foot.startswith(start) and foot.endswith("`"):
                return text.rstrip(), Memo.from_line(foot[len(start) : -1])
        return None

    def _size(self, text: str) -> int:
        """The length as it is sent, as the strictest reader counts it: half of a pair counts one."""
        return sum(self._weight(c) for c in text)

    def _weight(self, character: str) -> int:
        if character == "\n":
            return 1 if self.format == "markdown" else 4
        return len(html.escape(character, quote=False)) + (ord(character) > 0xFFFF)

    def _first(self, text: str, room: int) -> str:
        """As much of the beginning as fits; no escaped character is cut in half."""
        used = 0
        for index, character in enumerate(text):
            used += self._weight(character)
            if used > room:
                return text[:index].rstrip()
        return text


def _marker(prefix: str) -> str:
    """The beginning of the machine-read line; a back-tick would end it."""
    return f"{prefix.replace('`', '_')}:status "
