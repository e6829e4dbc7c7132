"""Rules about the repository itself that no linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentsmith.config import load
from agentsmith.store import keys
from agentsmith.trackers import registry
from tests.repo import commands_page, json_page
from tests.support.declared_keys import FAMILIES

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "agentsmith"
LONGEST_FILE = 400
LONGEST_FUNCTION = 60
MOST_PARAMETERS = 6
MANY_PARAMETERS = {
    "cli": "the options of a command, which Typer reads off the parameters",
    "simulators": "what a person enters on a platform's page, and what a simulator is made with",
    "git/command.py": "what one command of git is given: by keyword, with defaults",
    "git/shell.py": "what one process is given: by keyword",
    "housekeeping/retention.py": "the settings of retention and what is spared: by keyword",
    "logs.py": "the fields of the log line of a transition: by keyword",
    "pipelines/steps/command.py": "what a worker is given beside its settings: by keyword, with defaults",
    "store/intents.py": "what a decision takes along in the same step: by keyword, with defaults",
    "trackers/http/client.py": "what one request is given: by keyword, with defaults",
}
"""Where a function takes more, and why."""


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_module_outgrows_a_readers_patience() -> None:
    lengths = {named(path): len(path.read_text().splitlines()) for path in sources()}
    too_long = {n: length for n, length in lengths.items() if length > LONGEST_FILE}
    assert too_long == {}, f"split these: more than {LONGEST_FILE} lines"


def functions() -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node


def test_no_function_outgrows_a_screen() -> None:
    lengths = [(f"{named(path)}:{f.lineno} {f.name}", (f.end_lineno or 0) - f.lineno + 1) for path, f in functions()]
    assert [(name, length) for name, length in lengths if length > LONGEST_FUNCTION] == []


def test_no_function_takes_more_than_a_reader_keeps_in_mind() -> None:
    places = set[str]()
    for path, node in functions():
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        if len(given) - (given[:1] != [] and given[0].arg in ("self", "cls")) > MOST_PARAMETERS:
            place = path.relative_to(PACKAGE)
            places.add(place.parts[0] if place.parts[0] in MANY_PARAMETERS else str(place))
    assert places == MANY_PARAMETERS.keys(), "take fewer, or say here why not"


def test_every_module_says_what_it_is_for() -> None:
    silent = [named(path) for path in sources() if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def literals(path: Path) -> list[str]:
    return [
        node.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_only_the_table_of_keys_builds_keys() -> None:
    families = [re.escape(family.name.split("{")[0]) for family in FAMILIES if ":" in family.name]
    assert len(families) > 20
    built = re.compile(rf"{keys.Keys().namespace}:[a-z]|({'|'.join(families)})[^ ]*")
    elsewhere = {
        named(path): found
        for path in sources()
        if path.name != "keys.py" and (found := [text for text in literals(path) if built.match(text)])
    }
    assert elsewhere == {}


def callers(*names: str) -> dict[str, set[str]]:
    """Who calls something of these names, trackers and the platforms they speak to left out."""
    found: dict[str, set[str]] = {name: set() for name in names}
    for path in sources():
        if not {"trackers", "simulators"} & set(path.parts):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and (name := ast.unparse(node.func).rpartition(".")[2]) in found:
                    found[name].add(str(path.relative_to(PACKAGE)))
    return found


def test_a_label_is_moved_in_one_place_and_along_an_edge_of_the_table() -> None:
    publish = "tickets/publish.py"
    assert callers("Move", "tidy", "Edge") == {
        "Move": {publish},
        "tidy": {publish},
        "Edge": {"domain/lifecycle.py", "domain/intent.py"},  # the other one is what only another release knows
    }


def test_no_platform_is_named_outside_its_folder() -> None:
    pattern = re.compile(r"""platform\s*(==|!=|in)\s*[\[({"']""")
    platforms = [PACKAGE / folder for folder in ("trackers", "simulators", "config")]
    askers = [
        named(path)
        for path in sources()
        if not any(path.is_relative_to(folder) for folder in platforms)
        and any(pattern.search(line) for line in path.read_text().splitlines() if "sys.platform" not in line)
    ]
    assert askers == []


def test_the_domain_loads_nothing_that_does_io() -> None:
    modules = [f"agentsmith.domain.{path.stem}" for path in (PACKAGE / "domain").glob("[a-z]*.py")]
    heavy = ("redis", "httpx", "asyncio", "socket", "sqlite3", "subprocess", "structlog", "yaml", "pydantic")
    program = f"import sys, importlib\nfor m in {modules!r}: importlib.import_module(m)\n"
    program += f"print(*sorted(set(sys.modules) & set({heavy!r})))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.split() == []


def test_the_example_configuration_is_what_holds_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    known = registry.settings_models()
    assert load(ROOT / "config.example.yaml", platforms=known) == load(platforms=known)


def test_the_readme_starts_with_the_two_commands() -> None:
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(r"^```\w*\n(.*?)^```", readme, flags=re.MULTILINE | re.DOTALL)
    if not blocks:
        pytest.skip("README.md is only a stub")
    commands = [line.split("#")[0].strip() for line in blocks[0].splitlines()]
    assert commands == ["make demo", "make test"]
    targets = set(re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert {"demo", "test"} <= targets


def test_links_between_the_pages_lead_somewhere() -> None:
    broken = []
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists():
                broken.append(f"{named(page)}: {target}")
    assert broken == []


def test_the_page_of_commands_is_what_the_program_says() -> None:
    assert commands_page.PAGE.read_text() == commands_page.page(), "write it again with: make docs"


def test_the_page_of_answers_is_what_the_program_says() -> None:
    assert json_page.PAGE.read_text() == json_page.page(), "write it again with: make docs"
