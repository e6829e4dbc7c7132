"""Reading a platform's JSON: strict about what we use, blind to the rest. Pure."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from agentsmith.domain.errors import BadAnswer

T = TypeVar("T")


class Record(BaseModel):
    """The base of every record that a platform sends: no conversions, and no value in any error."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, hide_input_in_errors=True, defer_build=True)


Moment = Annotated[AwareDatetime, Field(strict=False)]
"""A date with its time zone, written as text."""


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def shaped(shape: type[T] | Any, data: object, what: str) -> T:
    """`data` as `shape`; raises BadAnswer that names `what` and the first wrong field, and shows no value."""
    try:
        key: Any = shape
        adapted: T = _adapter(key).validate_python(data)
        return adapted
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the answer"
        raise BadAnswer(f"{what} is malformed: {where}: {first['msg']}") from None
