"""The story of the demo: label several tickets at once, kill a consumer in mid-run, watch everything end well."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agentsmith.demo import code
from agentsmith.demo.stage import Stage, StageFright
from agentsmith.demo.timeline import Moment, Timeline
from agentsmith.demo.venue import Seen
from agentsmith.domain.lifecycle import LabelSet, Status, resolve

_LOOK_EVERY: Final = 0.04
_TITLES: Final = ("Say hello", "Update the changelog", "Sort the imports", "Rename the settings page")
_FOREIGN: Final = ("team-blue", "agent-smith:bug")
"""Labels that are nobody's business but people's; one of them even begins like ours."""


@dataclass(frozen=True, slots=True)
class Part:
    """One ticket of the story, and how it should end."""

    title: str
    trigger: str
    ends: Status = Status.DONE
    killed: bool = False
    coding: bool = False
    """Whether it is about code, and ends in a pull request."""


@dataclass(slots=True)
class Played:
    """What came of it."""

    timeline: Timeline
    parts: dict[str, Part] = field(default_factory=dict)
    tickets: dict[str, Seen] = field(default_factory=dict)
    start: float = 0.0
    victim: str = ""
    killed: str = ""
    killed_at: float = 0.0
    children: tuple[int, ...] = ()
    child_gone_at: float | None = None
    released_at: float | None = None
    checkpoint: str = ""
    """The commit that was on the branch of the killed run's ticket when it was killed."""

    @property
    def open(self) -> list[str]:
        """The tickets that have not ended: a platform that adds and removes one by one shows two labels between."""
        return [key for key, ticket in self.tickets.items() if not self._ended(key, ticket)]

    def _ended(self, key: str, ticket: Seen) -> bool:
        statuses = LabelSet().statuses(ticket.labels)
        shown = {move.to for move in self.timeline.moves(key)}
        return len(statuses) == 1 and all(status.final and status.value in shown for status in statuses)


Tell = Callable[[Played, str], None]
"""Called at every step of the story, with a headline or an empty text when only the labels changed."""


def status_of(ticket: Seen) -> Status:
    """What the ticket's label says."""
    return resolve(LabelSet().statuses(ticket.labels))


def plan(count: int, *, coding: bool = False) -> list[Part]:
    """The tickets: one fails with a real error, one loses its consumer, the others simply succeed."""
    long = Part("Rebuild the search index", "agent-smith:reindex", killed=True)
    if coding:
        long = Part(code.TITLE, code.TRIGGER, killed=True, coding=True)
    parts = [Part("Publish the release notes", "agent-smith:publish", ends=Status.FAILED), long]
    titles = [*_TITLES, *(f"Small change {number}" for number in range(1, count))]
    parts += [Part(title, "agent-smith") for title in titles[: count - len(parts)]]
    # The long one is not first, so that the queue is seen to move around it.
    return [*parts[2:4], parts[1], parts[0], *parts[4:]]


async def play(stage: Stage, count: int, tell: Tell, *, patience: float) -> Played:
    """Play it all; gives up `patience` seconds after everything was started, with what there is by then."""
    played = Played(Timeline(stage.logs))
    tell(played, f"the tickets are in {stage.venue.about}")
    tell(played, "starting Redis, two consumers, and a third process with poller and housekeeping")
    try:
        # On a busy machine the processes take long to start, which says nothing about the story.
        async with asyncio.timeout(patience):
            await stage.raise_curtain()
        async with asyncio.timeout(patience):
            await _label_all(stage, played, plan(count, coding=stage.venue.code is not None))
            tell(played, f"{count} tickets are labelled, all at once")
            await _kill_in_mid_run(stage, played, tell)
            await _see_recovery(stage, played, tell)
            while played.open:
                await _look(stage, played, tell)
            _see_proposals(stage, played, tell)
    except TimeoutError:
        tell(played, f"gave up after {patience:.0f} s")
    played.timeline.catch_up()
    return played


async def _label_all(stage: Stage, played: Played, parts: list[Part]) -> None:
    for part in parts:
        ticket = await stage.venue.open(part.title, _FOREIGN)
        played.parts[ticket.key] = part
        if part.killed:
            played.victim = ticket.key
    played.start = time.time()
    played.timeline.note(Moment(played.start, f"{len(parts)} tickets are labelled"))
    for key, part in played.parts.items():
        played.tickets[key] = await stage.venue.label(key, part.trigger)


async def _look(stage: Stage, played: Played, tell: Tell) -> None:
    """One look at everything, and a short rest."""
    stage.look_after_processes(killed=[played.killed])
    before = played.tickets
    played.tickets = {ticket.key: ticket for ticket in await stage.venue.tickets()}
    if played.timeline.catch_up() or before != played.tickets:
        tell(played, "")
    await asyncio.sleep(_LOOK_EVERY)


async def _kill_in_mid_run(stage: Stage, played: Played, tell: Tell) -> None:
    key = played.victim
    while not (children := _children(stage, key)):
        await _look(stage, played, tell)
    await _see_half_of_it_pushed(stage, played, tell)
    lease = await stage.store.runs.lease(stage.ticket_id(key))
    pids = {process.name: process.pid for process in await stage.store.presence.alive()}
    consumer = stage.name_of(pids.get(lease.consumer, 0)) if lease else None
    if consumer is None:
        raise StageFright(f"nobody is seen to run ticket {key}, though its work has begun")
    played.children, played.killed = children, consumer
    played.killed_at = time.time()
    played.timeline.note(Moment(played.killed_at, "killed (kill -9) in mid-run", ticket=key, process=consumer))
    await stage.kill(consumer)
    tell(played, f"{consumer} is killed (kill -9) while it works on ticket {key}")


async def _see_half_of_it_pushed(stage: Stage, played: Played, tell: Tell) -> None:
    """Until the first half of a coding ticket is on its branch; nothing else may be counted on after a kill."""
    venue, key = stage.venue.code, played.victim
    if venue is None or not played.parts[key].coding:
        return
    branch = stage.branch(key)
    # In a thread: the loop serves the repository meanwhile.
    while not venue.code.has(branch) or await asyncio.to_thread(venue.code.file, branch, code.FILE) is None:
        await _look(stage, played, tell)
    played.checkpoint = venue.code.heads()[branch]
    played.timeline.note(Moment(time.time(), f"half of the work is on {branch}", ticket=key))
    tell(played, f"half of the work on ticket {key} is pushed to its branch")


def _see_proposals(stage: Stage, played: Played, tell: Tell) -> None:
    """Note the pull requests that the tickets ended in."""
    for proposal in stage.venue.code.proposals() if stage.venue.code else ():
        played.timeline.note(Moment(time.time(), f"pull request {proposal.url}", ticket=played.victim))
        tell(played, f"ticket {played.victim} ended in a pull request: {proposal.url}")


def _children(stage: Stage, key: str) -> tuple[int, ...]:
    """The processes of the long run, once both of them have noted their pid."""
    pids = tuple(int(pid) for word, _, pid in stage.history(key) if word in ("begin", "child"))
    return pids if len(pids) == 2 else ()


async def _see_recovery(stage: Stage, played: Played, tell: Tell) -> None:
    """Until the guard has ended the children and given the lease back."""
    key, ticket = played.victim, stage.ticket_id(played.victim)
    while played.child_gone_at is None or played.released_at is None:
        if played.child_gone_at is None and not any(map(is_alive, played.children)):
            played.child_gone_at = time.time()
            played.timeline.note(Moment(played.child_gone_at, "its guard ended the work it left behind", ticket=key))
        if played.released_at is None and await stage.store.runs.lease(ticket) is None:
            played.released_at = time.time()
            played.timeline.note(Moment(played.released_at, "its guard gave the lease back", ticket=key))
            tell(played, f"ticket {key} is free again: its guard ended the work and gave the lease back")
        await _look(stage, played, tell)


def is_alive(pid: int) -> bool:
    """Whether the process exists and is more than a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False  # the number went to somebody else's process
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return not Path("/proc/self/stat").exists()
