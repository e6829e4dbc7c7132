"""What commands print with `--json`, held against the shape that is documented for it, without a field more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import jsonschema

from agentsmith.cli import answers


def parsed(command: Sequence[str], text: str, *, code: int = 0) -> Any:
    """The one document that a command printed; AssertionError where it is not of the documented shape."""
    document = json.loads(text)
    failed = code != 0 and isinstance(document, dict) and "exit_code" in document
    kind = answers.ERROR if failed else kind_of(command)
    [*problems] = _validator(kind).iter_errors(document)
    assert not problems, f"{kind}: {problems[0].json_path}: {problems[0].message}"
    if failed:
        assert document["exit_code"] == code
        assert document["error"]
        assert document["remedy"]
    return document


def kind_of(command: Sequence[str]) -> str:
    """The command that the arguments begin with."""
    names = [" ".join(command[:length]) for length in (2, 1)]
    return next(name for name in names if name in answers.KINDS)


@cache
def _validator(kind: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(_closed(answers.schema_of(kind)))


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(part) for name, part in schema.items()}
    return (
        {**closed, "additionalProperties": False}
        if schema.get("type") == "object" and "properties" in schema
        else closed
    )
