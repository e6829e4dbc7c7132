"""All scripts of the store by name, and what each was given, told from what is on the wire."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from collections.abc import Sequence
from typing import Any

from agentsmith.store import scripts
from agentsmith.store.scripting import Script

ScriptType = type[Script[Any]]


@functools.cache
def all_scripts() -> dict[str, ScriptType]:
    """Every script: `runs.settle`, `intents.begin_claim`, …"""
    modules = [
        importlib.import_module(f"{scripts.__name__}.{found.name}") for found in pkgutil.iter_modules(scripts.__path__)
    ]
    return {
        name_of(value): value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Script) and value.__module__ == module.__name__
    }


def name_of(script: ScriptType) -> str:
    """The module, and the name as a function would have it."""
    return f"{script.__module__.rpartition('.')[2]}.{re.sub(r'(?<!^)(?=[A-Z])', '_', script.__name__).lower()}"


def given(script: ScriptType, keys: Sequence[Any], args: Sequence[Any]) -> dict[str, Any]:
    """What the script was given, by the names of its declaration."""
    program, named = script.program, dict[str, Any]()
    for words, names, more in ((keys, program.keys, program.more_keys), (args, program.args, program.more_args)):
        named |= dict(zip(names, words, strict=False))
        if more:
            named[more] = list(words[len(names) :])
    return named
