"""How `agentsmith status` looks: the same data that `--json` gives, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agentsmith.cli import output

_MOST: Final = 20
"""Rows of the queue that are shown; the rest is counted."""
_LONGEST: Final = 60
_LONGEST_QUESTION: Final = 160


def view(seen: dict[str, Any], *, fancy: bool) -> Iterator[RenderableType]:
    """The parts, one after the other; only those that have something to say."""
    redis = seen["redis"]
    if not redis["reachable"]:
        yield Text.assemble(("Nothing is up", "bold"), f": no Redis runs here yet ({redis['where']}).")
        if redis["problem"]:
            yield Text(output.clean(redis["problem"]), style="red")
        yield Text("Start everything with: agentsmith up")
    else:
        yield Text.assemble(("Redis", "bold"), f"  {redis['version']}, {redis['where']}")
        if redis["settling"]:
            yield Text(
                "Redis is new or was restarted: tickets whose process is gone are taken up again in a minute or so."
            )
        if redis["problem"]:
            yield Text(output.clean(f"Redis refuses: {redis['problem']}"), style="red")
        yield from _work(seen, fancy=fancy)
        yield from _staff(seen, fancy=fancy)
        yield from _left_over(seen)
    yield from _filters(seen, fancy=fancy)


def _work(seen: dict[str, Any], *, fancy: bool) -> Iterator[RenderableType]:
    queue, running, waiting = seen["queue"], seen["running"], seen["waiting"]
    yield from _part(
        f"Running: {len(running)}",
        ("Ticket", "For", "Run", "Consumer", "Alive", "Pipeline", "Step", "Title"),
        [
            (
                r["ticket"],
                output.ago(r["for_seconds"]),
                r["run"],
                r["consumer"],
                "yes" if r["alive"] else "no",
                _short(r["pipeline"]),
                _step(r),
                _short(r["title"]),
            )
            for r in running
        ],
        fancy=fancy,
    )
    yield from _part(
        f"Queued: {seen['queued']}",
        ("", "Ticket", "Pipeline", "For", "Title"),
        [
            (str(q["position"]), q["ticket"], q["pipeline"], output.ago(q["for_seconds"]), q["title"])
            if q["ticket"]
            else (str(q["position"]), "unreadable", "", "", q["problem"])
            for q in queue[:_MOST]
        ],
        fancy=fancy,
    )
    if seen["queued"] > _MOST:
        yield Text(f"  … and {seen['queued'] - _MOST} more")
    if waiting:
        rows = [(w["ticket"], datetime.fromisoformat(w["until"]).astimezone().strftime("%F %T")) for w in waiting]
        yield from _part(f"Waiting for a time: {len(waiting)}", ("Ticket", "Until"), rows, fancy=fancy)
    if asking := seen["asking"]:
        asked = [
            (a["ticket"], output.ago(a["for_seconds"]), _short(_asked(a), _LONGEST_QUESTION)) for a in asking[:_MOST]
        ]
        yield from _part(f"Waiting for a person: {len(asking)}", ("Ticket", "For", "Question"), asked, fancy=fancy)
        yield Text("  The comment on the ticket says how to answer.")


def _asked(asking: dict[str, Any]) -> str:
    """What it asks; else why it was parked."""
    return asking["question"] or asking["why"] or "see its comment"


def _step(running: dict[str, Any]) -> str:
    """Where it stands, and for how long."""
    seconds = running["step_seconds"]
    return _short(running["step"]) + (f", {output.ago(seconds)}" if seconds is not None else "")


def _short(text: str | None, most: int = _LONGEST) -> str:
    """Words that somebody else chose, in a table."""
    text = " ".join((text or "").split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _staff(seen: dict[str, Any], *, fancy: bool) -> Iterator[RenderableType]:
    processes = seen["processes"]
    yield from _part(
        f"Processes: {len(processes)}" if processes else "Processes: none; start one with: agentsmith up",
        ("Host", "Pid", "Roles", "Slots", "Version"),
        [(p["host"], str(p["pid"]), ", ".join(p["roles"]), str(p["slots"] or ""), p["version"]) for p in processes],
        fancy=fancy,
    )
    for process in processes:
        if process["problem"]:
            yield Text(output.clean(f"  {process['host']} {process['pid']}: {process['problem']}"), style="red")
        if process["trouble"]:
            words = f"  {process['host']} {process['pid']} takes no work: {process['trouble']}"
            yield Text(output.clean(words), style="red")
    yield from _part(
        "Leaders",
        ("Role", "Held by", "For", "Last successful cycle"),
        [_leader(leader) for leader in seen["leaders"]],
        fancy=fancy,
    )


def _leader(leader: dict[str, Any]) -> tuple[str, ...]:
    held = leader["holder"] is not None
    ago, did = leader["last_cycle_seconds_ago"], leader["last_cycle_did"]
    return (
        leader["role"],
        leader["holder"] if held else "nobody",
        output.ago(leader["for_seconds"]) if held else "",
        f"{output.ago(ago)} ago: {did}" if ago is not None else "none yet",
    )


def _left_over(seen: dict[str, Any]) -> Iterator[RenderableType]:
    for refusal in seen["refused"]:
        words = f"{refusal['tracker']} refuses {refusal['doing']} since {refusal['since']}: {refusal['said']}"
        yield Text(f"\n{output.clean(words)}", style="red")
        yield Text(f"  {output.clean(refusal['remedy'])}")
    if seen["dead_letters"]:
        yield Text(f"\nDead letters: {seen['dead_letters']}; see them with: agentsmith dead-letters list", style="red")
    if unpublished := seen["unpublished"]:
        yield Text(f"\nDecided, but not yet on the ticket: {len(unpublished)}", style="bold")
        for intent in unpublished[:_MOST]:
            yield Text(output.clean(f"  {intent['ticket']} → {intent['to'] or 'no label'} ({intent['outcome']})"))


def _filters(seen: dict[str, Any], *, fancy: bool) -> Iterator[RenderableType]:
    labels = ", ".join(f"{t['label']} ({t['pipeline']})" for t in seen["triggers"])
    yield Text.assemble(("\nLabels that start work", "bold"), f": {labels}")
    several = len({f["tracker"] for f in seen["filters"]}) > 1
    head: tuple[str, ...] = ("Tracker", "Status", "Filter") if several else ("Status", "Filter")
    rows = [(*([f["tracker"]] if several else []), f["status"], f["filter"]) for f in seen["filters"]]
    yield from _part("To see tickets by status, paste", head, rows, fancy=fancy)


def _part(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, fancy: bool) -> Iterator[RenderableType]:
    yield Text(f"\n{title}", style="bold")
    if rows:
        yield _indented(head, rows, fancy=fancy)


def _indented(head: Sequence[str], rows: Sequence[Sequence[str]], *, fancy: bool) -> RenderableType:
    if fancy:
        made: Table = output.table(head, rows)
        return Padding(made, (0, 0, 0, 2))
    return Group(*(Text(f"  {line}", no_wrap=True, overflow="ignore") for line in output.aligned(head, rows)))
