"""One word, one meaning: what is called alike is alike, and former names are gone."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
ALIKE = re.compile(r"agentsmith/(simulators|trackers/(azuredevops|git|github|gitlab|jira|local))/")
"""What one platform calls like another is the same part of it."""
OF_A_KIND = re.compile(r"agentsmith/(store/scripts|config|cli|bench|demo)/")
"""Scripts are called as what they do, sections of the configuration as people write them, and commands, measurements
and the demo are read by themselves."""
TWO_SIDES = {"Guard": "its own process, and the client that speaks to it"}
FORMER = frozenset(
    {"barracks", "calloff", "calm", "desk", "farewell", "pen", "posting", "rhythm", "rulebook", "told", "untold"}
)
STILL_READ = {"agentsmith/farewell.py", "agentsmith/pipelines/context.py", "agentsmith/trackers/http/__init__.py"}
"""Guards that run already, and steps and trackers of others, use the former names."""
SERVER_KEEPER = re.compile(r"agentsmith/(store/server/|running/release_lease\.py)")
MODULES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "agentsmith").rglob("*.py"))


def tree(module: str) -> ast.Module:
    return ast.parse((ROOT / module).read_text())


def words(module: str) -> set[str]:
    """The words of every name that the module gives to something."""
    found = {Path(module).stem}
    for node in ast.walk(tree(module)):
        match node:
            case ast.Name(ctx=ast.Store()):
                found.add(node.id)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.arg():
                found.add(node.arg)
            case ast.Attribute(ctx=ast.Store()):
                found.add(node.attr)
    return {word for name in found for word in name.lower().split("_")}


def test_no_two_classes_share_a_name() -> None:
    named = defaultdict(list)
    for module in MODULES:
        if not ALIKE.match(module) and not OF_A_KIND.match(module):
            for node in tree(module).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    named[node.name].append(module)
    assert {name: where for name, where in named.items() if len(where) > 1 and name not in TWO_SIDES} == {}


def test_former_names_are_gone() -> None:
    known = {module: words(module) & FORMER for module in MODULES if module not in STILL_READ}
    assert {module: names for module, names in known.items() if names} == {}


def test_a_keeper_keeps_the_server() -> None:
    assert [module for module in MODULES if "keeper" in words(module) and not SERVER_KEEPER.match(module)] == []
