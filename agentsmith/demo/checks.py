"""Whether the demo went as it should: each promise that it shows, looked at from outside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from agentsmith.demo import code
from agentsmith.demo.stage import Stage
from agentsmith.demo.story import Played, is_alive, status_of
from agentsmith.domain.lifecycle import LabelSet, Status


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that should be so."""

    name: str
    ok: bool
    detail: str = ""


async def check(stage: Stage, played: Played) -> list[Check]:
    """Every check, whether it held or not."""
    return [
        *_ends(played),
        *_runs(stage, played),
        *_recovery(played),
        *_labels(played),
        await _comment(stage, played),
        *_code(stage, played),
        *_requests(stage),
    ]


def _ends(played: Played) -> Iterator[Check]:
    # Without any ticket the stage was never set, which is no success.
    wrong = [] if played.parts else ["there are no tickets"]
    wrong += [
        f"{key} is {status_of(played.tickets[key]).value}, not {part.ends.value}"
        for key, part in played.parts.items()
        if status_of(played.tickets[key]) is not part.ends
    ]
    good = sum(part.ends is Status.DONE for part in played.parts.values())
    yield Check("every ticket ended as it should", not wrong, "; ".join(wrong) or f"{good} done, 1 failed")


def _runs(stage: Stage, played: Played) -> Iterator[Check]:
    wrong = []
    for key, part in played.parts.items():
        words = [word for word, _, _ in stage.history(key) if word != "child"]
        # Strictly one after the other: a run that overlaps another would show as begin, begin, end, end.
        if words != (["begin", "begin", "end"] if part.killed else ["begin", "end"]):
            wrong.append(f"{key}: {' '.join(words) or 'never began'}")
    detail = f"ticket {played.victim} twice: the first was cut off, the second finished"
    yield Check("each ticket ran once, the killed one once more", not wrong, "; ".join(wrong) or detail)


def _recovery(played: Played) -> Iterator[Check]:
    left = [pid for pid in played.children if is_alive(pid)]
    gone = played.child_gone_at is not None and not left and bool(played.children)
    took = _after_kill(played, played.child_gone_at)
    yield Check("no child of the killed run survived", gone, f"still there: {left}" if left else f"gone {took}")
    again = [m for m in played.timeline.moves(played.victim) if m.to == Status.IN_PROGRESS.value]
    by = again[-1].process if len(again) > 1 else ""
    finished = [m.at for m in played.timeline.moves(played.victim) if m.to == Status.DONE.value]
    done = _after_kill(played, finished[0] if finished else None)
    yield Check("another consumer finished its ticket", by not in ("", played.killed), f"{by or 'nobody'}, {done}")


def _after_kill(played: Played, at: float | None) -> str:
    return "never" if at is None else f"{round((at - played.killed_at) * 1000)} ms after the kill"


def _labels(played: Played) -> Iterator[Check]:
    wrong = []
    for key, part in played.parts.items():
        labels = played.tickets[key].labels
        people = labels - LabelSet().lifecycle(labels)
        if people != {"team-blue", "agent-smith:bug", part.trigger}:
            wrong.append(f"{key}: {', '.join(sorted(labels))}")
        elif len(labels) != len(people) + 1:
            wrong.append(f"{key} has more than one status")
    yield Check("labels that people set are untouched", not wrong, "; ".join(wrong) or "team-blue, agent-smith:bug")


async def _comment(stage: Stage, played: Played) -> Check:
    said = await error_of(stage, played)
    return Check("the failure's reason is a comment on its ticket", bool(said), said or "there is none")


def _code(stage: Stage, played: Played) -> Iterator[Check]:
    venue = stage.venue.code
    if venue is None or not played.victim:
        return
    branch = stage.branch(played.victim)
    found = venue.proposals()
    wanted = [p for p in found if (p.head, p.base, p.open, p.draft) == (branch, "main", True, False)]
    detail = wanted[0].url if wanted else f"there are {len(found)}"
    yield Check("the coding ticket ended in one pull request, ready for review", len(wanted) == len(found) == 1, detail)
    kept = bool(played.checkpoint) and played.checkpoint in venue.code.history(branch)
    whole = venue.code.file(branch, code.FILE) == code.WHOLE
    done = f"{played.checkpoint[:12]} was pushed before the kill, and is part of it"
    yield Check(
        "its second run went on from the branch of the first", kept and whole, done if kept else "it began anew"
    )


def _requests(stage: Stage) -> Iterator[Check]:
    complaints = stage.venue.complaints()
    if complaints is not None:
        yield Check("every request is one that the platform knows", not complaints, "; ".join(complaints))


async def error_of(stage: Stage, played: Played) -> str:
    """The line of output that our comment on the failed ticket quotes."""
    for key in [key for key, part in played.parts.items() if part.ends is Status.FAILED]:
        for comment in await stage.venue.comments(key):
            for line in comment.splitlines():
                if "release-notes.md" in line and "`" not in line:
                    return line
    return ""


def as_data(stage: Stage, played: Played, checks: list[Check]) -> dict[str, Any]:
    """Tickets, labels, timeline and checks, as `--json` shows them."""
    return {
        "ok": all(check.ok for check in checks),
        "tracker": stage.tracker.name,
        "tickets": [
            {
                "id": stage.ticket_id(key),
                "key": key,
                "title": ticket.title,
                "status": status_of(ticket).value,
                "expected": played.parts[key].ends.value,
                "labels": sorted(ticket.labels),
                "killed": played.parts[key].killed,
            }
            for key, ticket in played.tickets.items()
        ],
        "labels": {key: sorted(ticket.labels) for key, ticket in played.tickets.items()},
        "pull_requests": [asdict(proposal) for proposal in stage.venue.code.proposals()] if stage.venue.code else [],
        "timeline": [moment.to_dict(played.start) for moment in played.timeline.in_order()],
        "checks": [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in checks],
    }
