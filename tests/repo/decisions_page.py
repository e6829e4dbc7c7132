"""Writes docs/decisions.md: what is decided about a ticket, read off `decide` itself. `make docs` runs it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from agentsmith.domain.facts import IN_HAND, Cancel, Due, Fact, Facts, Life, Look, Repair, Retry, RunNow, Wish
from agentsmith.domain.lifecycle import Status
from tests.support.decisions import FEW_LABELS, Way, every_way

PAGE: Final = Path(__file__).parents[2] / "docs" / "decisions.md"
_HEAD: Final = """# What is decided about a ticket

Whatever happens, somebody looks at one ticket: a webhook or a poll gives a hint, a person says a word, a time has come,
or housekeeping found a ticket that nobody has in hand. Each look is `lock → read → decide → record → publish`, and
`decide` in `agentsmith/domain/decision.py` is a pure function. This page is read off that function by `make docs`, and
a test compares the two. A question is asked only where the answer makes a difference, because most of them cost a
request or a script.

*In hand* is enqueued or in-progress, *at rest* is waiting, done or failed, *several labels* are any two or more.
"""
_SET_AGAIN: Final = "the trigger was set again, by somebody who may start work"
_TITLES: Final[dict[Wish, tuple[str, str]]] = {
    Look(): ("A hint", "A webhook, a poll or a retry of either says that something may have changed."),
    Look(labelled=True): (
        "A hint that a label was put on",
        "As for any hint; and where the ticket runs, perhaps its trigger was set once more.",
    ),
    Retry("mona"): (
        "A person says retry",
        "On the command line, in a comment, or by an answer to a question. The rest is as for a hint.",
    ),
    RunNow("fix-bug", "mona", "consumer-1"): (
        "A person runs it here and now",
        "`agentsmith run`: as for a hint, but the gate of the trigger is open.",
    ),
    Cancel("cancelled by mona"): ("A person says cancel", "On the command line or in a comment."),
    Repair(): ("Housekeeping found nobody who has it", "The stale detector, the reconciler, or a run that was let go."),
    Due(): ("A time has come", "A ticket was parked until then."),
}


def page() -> str:
    """The whole page."""
    parts, known = [_HEAD], set[str]()
    for wish, (title, text) in _TITLES.items():
        rows = [row for row in _rows(every_way(FEW_LABELS, (wish,))) if wish == Look() or row not in known]
        known |= set(rows) if wish == Look() else set()
        parts.append(f"## {title}\n\n{text}\n")
        if rows:
            parts.append("\n".join(["| The ticket | What is found out | What is done |", "|---|---|---|", *rows, ""]))
    return "\n".join(parts)


def _rows(ways: Iterable[Way]) -> list[str]:
    """A row for each action and what leads to it; tickets that are treated alike share one."""
    by_answers: dict[tuple[str, str], dict[str, None]] = {}
    for way in ways:
        key = (_found_out(way), _done(way))
        by_answers.setdefault(key, {})[_ticket(way.begun)] = None
    rows: dict[str, None] = {}
    for (found_out, done), tickets in by_answers.items():
        rows[f"| {_together(list(tickets))} | {found_out} | {done} |"] = None
    return list(rows)


def _ticket(facts: Facts) -> str:
    if facts.recorded.decided:
        return f"{facts.recorded.value} is recorded, and not published"
    shown = facts.statuses
    if len(shown) > 1:
        return "several labels"
    return facts.status.value


def _together(tickets: list[str]) -> str:
    """What the tickets have in common, in few words."""
    names = {status.value for status in Status}
    rest = [ticket for ticket in tickets if ticket not in names]
    labels = [ticket for ticket in tickets if ticket in names]
    if len(labels) == len(names):
        return "; ".join(["any label", *rest]) if rest else "any label"
    if set(labels) >= {status.value for status in IN_HAND}:
        labels = ["in hand", *(label for label in labels if label not in {status.value for status in IN_HAND})]
    if set(labels) >= {"waiting", "done", "failed"}:
        labels = [*(label for label in labels if label not in {"waiting", "done", "failed"}), "at rest"]
    return "; ".join([", ".join(labels), *rest]) if labels else "; ".join(rest)


def _found_out(way: Way) -> str:
    said: list[str] = []
    for fact, known in way.answers:
        said += _answer(way, fact, known)
    return "; ".join(dict.fromkeys(said)) or "nothing more"


def _answer(way: Way, fact: Fact, known: Facts) -> list[str]:
    match fact:
        case Fact.LEASE:
            if isinstance(way.wish, Retry) and known.leased:
                return ["it runs"]
            return [_held(way, "it runs", known) if known.leased else "it does not run"]
        case Fact.QUEUE:
            return [_held(way, "it is queued", known) if known.queued else "it is not queued"]
        case Fact.LATE_WRITE:
            return [f"its end, {known.late_write.value}, was overwritten late"] if known.late_write else []
        case Fact.REMAINS:
            return _left(known)
        case Fact.SET_AGAIN:
            return [_SET_AGAIN if known.set_again else "nobody set the trigger again"]
        case Fact.WANTED_AGAIN:
            return [_SET_AGAIN if known.wanted_again else "nobody set the trigger again"]
    assert known.judged is not None
    if known.judged.passed:
        return ["every gate is open"]
    return ["its text is not what was vetted" if known.judged.changed else "a gate is closed"]


def _held(way: Way, what: str, known: Facts) -> str:
    if isinstance(way.wish, Cancel):
        return what
    return f"{what}, and is still wanted" if known.wanted else f"{what}, and is no longer wanted"


def _left(known: Facts) -> list[str]:
    """Of what is left of a run, as much as was looked at on the way to the decision."""
    left = known.remains
    assert left is not None
    if not left.ours:
        return ["another installation took it on"]
    if len(known.statuses) > 1 or known.status not in IN_HAND:
        return []
    if left.life is not Life.DEAD:
        return [f"its run is {left.life.value}"]
    said = ["its run is dead" if known.status is Status.IN_PROGRESS else "nobody has it"]
    if left.queued and (known.status is Status.ENQUEUED or left.asked):
        return [*said, "its request is queued or in flight"]
    if not known.open or not left.triggered:
        return [*said, "it is closed, or its trigger is gone"]
    if left.attempts >= left.max_attempts:
        return [*said, "its attempts are used up"]
    if known.status is Status.IN_PROGRESS:
        return said
    if left.text_changed:
        return [*said, "its text was changed, or nobody knows what was vetted"]
    return said if left.routed else [*said, "only others know what to run"]


def _done(way: Way) -> str:
    action = way.action
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(action).__name__).lower()
    keep = getattr(action, "keep", None)
    edge = getattr(action, "edge", None)
    if edge is not None:
        to = edge.to.value if edge.to is not None else "no label"
        words += f": {to}"
    if keep is not None:
        words += ": the end that we published, else in-progress if it runs, else the highest" * (
            words == "tidy"
        ) + f": {keep.value}" * (words != "tidy")
    why = getattr(action, "why", "")
    shown = f"**{words}**" + (f" ({why})" if why and edge is None else "")
    return shown.replace("mona", "a person")


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
