"""The tracker contract: what every platform must do, duty by duty. Conformance tests quote the numbers.

T1  `get` reads by key, never from a cache that may be stale; a missing ticket raises TicketNotFound.
T2  `find` pages to the end and yields each open ticket that carries one of the labels once; it may skip a malformed
    record (and log it); any error raises: an outage is never an empty list (P9). Pull requests do not count.
    Asked again while nothing changed, it costs one request at most, however many labels and tickets there are.
T3  `get` of a malformed record raises BadAnswer.
T4  `move` with `to` already reached, and only `to`, writes nothing and answers AlreadySo.
T5  `move` whose ticket no longer shows `expect` writes nothing and answers LostRace with what it saw.
T6  After Applied exactly one lifecycle label is on the ticket (none when `to` is None).
T7  Foreign labels survive, also one that a person adds between our read and our write, and so does an unknown
    label with our prefix. Only lifecycle labels are ever added or removed (P3).
T8  Add `to` first, then remove `expect`: at no moment is the ticket without its state.
T9  A lost answer (written, but the connection broke) is Unknown; the same move again ends in AlreadySo.
T10 A conflicting but unrelated edit is retried inside `move` while the ticket still shows `expect`.
T11 No write begins after the deadline, and none outlives it; what did not begin in time is Unknown.
T12 `tidy` leaves exactly the lifecycle label of `keep` (none for None) and touches nothing else.
T13 `write_sticky` twice leaves one comment, edited in place, cut to the platform's limit; it never edits what
    somebody else wrote. Unchanged text is not written again. `read_sticky` believes only our own comment.
T14 Failures are the typed errors of `errors.py`; no secret and no whole body in any message.
T15 `identify` accepts key, canonical id and URL of its own tickets and answers None for anything else.
T16 `say` posts one comment of its own, made harmless and cut like the sticky one, which it never is taken for. It is
    sent once: a lost answer raises, and whoever repeats it may say it twice.
T17 `relabel` adds and removes foreign labels, one by one or in one request that names them, never as a whole set except
    under a test of the revision. A lifecycle label, in any spelling that counts as one, raises ConfigError before
    anything is written (P3), and so does what would be read as several labels. What is so already is not written again.
T18 A move that carries words may write them together with the label, where that is one write; then the `write_sticky`
    that follows with the same words writes nothing. Elsewhere they are left to it. A move never adds a second comment.
T21 `history` tells, never from a cache, what was done since a label was put on: which labels came and went, and who
    changed title or body when. A label that was taken off last was put on by nobody. `labelled_by` is its first deed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, runtime_checkable

from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.memo import Memo
from agentsmith.domain.ticket import Actor, Ticket, TicketId
from agentsmith.domain.vetting import History


@dataclass(frozen=True, slots=True)
class Words:
    """What our comment is to say, and the memo that it is to carry."""

    text: str
    memo: Memo


@dataclass(frozen=True, slots=True)
class Move:
    """One edge to publish. `deadline` is on the boot-time clock; `run` and `fence` say on whose behalf."""

    expect: Status
    to: Status | None
    run: str
    fence: int
    deadline: float
    say: Words | None = None
    """What the next `write_sticky` will say (T18)."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The ticket now shows `to`, and it was this call that wrote it."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class AlreadySo:
    """The ticket showed `to` already; nothing was written."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class LostRace:
    """The ticket shows something else than expected; nothing was written, or what was written lost."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class Gone:
    """There is no such ticket (any more)."""

    reason: str


@dataclass(frozen=True, slots=True)
class Forbidden:
    """The tracker refuses to write the label; also a 200 that changed nothing."""

    reason: str
    lacking: bool = False
    """Whether the credential lacks a permission, or is refused itself: only a person can do something about that."""
    signed_in: bool = True


@dataclass(frozen=True, slots=True)
class Limited:
    """The platform asked us to wait until `retry_at` (seconds since the epoch)."""

    retry_at: float
    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may or may not have been written: read again before deciding anything."""

    reason: str


MoveOutcome = Applied | AlreadySo | LostRace | Gone | Forbidden | Limited | Unknown


class Access(IntEnum):
    """What a person may do in a project, in rising order; each platform maps its own words onto it."""

    NONE = 0
    READ = 10
    TRIAGE = 20
    WRITE = 30
    ADMIN = 40


@dataclass(frozen=True, slots=True)
class Labelling:
    """Who put a label on a ticket, and what that person may do there."""

    actor: Actor
    access: Access
    event: str = ""
    """What the platform calls the moment when it was set: another name says that it was set again."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """A ticket that another one waits for."""

    id: TicketId
    url: str
    open: bool


@dataclass(frozen=True, slots=True)
class Sticky:
    """Our one comment on a ticket. `ref` is the platform's id for it, opaque to everybody else."""

    ref: str
    text: str
    memo: Memo | None


@runtime_checkable
class DefinesLabels(Protocol):
    """A tracker on whose platform a label is a thing of its own, with a colour, before it stands on a ticket."""

    async def missing_labels(self, *names: str) -> tuple[str, ...]:
        """Those of the labels that the platform does not have yet."""

    async def ensure_labels(self, *triggers: str) -> tuple[str, ...]:
        """Make the lifecycle labels that are missing, and these; answers those made. Safe to repeat, cheap when none is
        missing."""


@runtime_checkable
class GuessesAccess(Protocol):
    """A tracker whose platform does not tell what an account may do, so that `access_of` goes by something else."""

    @property
    def access_goes_by(self) -> str:
        """What it goes by."""


@runtime_checkable
class NamesPermissions(Protocol):
    """A tracker whose platform gives permissions to a credential."""

    @property
    def needs(self) -> str:
        """The permissions that agentsmith needs, as people find them on the platform."""


@runtime_checkable
class NamesPermissionToAsk(Protocol):
    """A tracker whose platform does not tell every credential what people may."""

    @property
    def needs_to_ask(self) -> str:
        """The permission for it, as people find it on the platform."""


@runtime_checkable
class KnowsCircles(Protocol):
    """A tracker that can tell who belongs where, for `allow.teams` and `allow.roles`."""

    async def belongs_to(self, actor: Actor, *, teams: frozenset[str], roles: frozenset[str]) -> str:
        """The first of these, in words, that the actor belongs to: `team 'core'`; empty when to none.

        Where the platform does not tell, it raises `Refused`: the actor may not, and people are told why.
        """


@runtime_checkable
class KeepsEveryEdit(Protocol):
    """A tracker on whose platform every edit of a comment stays in the ticket for ever, and their number is limited.

    Words that will be replaced before the run ends are not worth an edit there.
    """

    @property
    def edits_are_kept(self) -> bool:
        """Always true; having it is what counts."""


class Tracker(Protocol):
    """A place where tickets live. Implementations share nothing with each other but the HTTP layer."""

    @property
    def name(self) -> str:
        """The name that the configuration gives to this tracker."""

    @property
    def platform(self) -> str:
        """`github`, `gitlab`, `azure-devops`, `jira`, `local`, or what a plug-in calls itself."""

    @property
    def project(self) -> str:
        """The canonical project, e.g. `github.com/acme/web`: two trackers on one are a config error."""

    @property
    def labels(self) -> LabelSet:
        """The closed set of labels that this tracker may write."""

    def ticket_id(self, key: str) -> TicketId:
        """The canonical identity of the ticket that this tracker calls `key`."""

    def identify(self, text: str) -> str | None:
        """The key of the ticket that `text` (key, canonical id or URL) names, if it is one of ours (T15)."""

    def filter_hint(self, status: Status) -> str:
        """What a person pastes into this tracker's search box to see the tickets in `status`."""

    async def get(self, key: str) -> Ticket:
        """The ticket as it is now (T1, T3)."""

    def find(self, *labels: str) -> AsyncIterator[Ticket]:
        """Every open ticket that carries one of `labels` (T2).

        These are hints, perhaps without their texts: read by key before acting.
        """

    async def move(self, ticket: Ticket, move: Move) -> MoveOutcome:
        """Publish one edge, starting from `ticket` as it was read (T4 to T11)."""

    async def tidy(self, ticket: Ticket, *, keep: Status | None, deadline: float) -> Ticket:
        """Leave one lifecycle label where several stand (T12); answers the ticket as it is then."""

    async def read_sticky(self, ticket: Ticket) -> Sticky | None:
        """Our comment on the ticket, if there is one and it is really ours (T13)."""

    async def write_sticky(
        self, ticket: Ticket, text: str, memo: Memo, *, known: Sticky | None, deadline: float
    ) -> Sticky:
        """Make or edit our comment (T13). `known` is what the last call answered; it saves a look-up."""

    async def say(self, ticket: Ticket, text: str, *, deadline: float) -> None:
        """Post a comment beside our sticky one (T16)."""

    async def relabel(
        self, ticket: Ticket, *, add: Collection[str] = (), remove: Collection[str] = (), deadline: float
    ) -> Ticket:
        """Change labels that are not ours (T17); answers the ticket as it is then."""

    async def me(self) -> Actor:
        """Who the credential belongs to."""

    async def labelled_by(self, ticket: Ticket, label: str) -> Labelling | None:
        """Who last put `label` on the ticket and what they may do; None when the platform does not tell."""

    async def history(self, ticket: Ticket, label: str) -> History:
        """What was done to the ticket since `label` was last put on (T21)."""

    async def access_of(self, actor: Actor) -> Access:
        """What `actor` may do in this project."""

    async def blockers(self, ticket: Ticket) -> tuple[Blocker, ...]:
        """The tickets that this one is linked to as blocked by."""

    async def aclose(self) -> None:
        """Let go of connections and files."""
