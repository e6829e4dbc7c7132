"""`agentsmith cancel` and `agentsmith retry`: a person's word about runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from agentsmith.boottime import boottime
from agentsmith.cli import finding, output, reach, session
from agentsmith.config import Config
from agentsmith.daemon.build import Parts, assemble
from agentsmith.daemon.open import open_store, open_trackers
from agentsmith.domain.facts import IN_HAND
from agentsmith.domain.gates import Gate, is_open, is_triggered, matching
from agentsmith.domain.lifecycle import Status, resolve
from agentsmith.domain.outcomes import Cancelled, OutcomeName, Stopping
from agentsmith.domain.request import text_hash
from agentsmith.domain.signal import Signal, SignalKind
from agentsmith.domain.stop import StopReason
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.domain.tracker import Tracker
from agentsmith.store import Store
from agentsmith.store.looks import PastLook
from agentsmith.tickets import explain
from agentsmith.tickets.lock import holding

_LOOK_EVERY: Final = 0.02
_READ_EVERY: Final = 0.25
"""A look at Redis is cheap; one at a tracker may count against a quota."""
_SLACK: Final = 5.0
"""What a guard may need beyond the grace, and then the publishing of the outcome."""
_RETRY_WAIT: Final = 5.0
_TURNED_AWAY: Final = (OutcomeName.REJECTED, OutcomeName.HELD)
_ENDS: Final = (Status.DONE, Status.FAILED, Status.WAITING)


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a person's wish; `ok` decides the exit code."""

    ticket: str
    key: str
    ok: bool
    outcome: str
    message: str


@dataclass(frozen=True, slots=True)
class TicketAtHand:
    """One ticket, and all that is needed to act on it."""

    config: Config
    store: Store
    tracker: Tracker
    parts: Parts
    ticket: Ticket
    who: str

    @property
    def id(self) -> TicketId:
        return self.ticket.id

    @property
    def status(self) -> Status:
        """What its label says."""
        return resolve(self.tracker.labels.statuses(self.ticket.labels))

    def answer(self, outcome: str, message: str, *, ok: bool = True) -> Answer:
        """The answer about this ticket."""
        return Answer(self.id, self.ticket.key, ok, outcome, message)


@contextlib.asynccontextmanager
async def _case(config: Config, text: str, who: str) -> AsyncIterator[TicketAtHand]:
    async with open_trackers(config) as trackers:
        tracker, key = finding.find(text, trackers)
        ticket = await finding.read(tracker, key)
        async with open_store(config) as opened:
            yield TicketAtHand(config, opened.store, tracker, assemble(config, opened.store, trackers), ticket, who)


def cancel(file: Path | None, text: str, *, actor: str | None, as_json: bool) -> bool:
    """Stop the ticket's run, or take it off the queue; False when there was nothing to stop."""
    config = session.begin(file)

    async def work() -> Answer:
        async with _case(config, text, session.whoever(actor)) as case:
            return await _cancel(case)

    return tell(asyncio.run(work()), as_json=as_json)


async def _cancel(case: TicketAtHand) -> Answer:
    store, reason = case.store, StopReason.cancelled_by(case.who)
    async with holding(store, case.tracker.platform, case.id, wait=store.times.lock) as lock:
        case = replace(case, ticket=await case.tracker.get(case.ticket.key))
        outcome = await case.parts.looks.cancel(case.tracker, case.ticket, reason, lock)
    match outcome:
        case Cancelled():
            return case.answer("unqueued", f"{case.id} was taken off the queue; its label says failed")
        case Stopping():
            return await _await_end(case, reason)
    return case.answer("not running", _nothing_to_cancel(case), ok=False)


def _nothing_to_cancel(case: TicketAtHand) -> str:
    if case.status is not Status.PENDING:
        return f"{case.id} is neither running nor queued: its label says {case.status.value}"
    if not case.ticket.open:
        return f"{case.id} is neither running nor queued: it is closed, and so it will not start"
    if matching(case.ticket, case.parts.triggers):
        return f"{case.id} is not queued yet; to keep it from starting, take the label off that starts it"
    return f"{case.id} is neither running nor queued: no label asks for it"


async def _await_end(case: TicketAtHand, reason: StopReason) -> Answer:
    """Wait until the run has settled and its outcome is on the ticket."""
    consumer = case.config.consumer
    give_up = boottime() + consumer.stop_poll + consumer.kill_grace + _SLACK
    note = output.WaitingNote(f"waiting for the run of {case.id} to end")
    while True:
        pause = _LOOK_EVERY
        if not await _in_hand(case):
            case = replace(case, ticket=await case.tracker.get(case.ticket.key))
            if case.status not in IN_HAND and not _will_start(case):
                break
            pause = _READ_EVERY
        if boottime() > give_up:
            message = f"{case.id} has not ended yet; the request stands and takes effect once its consumer hears it"
            return case.answer("asked", message, ok=False)
        note.tick()
        await asyncio.sleep(pause)
    # Set a moment after the run had settled, it would stop the next one.
    await case.store.runs.withdraw_stop(case.id)
    sticky = await case.tracker.read_sticky(case.ticket)
    if case.status is Status.FAILED and sticky is not None and str(reason) in sticky.text:
        return case.answer("cancelled", f"{case.id} was stopped; its label says failed")
    message = f"{case.id} ended by itself before it could be stopped: {case.status.value}"
    return case.answer("ended", message, ok=False)


def _will_start(case: TicketAtHand) -> bool:
    """Whether it lies between two runs: a crashed one that was brought back, and the one that is to be stopped."""
    return case.status is Status.PENDING and case.ticket.open and bool(matching(case.ticket, case.parts.triggers))


async def _in_hand(case: TicketAtHand) -> bool:
    """Whether somebody has the ticket, or its outcome is not on it yet."""
    store = case.store
    return (
        await store.runs.unsettled(case.id) is not None
        or await store.queue.holds(case.id)
        or await store.intents.of(case.id) is not None
    )


def retry(file: Path | None, text: str, *, actor: str | None, as_json: bool) -> bool:
    """Have the ticket run again; False when it cannot be."""
    config = session.begin(file)
    return tell(asyncio.run(retried(config, text, session.whoever(actor))), as_json=as_json)


async def retried(config: Config, text: str, who: str) -> Answer:
    """Have the ticket run again on behalf of `who`, and say what became of it."""
    async with _case(config, text, who) as case:
        return await _retry(case)


async def _retry(case: TicketAtHand) -> Answer:
    triggers = case.parts.triggers
    for gate in (is_open(case.ticket), is_triggered(case.ticket, triggers)):
        if not gate.passed:
            return case.answer("not possible", f"{case.id} cannot run: {gate.saw}; {gate.remedy}", ok=False)
    store = case.store
    before = await store.intents.last_ended(case.id), await store.looks.of(case.id)
    signal = Signal(
        case.tracker.name,
        case.ticket.key,
        case.id,
        kind=SignalKind.RETRY,
        cause=f"retried by {case.who}",
        by=case.who,
        text=text_hash(case.ticket.title, case.ticket.body),
    )
    await store.signals.send([signal])
    if not reach.listening(await store.presence.alive()):
        return case.answer("sent", f"{case.id} will run again as soon as a daemon is up; start one: agentsmith up")
    give_up, note = boottime() + _RETRY_WAIT, output.WaitingNote(f"waiting for {case.id} to be taken on")
    while boottime() < give_up:
        if answer := await _taken_on(case, *before):
            return answer
        note.tick()
        await asyncio.sleep(_LOOK_EVERY)
    return case.answer("sent", f"{case.id}: the daemon was told, but has not come to it yet; see: agentsmith status")


async def _taken_on(case: TicketAtHand, ended: str | None, looks: list[PastLook]) -> Answer | None:
    """What the daemon made of the retry, as soon as Redis shows it; the rest is how things stood before."""
    store = case.store
    # Read first: whatever was claimed by now is found in hand below, or is over already.
    since = [look for look in await store.looks.of(case.id) if look not in looks]
    if await store.runs.follow_up(case.id) is not None:
        return case.answer("follow-up", f"{case.id} is running; it will run once more afterwards")
    if (position := await store.queue.position(case.id)) is not None:
        return case.answer("enqueued", f"{case.id} will run again; it is number {position + 1} in the queue")
    if await store.queue.holds(case.id) or await store.runs.lease(case.id) is not None:
        # A live run is the new one only if the old one was over when we asked.
        return case.answer("started", f"{case.id} runs again") if case.status is not Status.IN_PROGRESS else None
    for look in since:
        shut = next((gate for gate in look.gates if not gate.passed), None)
        # Whoever was stopped by the status looked before the retry was there, or after others had parked the ticket.
        if look.outcome in _TURNED_AWAY and shut is not None and shut.gate is not Gate.STATUS:
            message = f"{case.id}: {explain.summary(look)}; {shut.remedy}"
            return case.answer("not claimed", message, ok=look.outcome == OutcomeName.HELD)
    # It may have run between two looks of ours, and to the same end as before: nothing passes by that is not counted.
    over = await store.intents.last_ended(case.id) not in (None, ended)
    if not (over and any(look.outcome == OutcomeName.CLAIMED for look in since)) or await _in_hand(case):
        return None
    now = await store.intents.last_published(case.id)
    return case.answer("ended", f"{case.id} ran again: {now}") if now in _ENDS else None


def tell(answer: Answer, *, as_json: bool) -> bool:
    """Show the answer; True when it is a yes."""
    if as_json:
        output.json_result(asdict(answer))
    elif answer.ok:
        output.say(output.clean(answer.message))
    else:
        output.note(output.clean(answer.message))
    return answer.ok
