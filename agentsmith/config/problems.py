"""Validation errors as sentences: where, which key, what is wrong, what is allowed, what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic_core import ErrorDetails

from agentsmith.config.document import Path
from agentsmith.config.names import choices
from agentsmith.config.pipelines import Step, kind_of
from agentsmith.config.section import Section

_LONGEST_SHOWN: Final = 40
_LONGEST_KEY: Final = 100
_WITHOUT_VALUE: Final = frozenset(
    {"rule", "string_too_short", "string_too_long", "too_short", "dict_type", "model_type", "model_attributes_type"}
)

_TEXTS: Final[Mapping[str, str]] = {
    "string_type": "must be a text; put it in quotation marks",
    "string_too_short": "is empty",
    "string_too_long": "is too long; at most {max_length} characters are allowed",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "is too large",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "dict_type": "must be a mapping: indented lines like `key: value`",
    "model_type": "must be a mapping: indented lines like `key: value`",
    "model_attributes_type": "must be a mapping: indented lines like `key: value`",
    "tuple_type": "must be a list: indented lines like `- value`",
    "list_type": "must be a list: indented lines like `- value`",
    "path_type": "must be a path",
    "too_short": "is empty; at least {min_length} is needed",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
}


def dotted(path: Path) -> str:
    """`triggers[0].label`, as people write it."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    text = text.removeprefix(".")
    return text if len(text) <= _LONGEST_KEY else f"{text[:_LONGEST_KEY]}…"


def one_line(text: str) -> str:
    """The text without anything that a terminal would not print as it is; names in a file may hold all sorts."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def relevant(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """The errors without "is empty" for a list whose entries are all wrong."""
    above = {error["loc"][:length] for error in errors for length in range(len(error["loc"]))}
    return [error for error in errors if error["type"] != "too_short" or error["loc"] not in above]


def place(path: Path) -> Path:
    """The path in the file that an error's location means."""
    return tuple(part for part in path if part != "[key]")


class Explainer:
    """Turns the errors of one validation into sentences; it knows the models and the data, to name what is near."""

    def __init__(
        self, model: type[BaseModel], data: object, platforms: Mapping[type[Section], Mapping[str, type[Section]]]
    ) -> None:
        """`platforms` are the classes that stand for a general one, by what the section calls its `platform`."""
        self._model = model
        self._data = data
        self._platforms = platforms

    def sentence(self, error: ErrorDetails, *, quotable: bool) -> str:
        """One sentence for one error; a value is shown only where it is short, plain and no secret."""
        loc, kind, context, value = error["loc"], error["type"], error.get("ctx", {}), error["input"]
        if kind == "extra_forbidden":
            return unknown_key(str(loc[-1]), self._keys(loc[:-1]))
        if kind == "missing":
            return f"is missing; add `{loc[-1]}: …`"
        if kind == "value_error" and "error" in context:
            text = str(context["error"])
        elif kind == "literal_error":
            words = [word.strip("'") for word in str(context["expected"]).replace(" or ", ", ").split(", ")]
            text = f"is not possible here{choices(str(value), words)}"
        elif kind in _TEXTS:
            text = _TEXTS[kind].format(**context)
        else:
            text = error["msg"]
        shown = str(value).lower() if isinstance(value, bool) else repr(value)
        if kind in _WITHOUT_VALUE or f"`{value}`" in text or not quotable or not self._showable(loc, value):
            return text
        return f"{shown} {text}" if text.startswith(("is ", "has ", "holds ")) else f"{text} (found {shown})"

    def secrets(self) -> Iterator[str]:
        """Every text that stands where a secret belongs, so that no message repeats it."""
        yield from self._secrets(self._data, ())

    def _secrets(self, value: object, path: Path) -> Iterator[str]:
        if isinstance(value, Mapping):
            for key, item in value.items():
                yield from self._secrets(item, (*path, key))
        elif isinstance(value, list | tuple):
            for index, item in enumerate(value):
                yield from self._secrets(item, (*path, index))
        elif isinstance(value, str) and self._secret(path):
            yield value

    def is_secret(self, path: Path) -> bool:
        """Whether what stands there is known to be a secret."""
        return _holds_secret(self._type_at(path))

    def _showable(self, loc: Path, value: object) -> bool:
        # An address may hold a password before its @.
        plain = isinstance(value, str | int | float) and len(str(value)) <= _LONGEST_SHOWN and "@" not in str(value)
        return plain and "[key]" not in loc and not self._secret(loc)

    def _secret(self, path: Path) -> bool:
        kind = self._type_at(path)
        # What we do not know, where credentials live, may be one.
        return _holds_secret(kind) or (kind is None and path[:1] in (("trackers",), ("repositories",), ("redis",)))

    def _keys(self, path: Path) -> list[str]:
        kind = self._type_at(path)
        return list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else []

    def _type_at(self, path: Path) -> Any:
        kind: Any = self._model
        value = self._data
        for part in path:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                known = kind.model_fields.get(str(part))
                kind = _bare(known.annotation) if known else None
            else:
                arguments = get_args(kind)
                inner = {dict: arguments[1:], tuple: arguments[:1], list: arguments[:1]}.get(get_origin(kind))
                kind = _bare(inner[0]) if inner else None
            try:
                value = value[part]  # type: ignore[index]
            except (LookupError, TypeError):
                value = None
            if kind in self._platforms and isinstance(value, Mapping):
                kind = self._platforms[kind].get(str(value.get("platform")))
            elif kind is Step:
                kind = kind_of(value) or kind  # where something is unknown, it is one of the kind's own settings
        return kind


def unknown_key(name: str, known: list[str]) -> str:
    """What to say about a key that is not one, naming the nearest that is."""
    return f"unknown key{choices(name, known)}" if known else "unknown key; there is nothing to set here"


def _bare(kind: Any) -> Any:
    """The type without `Annotated[…]` and without `| None`."""
    while get_origin(kind) in (Annotated, Union, UnionType):
        choices = [choice for choice in get_args(kind) if choice is not type(None)]
        if get_origin(kind) is not Annotated and len(choices) > 1:
            return kind
        kind = choices[0]
    return kind


def _holds_secret(kind: Any) -> bool:
    return kind is SecretStr or any(_holds_secret(inner) for inner in get_args(kind))
