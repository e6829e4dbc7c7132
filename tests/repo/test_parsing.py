"""What programs and platforms say is parsed by its own grammar, never by helpers that are made for people's text.

`str.splitlines` also splits at U+2028, U+2029, U+0085 and more, which git allows in the name of a branch; `str.split`
without an argument at every blank of Unicode.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOOKED_AT = ("domain", "git", "guard", "pipelines", "store", "trackers", "web")
FINE = {
    "agentsmith/domain/conversation.py": "a person's words, separated by whatever people separate words with",
    "agentsmith/guard/cgroups.py": "what the kernel prints: words without blanks",
    "agentsmith/guard/program.py": "what the kernel and ps print: numbers",
    "agentsmith/git/checkout.py": "makes one line of any text",
    "agentsmith/git/scan.py": "numbers that git puts between two blanks",
    "agentsmith/guard/spawn.py": "numbers, in bytes of our own",
    "agentsmith/pipelines/worker.py": "a worker's own words",
    "agentsmith/trackers/http/paging.py": "the relations of a link: words of ASCII",
    "agentsmith/trackers/http/proposals.py": "makes one line of any text",
    "agentsmith/trackers/http/redaction.py": "makes one line of any text",
    "agentsmith/trackers/jira/webhook.py": "only whether a label may have changed; the ticket is read again",
}
"""Where text helpers are right, and why."""


def _text_helpers(path: Path) -> list[int]:
    """The lines of calls that split by what Unicode calls a line or a blank."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    named = [(call, call.func.attr) for call in calls if isinstance(call.func, ast.Attribute)]
    return [call.lineno for call, name in named if name == "splitlines" or (name == "split" and not call.args)]


def test_no_text_helper_parses_what_programs_and_platforms_say() -> None:
    files = [path for part in LOOKED_AT for path in sorted((ROOT / "agentsmith" / part).rglob("*.py"))]
    found = {str(path.relative_to(ROOT)): lines for path in files if (lines := _text_helpers(path))}
    assert {name: lines for name, lines in found.items() if name not in FINE} == {}, "split by the grammar, or say why"
    assert found.keys() == FINE.keys(), "outdated"
