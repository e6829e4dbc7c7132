"""No test goes by how long something takes: a machine that is busy with something else is no mistake of ours.

Looked for: sleeps, upper bounds on measured time, and waits that give up early. A line that is right all the same says
why: `# time: …`. Chaos, simulation and model are about time, and have clocks of their own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parents[1]
ABOUT_TIME: Final = ("chaos", "simulation", "model")
EARLY: Final = 30.0
"""Seconds that a busy machine may take for anything."""
CLOCKS: Final = ("time.monotonic()", "time.perf_counter()", "time.time()", "boottime()")
SLEEPS: Final = ("time.sleep", "asyncio.sleep")
WAITS: Final = ("asyncio.timeout", "asyncio.wait_for", "wait_until")


def number(node: ast.expr | None) -> float | None:
    """What a number in the source says."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int | float) else None


def elapsed(node: ast.expr) -> bool:
    """Whether this is how much time has passed: `clock() - began`, or the distance of a moment from now."""
    reads = [ast.unparse(part) in CLOCKS for part in ast.walk(node) if isinstance(part, ast.Call)]
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "abs":
        return any(reads)
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub) or number(node.right) is not None:
        return False
    return ast.unparse(node.left) in CLOCKS


def complaints(source: str) -> Iterator[tuple[int, str]]:
    """The lines that go by how long something takes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in SLEEPS and number(node.args[0]) != 0:
                yield node.lineno, "sleeps; wait for what you wait for (tests/support/wait.py)"
            given = [*node.args, *(word.value for word in node.keywords)] if name in WAITS else []
            if any(bound < EARLY for bound in map(number, given) if bound is not None):
                yield node.lineno, "gives up early; a minute costs nothing where all is well"
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            for left, op, right in zip(operands, node.ops, node.comparators, strict=False):
                bound = number(right)
                if isinstance(op, ast.Lt | ast.LtE) and elapsed(left) and (bound is None or bound < EARLY):
                    yield node.lineno, "an upper bound on time; measure with `quickest`, or let the wrong way hang"


def test_no_test_goes_by_how_long_something_takes() -> None:
    found = []
    for path in sorted(TESTS.rglob("*.py")):
        if path.relative_to(TESTS).parts[0] in ABOUT_TIME:
            continue
        lines = path.read_text().splitlines()
        found += [
            f"{path.relative_to(TESTS)}:{line}: {what}"
            for line, what in complaints(path.read_text())
            if "# time: " not in lines[line - 1]
        ]
    assert found == []


def test_what_is_looked_for_is_found() -> None:
    bad = (
        "time.sleep(1)",
        "await asyncio.sleep(pause)",
        "assert time.monotonic() - began < 4",
        "assert 0.3 <= boottime() - began < limit",
        "assert abs(seen - time.time()) <= 5",
        "async with asyncio.timeout(2): pass",
        "await asyncio.wait_for(task, 5)",
        "await wait_until(ready, what='', within=10)",
    )
    good = (
        "await asyncio.sleep(0)",
        "assert boottime() - began >= 0.3",
        "assert lease.until - boottime() < 1",
        "assert time.time() - 60 < seen",
        "await wait_until(ready, what='', within=60)",
        "assert await quickest(stopped, than=3) < 3",
    )
    for line in (*bad, *good):
        found = list(complaints(f"async def test() -> None:\n    {line}\n"))
        assert bool(found) is (line in bad), line
