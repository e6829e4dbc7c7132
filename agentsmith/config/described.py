"""What the attributes of a model are for, read from the strings beneath them in its source, when somebody asks.

Pydantic can do the same (`use_attribute_docstrings`), but reads the source of every model whenever the program starts,
which took a tenth of the time; only the schema and the questions of `agentsmith init` need it.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from functools import cache
from typing import Any

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic_core import CoreSchema


class Described(BaseModel):
    """A model whose JSON schema tells what each attribute is for."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler, /) -> dict[str, Any]:
        schema = handler(core)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, said in descriptions(cls).items():
            if (key := cls.model_fields[name].alias or name) in properties:
                properties[key]["description"] = said
        return schema


@cache
def descriptions(model: type[BaseModel]) -> dict[str, str]:
    """What each attribute of the model is for, by its name; an attribute of which nothing is said is left out."""
    found: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if issubclass(owner, BaseModel) and owner.__annotations__:
            found |= _strings_beneath(owner)
    return {name: said for name, said in found.items() if name in model.model_fields}


def _strings_beneath(model: type[BaseModel]) -> dict[str, str]:
    try:
        source = textwrap.dedent(inspect.getsource(model))
    except (OSError, TypeError):  # a package may come without its source, or make its models as it runs
        return {}
    found: dict[str, str] = {}
    for written in ast.parse(source).body:
        body = written.body if isinstance(written, ast.ClassDef) else []
        for attribute, beneath in itertools.pairwise(body):
            match attribute, beneath:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                    found[name] = inspect.cleandoc(said)
    return found
