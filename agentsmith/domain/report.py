"""What our one comment on a ticket says. Ticket text and output are quoted, never interpreted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agentsmith.domain.intent import NO_RUN
from agentsmith.domain.lifecycle import Status

_HEADLINES: Final = {
    Status.PENDING: "will be tried again",
    Status.ENQUEUED: "is waiting for a free slot",
    Status.IN_PROGRESS: "is being worked on",
    Status.WAITING: "is parked",
    Status.DONE: "is done",
    Status.FAILED: "failed",
}
_MARKS: Final = {"waiting": "⬜", "running": "▶️", "skipped": "⏭️", "done": "✅", "red": "🟥"}
_FAILED: Final = "❌"
_LONGEST_OUTPUT: Final = 4_000
_LONGEST_LINE: Final = 120
_RETRY: Final = "To run it again, remove the failed label or say `agentsmith retry`."

TEXT_CHANGED: Final = (
    "The ticket's text was changed after this run took it on; it works on the text as it was. "
    "Say `agentsmith retry` to have it run once more with the new one."
)


@dataclass(frozen=True, slots=True)
class StepLine:
    """One step of a run as people see it. `state` is `waiting`, `running`, `skipped`, or how it ended."""

    name: str
    state: str
    seconds: float | None = None
    detail: str = ""


def sticky_text(
    status: Status | None, *, run: str, attempt: int = 0, note: str = "", history: Sequence[str] = ()
) -> str:
    """The comment for a ticket in `status`.

    `note` is what `account` made of a run, or any text of ours; `history` tells what befell its earlier runs.
    """
    headline = _HEADLINES[status] if status else "was withdrawn"
    lines = [f"**agentsmith**: this ticket {headline}."]
    if note:
        lines += ["", note]
    if status is Status.FAILED:
        lines += ["", _RETRY]
    if history:
        lines += ["", "Before that:", *(f"- {line}" for line in history)]
    if run != NO_RUN:
        lines += ["", f"Run `{run}`" + (f", attempt {attempt}" if attempt else "")]
    return "\n".join(lines)


def account(
    *,
    note: str = "",
    steps: Sequence[StepLine] = (),
    output: str = "",
    links: Sequence[str] = (),
    hints: Sequence[str] = (),
) -> str:
    """What a run has to tell: what happened, its steps, the last of its output in a fold, and what to do next."""
    parts = [note] if note else []
    if steps:
        parts.append("\n".join(f"- {_step(step)}" for step in steps))
    parts += links
    if output.strip():
        parts.append(folded("The last of its output", output.strip()[-_LONGEST_OUTPUT:]))
    parts += hints
    return "\n\n".join(parts)


def _step(step: StepLine) -> str:
    mark = _MARKS.get(step.state, _FAILED)
    said = [quoted(step.name)]
    if step.seconds is not None:
        said.append(f"({duration_text(step.seconds)})")
    if step.state not in _MARKS:
        said.append(f"— {step.state}")
    if step.detail:
        said.append(f"— {quoted(step.detail)}")
    return f"{mark} {' '.join(said)}"


def in_queue(before: int) -> str:
    """Where a ticket stands in the queue when it joins it."""
    if before == 0:
        return "It is next in the queue."
    return f"It is number {before + 1} in the queue."


def quoted(text: str) -> str:
    """Somebody else's words inside a line of ours, as code: nothing in them is markup or calls for anybody."""
    line = "".join(char if char.isprintable() else " " for char in text).replace("`", "'").strip()
    line = line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"
    return f"`{line}`" if line else ""


def folded(title: str, output: str) -> str:
    """Output that takes no room until somebody wants to see it."""
    return f"<details><summary>{title}</summary>\n\n{fenced(output)}\n\n</details>"


def fenced(output: str) -> str:
    """`output` as a code block that its own back-ticks cannot close."""
    longest = run = 0
    for char in output:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{output.rstrip()}\n{fence}"


def duration_text(seconds: float) -> str:
    """A span as people say it: `0.3 s`, `12 s`, `5 min`, `1 h 20 min`."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
