"""Reading GraphQL documents: operations, fields, aliases, arguments, variables and fragments; no directives."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

TOKEN = re.compile(
    r"""(?P<skip>[\s,\ufeff]+|\#[^\n]*)
      |(?P<spread>\.\.\.)
      |(?P<punct>[{}()\[\]:!=$])
      |(?P<number>-?\d+(?:\.\d+)?)
      |(?P<name>[_A-Za-z]\w*)
      |(?P<block>\"\"\"(?:.|\n)*?\"\"\")
      |(?P<string>"(?:[^"\\\n]|\\.)*")""",
    re.VERBOSE,
)
CONSTANTS = {"true": True, "false": False, "null": None}


class BadDocument(Exception):
    """The document cannot be read; the text is fit for a GraphQL error."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A reference to a variable inside arguments."""

    name: str


@dataclass(slots=True)
class Selected:
    """A field, or a fragment where `name` is empty and `on` names the type."""

    name: str = ""
    alias: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    selections: list[Selected] = field(default_factory=list)
    on: str | None = None
    fragment: str | None = None
    """The name of a fragment that stands here."""


@dataclass(slots=True)
class Document:
    """One operation, ready to be run: `query` or `mutation`."""

    kind: str
    selections: list[Selected]
    required: set[str]
    """Variables that must be given."""
    fragments: dict[str, Selected]


def read(text: str, operation: str | None = None) -> Document:
    """The operation of that name, or the only one."""
    reader = _Reader(text)
    found: dict[str | None, Document] = {}
    fragments: dict[str, Selected] = {}
    while reader.here != ("end", ""):
        if reader.here[1] == "fragment":
            reader.take("fragment")
            name = reader.name()
            reader.take("on")
            fragments[name] = Selected(on=reader.name(), selections=reader.selection_set())
        else:
            name_or_none, document = reader.operation(fragments)
            found[name_or_none] = document
    if operation is None and len(found) != 1:
        raise BadDocument("An operation name is required")
    if operation is not None and operation not in found:
        raise BadDocument(f'No operation named "{operation}"')
    return found[operation] if operation is not None else next(iter(found.values()))


class _Reader:
    """Recursive descent over the tokens."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        position = 0
        while position < len(text):
            match = TOKEN.match(text, position)
            if match is None:
                raise BadDocument(f'Parse error on "{text[position]}" (error) at position {position}')
            if match.lastgroup != "skip":
                self._tokens.append((str(match.lastgroup), match.group()))
            position = match.end()
        self._tokens.append(("end", ""))
        self._at = 0

    @property
    def here(self) -> tuple[str, str]:
        return self._tokens[self._at]

    def take(self, wanted: str | None = None) -> str:
        kind, text = self.here
        if kind == "end" or wanted not in (None, text):
            raise BadDocument(f'Parse error on "{text or "end of file"}", expecting {wanted or "a token"}')
        self._at += 1
        return text

    def took(self, wanted: str) -> bool:
        if self.here[1] != wanted:
            return False
        self._at += 1
        return True

    def name(self) -> str:
        if self.here[0] != "name":
            raise BadDocument(f'Parse error on "{self.here[1]}", expecting a name')
        return self.take()

    def operation(self, fragments: dict[str, Selected]) -> tuple[str | None, Document]:
        kind, name, required = "query", None, set()
        if self.here[1] != "{":
            kind = self.name()
            if kind not in ("query", "mutation"):
                raise BadDocument(f'Parse error on "{kind}"')
            name = self.name() if self.here[0] == "name" else None
            if self.took("("):
                required = self._variables()
        return name, Document(kind, self.selection_set(), required, fragments)

    def _variables(self) -> set[str]:
        required = set()
        while not self.took(")"):
            self.take("$")
            name = self.name()
            self.take(":")
            must = self._type()
            if self.took("="):
                raise BadDocument("the simulator knows no default values of variables")
            if must:
                required.add(name)
        return required

    def _type(self) -> bool:
        if self.took("["):
            self._type()
            self.take("]")
        else:
            self.name()
        return self.took("!")

    def selection_set(self) -> list[Selected]:
        self.take("{")
        found = []
        while not self.took("}"):
            found.append(self._selection())
        if not found:
            raise BadDocument('Parse error on "}", expecting a field')
        return found

    def _selection(self) -> Selected:
        if self.here[0] == "spread":
            self.take()
            if self.took("on"):
                return Selected(on=self.name(), selections=self.selection_set())
            return Selected(fragment=self.name())
        name = alias = self.name()
        if self.took(":"):
            name = self.name()
        arguments = {}
        if self.took("("):
            while not self.took(")"):
                key = self.name()
                self.take(":")
                arguments[key] = self._value()
        selections = self.selection_set() if self.here[1] == "{" else []
        return Selected(name, alias, arguments, selections)

    def _value(self) -> Any:
        kind, text = self.here
        if self.took("$"):
            return Variable(self.name())
        if self.took("["):
            items = []
            while not self.took("]"):
                items.append(self._value())
            return items
        if self.took("{"):
            members = {}
            while not self.took("}"):
                key = self.name()
                self.take(":")
                members[key] = self._value()
            return members
        self.take()
        if kind == "string":
            return json.loads(text)
        if kind == "block":
            return text[3:-3].strip()
        if kind == "number":
            return json.loads(text)
        if kind == "name":
            return CONSTANTS.get(text, text)
        raise BadDocument(f'Parse error on "{text}"')
