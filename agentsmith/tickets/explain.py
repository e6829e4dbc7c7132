"""Why a ticket did or did not run, as Redis knows it: for the command line, the API and comments (P10).

It never guesses: what nobody looked at is said to be unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

from agentsmith.domain.gates import Gate
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.outcomes import OutcomeName
from agentsmith.domain.ticket import TicketId
from agentsmith.store import Refusal, Store
from agentsmith.store.looks import PastLook

NEVER_SEEN: Final = "It was not looked at within the last 30 days, so what the gates would say is unknown."
_SAID: Final[Mapping[str, str]] = {
    OutcomeName.CLAIMED: "it was claimed",
    OutcomeName.REJECTED: "it was not claimed",
    OutcomeName.DEFERRED: "it is tried again later",
    OutcomeName.HELD: "it is held back until there is room",
    OutcomeName.WOULD_CLAIM: "nothing was written",
    OutcomeName.NOTHING_TO_DO: "nothing was to do",
    OutcomeName.CANCELLED: "it was taken off the queue",
    OutcomeName.STOPPING: "its run was asked to stop",
    OutcomeName.ENDED: "it ended",
}

_WORTH_TELLING: Final = (Status.WAITING, Status.DONE, Status.FAILED)
"""What is worth telling beside whether it is queued or runs."""


@dataclass(frozen=True, slots=True)
class Known:
    """What Redis knows about a ticket right now."""

    where: str
    published: Status | None
    """What we wrote onto the ticket last; None where nothing was within the last hour."""
    looks: list[PastLook]
    unpublished: str | None
    stop: str | None
    refused: tuple[Refusal, ...] = ()
    """What its tracker does not let us do."""


async def known(store: Store, ticket: TicketId, tracker: str = "") -> Known:
    """Everything about the ticket, and about the tracker of this name, that bears on whether it runs."""
    lease, position = await store.runs.lease(ticket), await store.queue.position(ticket)
    due = await store.intents.waits_until(ticket)
    intent = await store.intents.of(ticket)
    if lease is not None:
        where = f"running: run {lease.run} on {lease.consumer}, since {when(lease.since)}"
    elif position is not None:
        where = f"queued: {position} before it"
    elif await store.queue.holds(ticket):
        where = "taken by a consumer, about to start"
    elif due is not None:
        where = f"waiting until {when(due)}"
    elif await store.signals.held([ticket]):
        where = "held back until there is room"
    else:
        where = "neither queued nor running"
    decided = f"{intent.outcome}: the tracker has not taken it yet" if intent and intent.decided else None
    return Known(
        where,
        await store.intents.last_published(ticket),
        await store.looks.of(ticket),
        decided,
        str(stop) if (stop := await store.runs.stop_requested(ticket)) else None,
        tuple(refusal for refusal in await store.refusals.standing() if refusal.tracker == tracker),
    )


def as_data(ticket: TicketId, known: Known | None) -> dict[str, Any]:
    """The answer for programs; None says that Redis could not be asked."""
    if known is None:
        return {"ticket": ticket, "reachable": False, "now": None, "looks": None}
    return {
        "ticket": ticket,
        "reachable": True,
        "now": known.where,
        "published": known.published.value if known.published is not None else None,
        "unpublished": known.unpublished,
        "stop_requested": known.stop,
        "refused": [refusal_data(refusal) for refusal in known.refused],
        "looks": [
            {
                "first": when(look.first),
                "last": when(look.last),
                "cause": look.cause,
                "outcome": look.outcome,
                "why": look.why,
                "gates": [
                    {"gate": g.gate.value, "passed": g.passed, "saw": g.saw, "remedy": g.remedy} for g in look.gates
                ],
            }
            for look in known.looks
        ],
    }


def refusal_data(refusal: Refusal) -> dict[str, Any]:
    """What a tracker does not let us do, for programs."""
    fields = asdict(refusal)
    del fields["ticket"]  # what the tracker said names it, where it is about one
    return {**fields, "since": when(refusal.since)}


def as_comment(known: Known) -> str:
    """The answer as a comment on the ticket, in Markdown."""
    lines = [f"**agentsmith**: this ticket is {known.where}."]
    if known.published in _WORTH_TELLING:
        lines += [f"- its label says {known.published.value}"]
    lines += [f"- decided: {text}" for text in [known.unpublished] if text]
    lines += [f"- to be stopped: {text}" for text in [known.stop] if text]
    lines += [f"- the tracker refuses {refusal.doing}; {refusal.remedy}" for refusal in known.refused]
    # A look that a command itself caused says nothing about the label.
    looks = [look for look in known.looks if look.gates]
    if not looks:
        ended = [f"{summary(look)}, {span(look)}." for look in known.looks if look.outcome == OutcomeName.ENDED]
        return "\n".join([*lines, "", *(ended or [NEVER_SEEN])])
    latest = looks[-1]
    lines += ["", f"Looked at {span(latest)}: {summary(latest)}."]
    results = {result.gate: result for result in latest.gates}
    for gate in Gate:
        result = results.get(gate)
        if result is None:
            lines.append(f"- {gate.value}: not looked at")
        else:
            remedy = f"; {result.remedy}" if result.remedy else ""
            lines.append(f"- {gate.value}: {'yes' if result.passed else '**no**'}: {result.saw}{remedy}")
    return "\n".join(lines)


def summary(look: PastLook) -> str:
    """What came of a look, in a few words."""
    shut = next((result.saw for result in look.gates if not result.passed), "")
    return ": ".join(part for part in (_SAID.get(look.outcome, look.outcome), look.why or shut) if part)


def span(look: PastLook) -> str:
    """When it was so."""
    return when(look.last) if look.first == look.last else f"{when(look.first)} to {when(look.last)}"


def when(at: float) -> str:
    """A time as people and programs read it."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
