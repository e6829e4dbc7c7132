"""JSON that a stranger may have written, read so that nothing but BadPayload can come of it (W2).

A platform's reader asks for what it needs: what stands under a name, a text, a number, a list. Whatever is not that is
malformed: a reader converts nothing and catches nothing, so no value can make it fail in a way of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar

from agentsmith.domain.errors import BadAnswer
from agentsmith.domain.webhook import BadPayload
from agentsmith.trackers.shared.shapes import shaped

T = TypeVar("T")

_LARGEST: Final = 2**63 - 1
"""No platform numbers anything beyond it."""


@dataclass(frozen=True, slots=True)
class JsonPart:
    """One place in the JSON. `where` names it in messages; its value is never shown."""

    value: object
    where: str = "the body"

    def at(self, *names: str) -> JsonPart:
        """What stands there, name under name; it must be there."""
        part = self
        for name in names:
            members = part._members()
            if name not in members:
                raise BadPayload(f"{part.where} has no {name}")
            part = JsonPart(members[name], name)
        return part

    def get(self, name: str) -> JsonPart | None:
        """What stands under the name; None where it is left out or null."""
        value = self._members().get(name)
        return None if value is None else JsonPart(value, name)

    def parts(self) -> Iterator[JsonPart]:
        """The members of a list."""
        if not isinstance(self.value, list):
            self._is_not("a list")
        return (JsonPart(value, self.where) for value in self.value)

    def text(self) -> str:
        """A text, which may be empty. Half a character, which JSON can hold and UTF-8 cannot, becomes a `?`."""
        if not isinstance(self.value, str):
            self._is_not("a text")
        return self.value.encode("utf-8", "replace").decode()

    def number(self) -> int:
        """The number of something: not negative, of a size that something has, perhaps written as a text."""
        value = self.value
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= len(str(_LARGEST)):
            value = int(value)
        # Not by int(): that takes true, 7.9 and " 7 ", and fails at 1e999 in ways of its own.
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
            self._is_not("the number of anything")
        return value

    def shaped(self, shape: type[T]) -> T:
        """A record."""
        try:
            record: T = shaped(shape, self.value, self.where)
            return record
        except BadAnswer as error:
            raise BadPayload(str(error)) from None

    def text_or_nothing(self, name: str) -> str:
        """The text under the name; empty where it is left out or null."""
        part = self.get(name)
        return part.text() if part is not None else ""

    def _members(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            self._is_not("an object")
        return self.value

    def _is_not(self, what: str) -> NoReturn:
        raise BadPayload(f"{self.where} is not {what}")


def read_object(body: bytes) -> JsonPart:
    """The JSON object in the body; BadPayload for anything else, the NaN and Infinity that Python reads included."""
    try:
        data = json.loads(body, parse_constant=_no_json)
    except (ValueError, RecursionError):
        raise BadPayload("the body is not JSON") from None
    if not isinstance(data, dict):
        raise BadPayload("the body is not a JSON object")
    return JsonPart(data)


def _no_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
