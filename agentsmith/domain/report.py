"""What our one comment on a ticket says. Ticket text and output are quoted, never interpreted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentsmith.domain.lifecycle import Status

_HEADLINES: Final = {
    Status.PENDING: "will be tried again",
    Status.ENQUEUED: "is waiting for a free slot",
    Status.IN_PROGRESS: "is being worked on",
    Status.WAITING: "is parked",
    Status.DONE: "is done",
    Status.FAILED: "failed",
}


def sticky_text(
    status: Status | None,
    *,
    run: str,
    attempt: int = 0,
    note: str = "",
    steps: Sequence[str] = (),
    history: Sequence[str] = (),
) -> str:
    """The comment for a ticket in `status`; `history` tells what befell its earlier runs."""
    headline = _HEADLINES[status] if status else "was withdrawn"
    lines = [f"**agentsmith**: this ticket {headline}."]
    lines += [f"- {step}" for step in steps]
    if note:
        lines += ["", note]
    if status is Status.FAILED:
        lines += ["", "To run it again, remove the failed label or say `agentsmith retry`."]
    if history:
        lines += ["", "Before that:", *(f"- {line}" for line in history)]
    lines += ["", f"Run `{run}`" + (f", attempt {attempt}" if attempt else "")]
    return "\n".join(lines)


def fenced(output: str) -> str:
    """`output` as a code block that its own back-ticks cannot close."""
    longest = run = 0
    for char in output:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{output.rstrip()}\n{fence}"
