"""Durations and sizes as people write them: `500ms`, `30s`, `2m`, `10 MiB`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any, ClassVar, Final, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

_SECONDS: Final[Mapping[str, float]] = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST: Final = 366 * _SECONDS["d"]
_DURATION: Final = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*(ms|s|m|h|d)?\s*")

_BYTES: Final[Mapping[str, int]] = {
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
}
_LARGEST: Final = 1024**4
_SIZE: Final = re.compile(r"\s*([0-9]{1,15})\s*([kmg]i?b|b)?\s*", re.IGNORECASE)


class Duration(float):
    """A span of time in seconds; reads `500ms`, `30s`, `2m`, `1h`, `1d` and plain numbers of seconds.

    It is a type of its own so that a configuration can be sped up as a whole (`Config.scaled`).
    """

    shortest: ClassVar[float] = 0.001

    @classmethod
    def parse(cls, value: object) -> Self:
        """The duration that `value` stands for; raises ValueError with what is allowed, and nothing else."""
        if isinstance(value, Duration):
            return cls(value)
        seconds: float | None = None
        if isinstance(value, str) and (match := _DURATION.fullmatch(value)):
            # Rounded, because 0.001 is not exact in binary and 1500 times it should be 1.5.
            seconds = round(float(match[1]) * _SECONDS[match[2] or "s"], 9)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            seconds = float(value) if abs(value) <= _LONGEST else _LONGEST + 1
        if seconds is None or not isfinite(seconds) or seconds < 0:
            raise ValueError("is not a duration; write a number with a unit: 500ms, 30s, 2m, 1h or 1d")
        if seconds < cls.shortest:
            raise ValueError("is too short; the shortest duration is 1ms")
        if seconds > _LONGEST:
            raise ValueError("is too long; the longest duration is 366d")
        return cls(seconds)

    @property
    def text(self) -> str:
        """How a person would write it: `2m` rather than 120."""
        for unit in ("d", "h", "m", "s", "ms"):
            count = round(self / _SECONDS[unit], 6)
            if count >= 1 and count.is_integer():
                return f"{count:.0f}{unit}"
        return f"{float(self):.9f}".rstrip("0").rstrip(".") + "s"

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.parse,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda value: value.text if isinstance(value, Duration) else value, when_used="json"
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {
            "anyOf": [
                {"type": "number", "minimum": cls.shortest},
                {"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*(ms|s|m|h|d)?\s*$|\$\{"},
            ],
            "description": "a duration: 500ms, 30s, 2m, 1h, 1d, or a number of seconds",
        }


class Grace(Duration):
    """A Duration that may be zero: no waiting at all."""

    shortest: ClassVar[float] = 0.0


class Size(int):
    """A number of bytes; reads `10 MiB`, `500 kB` and plain numbers."""

    @classmethod
    def parse(cls, value: object) -> Self:
        """The size that `value` stands for; raises ValueError with what is allowed, and nothing else."""
        count: int | None = None
        if isinstance(value, str) and (match := _SIZE.fullmatch(value)):
            count = int(match[1]) * _BYTES[(match[2] or "B").lower()]
        elif isinstance(value, int) and not isinstance(value, bool):
            count = int(value)
        if count is None or count < 1:
            raise ValueError("is not a size; write a number of bytes, or one with a unit: 500 kB, 10 MiB")
        if count > _LARGEST:
            raise ValueError("is too large; the largest size is 1024 GiB")
        return cls(count)

    @property
    def text(self) -> str:
        """How a person would write it: `10 MiB` rather than 10485760."""
        for unit in ("GiB", "MiB", "KiB"):
            if self % _BYTES[unit.lower()] == 0:
                return f"{self // _BYTES[unit.lower()]} {unit}"
        return f"{int(self)} B"

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.parse,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda value: value.text if isinstance(value, Size) else value, when_used="json"
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": r"^\s*[0-9]+\s*([kKmMgG][iI]?[bB]|[bB])?\s*$|\$\{"},
            ],
            "description": "a size: 500 kB, 10 MiB, or a number of bytes",
        }
