"""Shapes of JSON documents, written as the documents look, and as JSON schemas.

A shape is a type (`str`, `float`, an enumeration, a dataclass), a dictionary of named shapes (`"name?"` may be left
out), `{str: shape}` for any names, `[shape]` for a list, and `(shape, None)` for one of several.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any, Final

Shape = Any
_NAMES: Final[dict[object, str]] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def schema(shape: Shape) -> dict[str, Any]:
    """The shape as a JSON schema. Fields that are added later stand in no older schema's way."""
    match _plain(shape):
        case dict() as named if str in named:
            return {"type": "object", "additionalProperties": schema(named[str])}
        case dict() as named:
            return {
                "type": "object",
                "properties": {name.removesuffix("?"): schema(member) for name, member in named.items()},
                "required": [name for name in named if not name.endswith("?")],
            }
        case [member]:
            return {"type": "array", "items": schema(member)}
        case tuple() as several:
            return {"anyOf": [schema(one) for one in several]}
        case None:
            return {"type": "null"}
        case type() as kind if issubclass(kind, StrEnum):
            return {"enum": [str(member) for member in kind]}
        case kind if kind in _NAMES:
            return {"type": _NAMES[kind]}
    return {}


def written(shape: Shape, indent: str = "") -> Iterator[str]:
    """The shape as lines for people."""
    inner = f"{indent}  "
    match _plain(shape):
        case dict() as named:
            yield "{"
            for name, member in named.items():
                first, *rest = written(member, inner)
                yield f"{inner}{'any name' if name is str else name}: {first}"
                yield from rest
            yield f"{indent}}}"
        case [member]:
            first, *rest = written(member, indent)
            yield f"[{first}" if rest else f"[{first}]"
            yield from rest[:-1]
            yield from (f"{line}]" for line in rest[-1:])
        case tuple() as several:
            lines = [""]
            for number, one in enumerate(several):
                first, *rest = written(one, indent)
                lines[-1] += f" | {first}" if number else first
                lines += rest
            yield from lines
        case None:
            yield "null"
        case type() as kind if issubclass(kind, StrEnum):
            yield " | ".join(f'"{member}"' for member in kind)
        case kind:
            yield _NAMES.get(kind, "anything")


def members(dataclass: type) -> dict[Any, Shape]:
    """The fields of a dataclass, by name."""
    hints = typing.get_type_hints(dataclass)
    return {field.name: hints[field.name] for field in fields(dataclass)}


def _plain(shape: Shape) -> Shape:
    """The shape with Python's own ways to say it put into ours."""
    origin: Any = typing.get_origin(shape)
    inner = typing.get_args(shape)
    if origin in (typing.Union, types.UnionType):
        return tuple(None if one is types.NoneType else one for one in inner)
    if origin in (list, tuple):
        return [inner[0]]
    if origin is dict:
        return {str: inner[1]}
    return members(shape) if isinstance(shape, type) and is_dataclass(shape) else shape
