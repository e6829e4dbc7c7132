"""What programs and platforms say is parsed by its own grammar, never by helpers that are made for people's text.

`str.splitlines` also splits at U+2028, U+2029, U+0085 and more, which git allows in the name of a branch; `str.split`
without an argument at every blank of Unicode.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOR_PEOPLE = ("bench", "cli", "demo", "simulators")
"""What is shown to people, and what only plays a platform."""
FINE = {
    "agentsmith/config/steps.py": "makes one line of a command",
    "agentsmith/domain/conversation.py": "a person's words, separated by whatever people separate words with",
    "agentsmith/guard/cgroups.py": "what the kernel prints: words without blanks",
    "agentsmith/guard/processes.py": "what the kernel and ps print: numbers",
    "agentsmith/git/checkout.py": "makes one line of any text",
    "agentsmith/git/scan.py": "numbers that git puts between two blanks",
    "agentsmith/guard/spawn.py": "numbers, in bytes of our own",
    "agentsmith/pipelines/worker.py": "a worker's own words",
    "agentsmith/trackers/http/paging.py": "the relations of a link: words of ASCII",
    "agentsmith/trackers/shared/proposals.py": "makes one line of any text",
    "agentsmith/redaction.py": "more spellings of a secret to look for, and one line of any text",
    "agentsmith/trackers/jira/webhook.py": "only whether a label may have changed; the ticket is read again",
}
"""Where text helpers are right, and why."""


def _text_helpers(path: Path) -> list[int]:
    """The lines of calls that split by what Unicode calls a line or a blank."""
    named = [(call, call.func.attr) for call in _calls(path) if isinstance(call.func, ast.Attribute)]
    return [call.lineno for call, name in named if name == "splitlines" or (name == "split" and not call.args)]


def _calls(path: Path) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]


def _by_the_locale(path: Path) -> list[int]:
    """The lines of calls that decode what a program says as the locale has it, or take more than 0 to 9 for digits."""
    found = []
    for call in _calls(path):
        options = {word.arg: word.value for word in call.keywords}
        decodes = any(isinstance(options.get(name), ast.Constant) for name in ("text", "universal_newlines"))
        digits = isinstance(call.func, ast.Attribute) and call.func.attr in ("isdigit", "isnumeric")
        if digits or (decodes and {"stdout", "capture_output"} & options.keys()):
            found.append(call.lineno)
    return found


def _product() -> list[Path]:
    package = ROOT / "agentsmith"
    return [path for path in sorted(package.rglob("*.py")) if path.relative_to(package).parts[0] not in FOR_PEOPLE]


def test_no_text_helper_parses_what_programs_and_platforms_say() -> None:
    found = {str(path.relative_to(ROOT)): lines for path in _product() if (lines := _text_helpers(path))}
    assert {name: lines for name, lines in found.items() if name not in FINE} == {}, "split by the grammar, or say why"
    assert found.keys() == FINE.keys(), "outdated"


def test_nothing_is_read_as_the_locale_has_it() -> None:
    found = {str(path.relative_to(ROOT)): lines for path in _product() if (lines := _by_the_locale(path))}
    assert found == {}, "name the encoding; for digits, isascii() and isdecimal()"
