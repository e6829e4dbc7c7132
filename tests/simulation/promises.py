"""The promises P1 to P6, and that only vetted text runs (P7), held against everything that happens.

Shared by the model and by the simulation.

Hears every script that Redis carried out, every write as it begins and as it lands, and every child as it starts. What
people did to a ticket is noted here too, because it decides what may happen to the ticket next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from agentsmith.domain.lifecycle import EDGES, Owner, Status
from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.ticket import TicketId
from agentsmith.domain.tracker import Move
from agentsmith.store import LeaseTimes
from tests.simulation.tracker import TRIGGER, Board, Page, Write
from tests.simulation.workers import Child, Floor

_NEVER: Final = 1e9
_DECIDED: Final = {Status.DONE, Status.FAILED, Status.WAITING}


class Doer(Protocol):
    """A process, to say who did it."""

    lock_tokens: set[str]
    """Every ticket lock that Redis gave to it."""


@dataclass(slots=True)
class Story:
    """What is known of one ticket, to tell what may happen to it."""

    key: str
    foreign: set[str]
    final: Status | None = None
    """Published as the end, and no person has said otherwise since."""
    retries: int = 0
    """How often a person said retry and was not heard yet."""
    granted: int = 0
    """How often a person said retry and was heard."""
    newest: int = 0
    """The newest fence that Redis gave out since it last forgot something."""
    unwanted_since: int | None = None
    starts: int = 0
    """Children started since the count last began afresh."""
    vetted: set[str] = field(default_factory=set)
    """What the ticket was called whenever somebody who may asked for a run."""
    finished: bool = False
    """A run ended for good, and no person has asked for another one since."""
    later: bool = False
    """Its run is to be tried again at a time that will come, and nothing has come of that yet."""


class Promises:
    """Everything that must hold; `violations` says what did not."""

    def __init__(
        self,
        board: Board,
        floor: Floor,
        *,
        times: LeaseTimes,
        max_attempts: int,
        now: Callable[[], float],
        moment: Callable[[], int],
        say: Callable[[str], None],
    ) -> None:
        self.stories: dict[str, Story] = {}
        self.violations: list[str] = []
        self.forgot_at = -1
        """When Redis last forgot something, in the order of things."""
        self._forgot_time = -_NEVER
        self.repeated = 0
        """How often finished work was done again: that is no breach of P2, but nobody wants to pay for it."""
        self.ends_are_kept = False
        """Whether it is a breach all the same, because whoever settled a run lives and remembers it."""
        self._board, self._floor, self._times, self._max_attempts = board, floor, times, max_attempts
        self._now, self._moment, self._say = now, moment, say
        self._acquired: dict[int, int] = {}
        self._stood: dict[int, int] = {}
        """When the lease under a fence was taken, and last seen to stand in Redis. A request that is taken again after
        Redis forgot its first lease is a run of the same name, with another lease."""
        self._requests: dict[str, str] = {}
        """The request of each ticket that waits or is in flight, since Redis last forgot something."""

    def broken(self, promise: str, what: str) -> None:
        """Note that a promise does not hold."""
        self.violations.append(f"{promise}: {what}")
        self._say(f"!!! {promise}: {what}")

    def forgot(self, *, went_back: bool = False) -> None:
        """Redis was emptied, or lost the latest that it had acknowledged and went back to what it knew before."""
        self.forgot_at, self._forgot_time = self._moment(), self._now()
        for story in self.stories.values():
            story.newest = 0
            story.starts = 0  # counted in Redis; the comment's memo may be a claim late
            if went_back:
                # A retry that was granted may wait there again, and nothing tells that from one more of the person's.
                story.retries, story.granted = story.retries + story.granted, 0
        self._requests.clear()  # what was put back since then is known to whoever put it back, and not to us

    # ---- what people do

    def opened(self, key: str, labels: set[str]) -> None:
        """A person opened a ticket with these labels."""
        self.stories[key] = Story(key, labels, unwanted_since=None if TRIGGER in labels else self._moment())
        self.vetted(key)

    def vetted(self, key: str) -> None:
        """Somebody who may start work asks for it, having read the text as it is now."""
        self.stories[key].vetted.add(self._board.pages[key].title)

    def tagged(self, key: str, label: str) -> None:
        """A person added a label that is not ours."""
        self.stories[key].foreign.add(label)
        if label == TRIGGER:
            self.vetted(key)
        self.reconsidered(key)

    def untagged(self, key: str, label: str) -> None:
        """A person removed a label that is not ours."""
        self.stories[key].foreign.discard(label)
        self.reconsidered(key)

    def unlabelled(self, key: str) -> None:
        """A person removed the lifecycle labels."""
        self.stories[key].final = None
        self.stories[key].starts = 0
        self.vetted(key)
        self.stories[key].finished = False

    def reconsidered(self, key: str) -> None:
        """A person changed something that decides whether the ticket is to be worked on."""
        story = self.stories[key]
        story.unwanted_since = None if self.wanted(key) else story.unwanted_since or self._moment()

    def wanted(self, key: str) -> bool:
        """Whether people want the ticket worked on."""
        page = self._board.pages[key]
        return page.open and TRIGGER in page.labels

    # ---- what Redis carried out

    def heard(self, actor: Doer, script: str, given: Mapping[str, Any], answer: Any) -> None:
        """Hold what a script answered against P1 and P6."""
        self._follow_requests(actor, script, given, answer)
        ticket = str(given.get("ticket", ""))
        match script:
            case "intents.begin_claim" | "intents.decide" if answer[0] in ("begun", "decided"):
                # To park what shows no label is to turn a claim away, not to declare a run dead.
                parks = script == "intents.decide" and _fields(given["fields"]).get("source") == "pending"
                self._raised(actor, "parks" if parks else script, ticket, int(answer[1]))
            case "runs.acquire" if answer[0] == "acquired":
                self._acquired[int(answer[1])] = self._stood[int(answer[1])] = self._moment()
                self._raised(actor, script, ticket, int(answer[1]))
            case "intents.adopt" if answer:
                fields = dict(zip(answer[::2], answer[1::2], strict=True))
                self._raised(actor, script, ticket, int(fields["fence"]))
            case "runs.settle" | "runs.settle_again" if answer == "settled":
                if script == "runs.settle":
                    fields = _fields(given["fields"])
                    self.story(ticket).finished |= fields.get("to") in ("done", "failed")
                    self.story(ticket).later = bool(fields.get("due"))
                self._accepted(actor, script, ticket, int(given["mine"]))
            case "runs.renew" if answer != "lost":
                self._stood[int(given["mine"])] = self._moment()
                self._accepted(actor, script, ticket, int(given["mine"]))
            case "intents.published" if answer == "published":
                self._accepted(actor, script, ticket, int(given["mine"]))
            case "leases.take" if answer:
                actor.lock_tokens.add(given["token"])
            case "leases.take_fenced" if answer == "held":
                actor.lock_tokens.add(given["token"])
                self._accepted(actor, script, given["fence"].partition(":fence:")[2], int(given["mine"]))
            case _:
                pass

    def _follow_requests(self, actor: Doer, script: str, given: Mapping[str, Any], answer: Any) -> None:
        """One waiting, one running: no request is pushed while another of its ticket waits or is in flight (P1)."""
        match script:
            case "queue.push" if answer == "pushed":
                ticket, request = given["ticket"], _named(given["payload"])
                if self._requests.setdefault(ticket, request) != request:
                    self.broken("P1", f"{actor} pushed a second request of {ticket} while the first one was in hand")
                self._requests[ticket] = request
            case "queue.acknowledge_and_take":
                for ticket, request in zip(given["done"][::2], given["done"][1::2], strict=True):
                    self._request_is_over(ticket, request)
            case "runs.settle" if answer == "settled":
                self._request_is_over(given["ticket"], given["payload"])
            case "runs.settle_again" if answer == "settled":
                self._requests.pop(given["ticket"], None)
            case "queue.bury" if answer:
                self._request_is_over(given["ticket"], given["payload"])
            case "intents.decide" if answer[0] == "decided" and str(given["unqueue"]) == "1":
                self._requests.pop(given["ticket"], None)
            case _:
                pass

    def _request_is_over(self, ticket: str, request: str) -> None:
        if self._requests.get(ticket) == _named(request):
            del self._requests[ticket]

    def forgotten(self, child: Child) -> bool:
        """Whether Redis forgot the child's lease: then it cannot keep anybody out until the lease is put back."""
        return self.forgot_at > self._stood.get(child.fence, 0)

    def _raised(self, actor: Doer, script: str, ticket: str, fence: int) -> None:
        """Somebody took the ticket over: then nothing of an earlier run may be alive."""
        story = self.story(ticket)
        before, story.newest = story.newest, max(story.newest, fence)
        for child in self._floor.working(TicketId(ticket)):
            if child.fence >= fence:
                continue
            patience = self._times.settle + self._times.renew_every
            if not self.forgotten(child):
                self.broken("P1", f"{actor} took {ticket} over ({script}) while {child} was alive")
            elif script == "intents.decide" and before <= child.fence and self._now() - self._forgot_time < patience:
                # Only the first to take it over: who comes after a claim, which Redis let pass, ends that one's run.
                self.broken("P1", f"{actor} declared {ticket} dead ({script}) too soon after Redis was emptied")

    def _accepted(self, actor: Doer, script: str, ticket: str, fence: int) -> None:
        if fence < self.story(ticket).newest:
            self.broken("P6", f"{script} by {actor} was accepted for {ticket} below the newest fence")

    # ---- children

    def child_starts(self, child: Child) -> None:
        """A child starts: alone (P1), wanted (P2), and not too often."""
        story = self.story(child.ticket)
        for other in self._floor.working(child.ticket):
            if not self.forgotten(other):
                self.broken("P1", f"{child} starts while {other} is alive")
        if story.unwanted_since is not None and story.unwanted_since < self._acquired.get(child.fence, 0):
            self.broken("P2", f"{child} starts although the ticket was withdrawn before its request was taken")
        if child.title not in story.vetted:
            self.broken("P7", f"{child} works on {child.title!r}, and nobody who may start work has seen that")
        if story.finished and not story.retries and not story.granted:
            self.repeated += 1
            if self.ends_are_kept:
                self.broken("P2", f"{child} does work again that was finished")
        story.finished = story.later = False
        story.starts += 1
        if story.starts > self._max_attempts:
            self.broken("P2", f"{child} starts for the {story.starts}th time; the limit is {self._max_attempts}")

    def woken(self) -> None:
        """A machine woke a moment ago: what was taken over while it slept has ended before it could do anything."""
        for child in self._floor.children:
            overtaken = child.alive and not self._floor.asleep(child) and child.fence < self.story(child.ticket).newest
            if overtaken and not self.forgotten(child):
                self.broken("P1", f"{child} goes on after its machine woke, although it was taken over")

    # ---- writes

    def begins(
        self, actor: Doer, role: Owner, what: str, key: str, fence: int | None, *, lock_holder: str | None
    ) -> None:
        """A write begins: only under the ticket's lock, and not below the newest fence (P6)."""
        # Whoever pushed a request comments on that: a consumer may have taken it already, and waits for the lock.
        comments_on_push = what == "tracker.sticky" and role in (Owner.CLAIM, Owner.HOUSEKEEPING)
        if self._forgot_time >= self._now() - self._times.lock:
            return  # a lock that Redis forgot keeps nobody out
        if fence is not None and fence < self.stories[key].newest and not comments_on_push:
            self.broken("P6", f"{actor} began {what} on {key} below the newest fence")
        if lock_holder not in actor.lock_tokens:
            self.broken("P6", f"{actor} began {what} on {key} without its lock")

    def moves(self, actor: Doer, role: Owner, key: str, move: Move) -> None:
        """Only edges that are in the table, and only by those who own them."""
        owners = {edge.owner for edge in EDGES if (edge.source, edge.to) == (move.expect, move.to)}
        if owners == {Owner.PERSON}:
            # What a person asked for may be published again, if nobody knows whether it was.
            allowed = self.stories[key].retries > 0 or self.stories[key].final is None
        elif move.to is Status.IN_PROGRESS or (move.expect, move.to) == (Status.PENDING, Status.ENQUEUED):
            allowed = role in owners
        else:
            allowed = bool(owners)  # what a claim, a run or housekeeping decided, anybody may publish
        if not allowed:
            self.broken("P4", f"{actor} moves {key} from {move.expect} to {move.to}, which is not its edge")

    def lands(self, write: Write) -> None:
        """A write of ours is on the ticket."""
        story, labels = self.stories[write.key], self._board.labels
        if story.final is not None and labels.label(story.final) in write.remove:
            if story.retries:
                story.retries, story.granted = story.retries - 1, story.granted + 1
            elif write.fence is None or write.fence >= story.newest:
                self.broken("P4", f"{write.by} took {story.final} off {write.key}, and no person had asked for it")
            story.final, story.starts = None, 0
        added = labels.status_of(write.add) if write.add else None
        if added is Status.PENDING and story.retries and story.final is None:
            # Asked for again while it was running: the run ends as pending, and counting begins afresh.
            story.starts = 0
        if added is not None and added is not Status.WAITING:
            story.later = False
        if added is not None and added.final and (write.fence is None or write.fence >= story.newest):
            story.final = added
        if added in _DECIDED or (write.remove and write.add is None):
            story.starts = 0

    # ---- at any time, and in the end

    def check(self) -> None:
        """What must hold at every moment: people's labels are as people left them (P3)."""
        for key, story in self.stories.items():
            page = self._board.pages[key]
            foreign = page.labels - self._board.labels.lifecycle(page.labels)
            if foreign != story.foreign:
                self.broken("P3", f"{key} carries {sorted(foreign)}; people left {sorted(story.foreign)}")

    def wrong_labels(self) -> list[str]:
        """Which tickets do not tell the truth (P2, P5), now that they have had the time to."""
        wrong = []
        for key, story in self.stories.items():
            statuses, page = self._board.statuses(key), self._board.pages[key]
            if self.forgot_at >= 0 and _nobody_lists(page, statuses):
                pass  # Redis may have forgotten it, and then nobody looks at it again
            elif story.final is not None and statuses != {story.final}:
                wrong.append(f"{key} ended as {story.final}, but shows {self._board.shown(key)}")
            elif self.wanted(key) and (len(statuses) != 1 or not statuses <= _DECIDED):
                wrong.append(f"{key} should be done, failed or waiting, but shows {self._board.shown(key)}")
            elif self.wanted(key) and story.later:
                wrong.append(f"{key} waits for a time that has come")
            elif len(statuses) > 1 or statuses & {Status.ENQUEUED, Status.IN_PROGRESS}:
                wrong.append(f"{key} was withdrawn, but shows {self._board.shown(key)}")
            if self._floor.alive(page.id):
                wrong.append(f"{key} still has a child")
        return wrong

    def story(self, ticket: str) -> Story:
        """The story of the ticket with this identity."""
        return self.stories[ticket.rpartition("#")[2]]


def _named(request: str) -> str:
    """What tells a request from any other, in its entry as well as in the whole of it."""
    pipeline_request = PipelineRequest.from_json(request)
    return f"{pipeline_request.run} {pipeline_request.fence}"


def _fields(flat: list[str]) -> dict[str, str]:
    """An intent, as a script was given it."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _nobody_lists(page: Page, statuses: frozenset[Status]) -> bool:
    """Whether only Redis could know that the ticket wants a look.

    Trackers list open tickets only. Without its trigger a ticket is listed by a label that says that somebody has it;
    and if no comment of ours says which trigger it had, nothing but that label speaks for it: never enough (P3).
    """
    named = page.sticky is not None and page.sticky.memo is not None and bool(page.sticky.memo.trigger)
    listed = bool(statuses & {Status.ENQUEUED, Status.IN_PROGRESS, Status.WAITING})
    return not page.open or (TRIGGER not in page.labels and not (named and listed))


LEFT: Final[Collection[str]] = (
    "queue:jobs", "queue:index", "running", "intents", "signals:inbox", "reservations", "intent:", "heartbeat:",
    "claim-lock:", "queue:processing:", "signals:processing:",
)  # fmt: skip
"""Keys, and beginnings of keys, of which none may be left in Redis once everything is settled."""


def left_over(names: Collection[str]) -> list[str]:
    """Which of these keys, without their namespace, may not be left."""
    families = tuple(name for name in LEFT if name.endswith(":"))
    return sorted(name for name in names if name in LEFT or name.startswith(families))
