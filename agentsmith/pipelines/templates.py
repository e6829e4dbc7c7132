"""Templates: Jinja, strict and in its sandbox. The source is the operator's or the repository's, never the ticket's."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

LARGEST_SOURCE: Final = 64 * 1024
_LARGEST_RESULT: Final = 16 * 1024 * 1024
_LONGEST_RANGE: Final = 1000


class BadTemplate(Exception):
    """The template cannot be used; the message says why."""


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox without what could grow a text beyond all bounds."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Only numbers are multiplied."""
        if not all(isinstance(side, int | float) and abs(side) < 1e9 for side in (left, right)) or operator == "**":
            raise SecurityError(f"`{operator}` is only for small numbers here")
        return super().call_binop(context, operator, left, right)


def _range(*numbers: int) -> range:
    found = range(*numbers)
    if len(found) > _LONGEST_RANGE:
        raise SecurityError(f"range() goes up to {_LONGEST_RANGE} steps here")
    return found


def _environment() -> _Environment:
    made = _Environment(undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True)
    made.globals = {"range": _range}
    return made


_ENVIRONMENT: Final = _environment()


@functools.lru_cache(maxsize=64)
def _compiled(source: str) -> Template:
    """Compiling costs more than rendering, and a pipeline's templates are the same for every ticket."""
    return _ENVIRONMENT.from_string(source)


def render(source: str, values: Mapping[str, object]) -> str:
    """Render the template with the values; raises BadTemplate and nothing else."""
    if len(source) > LARGEST_SOURCE:
        raise BadTemplate(f"it is larger than {LARGEST_SOURCE // 1024} KiB")
    parts: list[str] = []
    room = _LARGEST_RESULT
    try:
        for part in _compiled(source).generate(values):
            room -= len(part)
            if room < 0:
                raise BadTemplate(f"its result is larger than {_LARGEST_RESULT // 1024} KiB")
            parts.append(part)
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        raise BadTemplate(f"{error.message or type(error).__name__}{f' (line {line})' if line else ''}") from None
    except BadTemplate:
        raise
    except MemoryError:
        raise BadTemplate("it needs too much memory") from None
    except Exception as error:  # a filter may raise anything; the template is to blame
        raise BadTemplate(f"{type(error).__name__}: {error}") from None
    return "".join(parts)
