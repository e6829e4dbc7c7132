"""No answer of the store or of a tracker is thrown away without a reason: it says whether anything was done at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PRODUCT: Final = ROOT / "agentsmith"
ROOMS: Final = ("tickets", "intake", "running", "housekeeping", "daemon")
"""Where the store and trackers are asked."""
ANSWERS: Final = (*sorted((PRODUCT / "store").glob("*.py")), PRODUCT / "domain" / "tracker.py")
"""Where those are defined whose answers matter, beside the two that publish."""
PUBLISHING: Final = frozenset({"publish", "record_and_publish"})
SILENT: Final = {
    ("tickets/claiming.py", "drop"): "a claim that did not come about; an intent that is another's by now stands",
    ("tickets/facts.py", "drop"): "the same",
    ("tickets/apply.py", "request_stop"): "what has ended meanwhile needs no stop",
    ("tickets/apply.py", "publish"): "the intent stands until it is published, and housekeeping finds it",
    ("tickets/look.py", "publish"): "the same",
    ("tickets/recording.py", "publish"): "the same",
    ("running/consumer.py", "acknowledge_and_take"): "takes nothing; what is not in our list needs no acknowledgement",
    ("running/start.py", "acknowledge_and_take"): "the same",
    ("running/poison.py", "acknowledge_and_take"): "the same",
    ("running/poison.py", "bury"): "what is not in our list is somebody else's to bury",
    ("running/consumer.py", "hand_back"): "what is not in our list is not ours to give back",
    ("running/consumer.py", "release_dead"): "by compare: there is nothing of ours to let go then",
    ("running/release_lease.py", "release_dead"): "the same",
    ("running/settle.py", "release_dead"): "the same",
    ("running/live_run.py", "restore"): "what is there needs no putting back",
    ("running/consumer.py", "restore"): "a run's, which answers nothing",
    ("daemon/process.py", "tick"): "nothing runs yet that could be stopped",
    ("daemon/presence.py", "restore"): "a consumer's, which answers nothing",
    ("daemon/presence.py", "settle_again"): "the same",
    ("daemon/presence.py", "put_back"): "housekeeping puts back what we leave",
    ("housekeeping/leader.py", "find_owners"): "only a number",
    ("housekeeping/sweep.py", "note_cycle"): "for people to read",
    ("intake/poller.py", "note_cycle"): "for people to read",
    ("tickets/publish.py", "write_sticky"): "raises when it is not written",
    ("intake/comment_commands.py", "send"): "merged means that it waits already",
}
"""Which answers are thrown away where, and why that is well."""


def _deciding() -> frozenset[str]:
    """Every question to the store or to a tracker that has an answer."""
    asked = (node for file in ANSWERS for node in ast.walk(ast.parse(file.read_text())))
    answers = {node.name for node in asked if isinstance(node, ast.AsyncFunctionDef) and _answer(node) != "None"}
    return frozenset(answers) | PUBLISHING


def _answer(function: ast.AsyncFunctionDef) -> str:
    return ast.unparse(function.returns) if function.returns is not None else "None"


def _thrown_away(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Await) and isinstance(node.value.value, ast.Call):
            yield _asked(node.value.value)


def _asked(call: ast.Call) -> str:
    """What is asked; `outlast` asks on behalf of others until Redis answers."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    match name, call.args:
        case "outlast", [ast.Lambda(body=ast.Call() as inner)]:
            return _asked(inner)
    return name


def test_every_answer_is_heard_or_there_is_a_reason_why_not() -> None:
    deciding, files = _deciding(), [file for room in ROOMS for file in sorted((PRODUCT / room).rglob("*.py"))]
    thrown = {
        (str(file.relative_to(PRODUCT)), name) for file in files for name in _thrown_away(file) if name in deciding
    }
    assert {"tidy", "move", "settle", "push", "decide"} <= deciding
    assert thrown - set(SILENT) == set(), "hear the answer, or say here why it does not matter"
    assert set(SILENT) - thrown == set(), "these are heard by now"
