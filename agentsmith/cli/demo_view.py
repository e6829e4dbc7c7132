"""How the demo looks on a terminal: while it plays, and summed up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from agentsmith.cli import output
from agentsmith.demo.story import Played, status_of
from agentsmith.demo.venue import LOCAL

_NEXT: Final = (
    ("agentsmith up", "start it for real (Ctrl-C stops it)"),
    ('agentsmith ticket new --title "Say hello" --label agent-smith', "give it work, from another terminal"),
    ("agentsmith ticket show 1", "see what came of it"),
    ("agentsmith status", "see what is queued and running"),
)


def live_table(played: Played, headlines: Sequence[str]) -> RenderableType:
    """Tickets and what their labels say, with the milliseconds at which each change came."""
    rows = []
    for key, ticket in played.tickets.items():
        status = status_of(ticket).value
        changes = " ".join(f"{move.to} {move.ms(played.start)}" for move in played.timeline.moves(key))
        rows.append((key, ticket.title, output.status_text(status), changes))
    said = [Text(f"  {headline}", style="dim" if headline is not headlines[-1] else "") for headline in headlines]
    if not rows:
        return Group(*said)
    return Group(output.table(("", "Ticket", "Label", "Changed after (ms)"), rows), Text(), *said)


def summary(result: dict[str, Any]) -> Iterator[RenderableType]:
    """The end of the demo."""
    yield from _part("Tickets")
    yield _columns(
        ("", "Ticket", "Label", ""),
        [
            (t["key"], t["title"], output.status_text(t["status"], _label(t)), _remark(t, result))
            for t in result["tickets"]
        ],
    )
    yield from _part("Timeline, in milliseconds after the labels were set")
    yield _columns(("ms", "Ticket", "What", "Who"), [_moment(moment) for moment in result["timeline"]])
    yield from _part("Checks")
    yield _columns((), [(_mark(check["ok"]), check["name"], check["detail"]) for check in result["checks"]])
    yield Text()
    yield Text(
        f"{result['seconds']:.1f} s in all. Every interval is {result['speed']:g} times shorter than normal here "
        f"(factor {result['factor']:g}), so that you need not wait."
    )
    if result["folder"]:
        yield Text(f"Everything is kept in {result['folder']}")
    if not result["ok"]:
        yield Text("Something did not go as it should; --keep keeps the logs.", style="red")
        return
    yield from _part("What to try next")
    for command, why in (*_on_simulator(result["tracker"]), *_NEXT):
        yield Text(f"  {why}:")
        yield Text(f"    {command}", style="bold")


def _on_simulator(tracker: str) -> Iterator[tuple[str, str]]:
    if tracker != LOCAL:
        yield f"agentsmith simulator {tracker}", "play with the same simulator yourself (Ctrl-C stops it)"


def _part(title: str) -> Iterator[RenderableType]:
    yield Text(f"\n{title}", style="bold")


def _columns(head: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> RenderableType:
    if output.fancy():
        return output.table(head, rows)
    return Group(*(Text(line, no_wrap=True, overflow="ignore") for line in output.aligned(head, rows)))


def _mark(ok: bool) -> Text:
    return Text("ok", style="green") if ok else Text("FAILED", style="bold red")


def _label(ticket: dict[str, Any]) -> str:
    return next((label for label in ticket["labels"] if label.endswith(f":{ticket['status']}")), "none")


def _remark(ticket: dict[str, Any], result: dict[str, Any]) -> str:
    if ticket["status"] != ticket["expected"]:
        return f"should be {ticket['expected']}"
    if ticket["killed"]:
        made = [proposal["url"] for proposal in result["pull_requests"]]
        return "; ".join(["its consumer was killed", *made])
    return str(result["error"]) if ticket["status"] == "failed" else ""


def _moment(moment: dict[str, Any]) -> tuple[str | Text, ...]:
    what: str | Text = moment["what"]
    if moment["to"]:
        what = Text.assemble(moment["from"], " → ", output.status_text(moment["to"]))
        if moment["what"] not in ("claimed", "started", "succeeded", moment["to"]):
            what.append(f" ({moment['what']})")
    elif moment["process"]:
        what = Text(f"{moment['what']}", style="bold red")
    return (f"{moment['ms']:>6}", moment["ticket"] or "", what, moment["process"] or "")
