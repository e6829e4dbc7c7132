"""The GitLab tracker: the contract of `domain.tracker`, put together from its parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from typing import Final

import httpx

from agentsmith.boottime import boottime
from agentsmith.domain.conversation import Acknowledged
from agentsmith.domain.errors import Refused
from agentsmith.domain.foreign import foreign
from agentsmith.domain.hooks import Hook
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.memo import Memo
from agentsmith.domain.ticket import Actor, Ticket, TicketId
from agentsmith.domain.tracker import Access, Blocker, Labelling, Move, MoveOutcome, Sticky
from agentsmith.domain.vetting import History
from agentsmith.domain.webhook import Remark
from agentsmith.trackers.gitlab import payloads
from agentsmith.trackers.gitlab.hooks import Hooks
from agentsmith.trackers.gitlab.issues import Issues
from agentsmith.trackers.gitlab.links import Links
from agentsmith.trackers.gitlab.listing import PAGE_SIZE, Listing
from agentsmith.trackers.gitlab.moves import Moves
from agentsmith.trackers.gitlab.paging import onward
from agentsmith.trackers.gitlab.payloads import Label
from agentsmith.trackers.gitlab.people import People
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.gitlab.spelling import LabelStyle, Spelling
from agentsmith.trackers.gitlab.sticky import Stickies, form
from agentsmith.trackers.gitlab.voice import Voice
from agentsmith.trackers.http import ApiClient
from agentsmith.trackers.http.memory import Memory

TRUST_READS: Final = 5.0
"""Seconds for which a read stands for the look right before a label write."""
_LOOKS: Final = {
    Status.PENDING: ("#fbca04", "waits for its turn"),
    Status.ENQUEUED: ("#c5def5", "is in the queue"),
    Status.IN_PROGRESS: ("#1d76db", "is being worked on"),
    Status.WAITING: ("#d4c5f9", "waits for a person, a time or another ticket"),
    Status.DONE: ("#0e8a16", "finished"),
    Status.FAILED: ("#b60205", "failed; the comment says why"),
}
_TRIGGER_LOOKS: Final = ("#5319e7", "starts work")


class GitLabTracker:
    """The issues of one project; see `domain.tracker` for what each method owes."""

    platform: Final = "gitlab"
    needs: Final = "the scope api, and the role Planner, Reporter or more in the project"

    def __init__(
        self,
        *,
        name: str,
        site: Site,
        labels: LabelSet,
        client: ApiClient,
        style: LabelStyle = LabelStyle.PLAIN,
        http: httpx.AsyncClient | None = None,
        trust_reads: float = TRUST_READS,
        page_size: int = PAGE_SIZE,
        now: Callable[[], float] = boottime,
    ) -> None:
        """`http` is closed with the tracker."""
        self.name = name
        self.labels = labels
        self._site = site
        self._client = client
        self._http = http
        self._spelling = spelling = Spelling(labels, style)
        memory = Memory(trust=trust_reads)
        self._people = People(client, site, spelling, page_size=page_size)
        self._issues = Issues(tracker=name, site=site, client=client, spelling=spelling, memory=memory, now=now)
        self._listing = Listing(
            site=site, client=client, issues=self._issues, spelling=spelling, now=now, page_size=page_size
        )
        self._moves = Moves(issues=self._issues, spelling=spelling, memory=memory, now=now)
        self._links = Links(client, site, self._issues)
        self._voice = Voice(client, site, self._people)
        self._hooks = Hooks(client, site, page_size=page_size)
        self._stickies = Stickies(
            client=client,
            site=site,
            form=form(labels),
            issues=self._issues,
            people=self._people,
            memory=memory,
            now=now,
            page_size=page_size,
        )

    @property
    def project(self) -> str:
        """The canonical project: `gitlab.com/acme/apps/web`."""
        return self._site.canonical

    def ticket_id(self, key: str) -> TicketId:
        """`gitlab.com/acme/apps/web#12`."""
        return self._site.ticket_id(key)

    def identify(self, text: str) -> str | None:
        """The number behind `12`, `#12`, `acme/web#12`, the canonical id or the issue's URL (T15)."""
        return self._site.identify(text)

    def filter_hint(self, status: Status) -> str:
        """A search on the project's issues page."""
        return f'label:=~"{self._spelling.label(status)}"'

    async def get(self, key: str) -> Ticket:
        """The issue as it is now (T1, T3)."""
        return await self._issues.read(key)

    def find(self, *labels: str) -> AsyncIterator[Ticket]:
        """Every open issue that carries one of `labels` (T2)."""
        return self._listing.find(*labels)

    async def move(self, ticket: Ticket, move: Move) -> MoveOutcome:
        """Publish one edge (T4 to T11)."""
        return await self._moves.move(ticket, move)

    async def tidy(self, ticket: Ticket, *, keep: Status | None, deadline: float) -> Ticket:
        """Leave one lifecycle label (T12)."""
        return await self._moves.tidy(ticket, keep=keep, deadline=deadline)

    async def read_sticky(self, ticket: Ticket) -> Sticky | None:
        """Our comment on the issue (T13)."""
        return await self._stickies.read(ticket)

    async def write_sticky(
        self, ticket: Ticket, text: str, memo: Memo, *, known: Sticky | None, deadline: float
    ) -> Sticky:
        """Make our comment or edit it in place (T13)."""
        return await self._stickies.write(ticket, text, memo, known=known, deadline=deadline)

    async def say(self, ticket: Ticket, text: str, *, deadline: float) -> None:
        """Post a comment beside our one (T16)."""
        await self._stickies.say(ticket, text, deadline=deadline)

    async def relabel(
        self, ticket: Ticket, *, add: Collection[str] = (), remove: Collection[str] = (), deadline: float
    ) -> Ticket:
        """Change labels that are not ours (T17)."""
        wanted = foreign(self._spelling.reserved, add, remove)
        return await self._moves.relabel(ticket, wanted, deadline=deadline)

    async def me(self) -> Actor:
        """The account of the token."""
        me = await self._people.me()
        if self._site.id is None:
            await self._issues.look()
        return me

    async def labelled_by(self, ticket: Ticket, label: str) -> Labelling | None:
        """Who last put `label` on the issue, from its history."""
        return await self._people.labelled_by(self._issues.iid(ticket.key), label)

    async def history(self, ticket: Ticket, label: str) -> History:
        """What was done to the issue since `label` was put on (T21)."""
        return await self._people.history(self._issues.iid(ticket.key), label)

    async def access_of(self, actor: Actor) -> Access:
        """The account's role in the project, inherited ones included."""
        return await self._people.access_of(actor)

    async def belongs_to(self, actor: Actor, *, teams: frozenset[str], roles: frozenset[str]) -> str:
        """By a role in the project, or by membership of a group."""
        return await self._people.belongs_to(actor, teams=teams, roles=roles)

    async def remark(self, ticket: Ticket, ref: str) -> Remark | None:
        """A comment on the issue (T19)."""
        return await self._voice.remark(self._issues.iid(ticket.key), ref)

    async def remarks(self, ticket: Ticket, *, since: float) -> tuple[Remark, ...]:
        """What was said since then (T22)."""
        return await self._voice.remarks(self._stickies.records(ticket), since=since)

    async def acknowledge(self, ticket: Ticket, ref: str, *, deadline: float) -> Acknowledged:
        """A reaction (T20)."""
        return await self._voice.acknowledge(self._issues.iid(ticket.key), ref, deadline=deadline)

    async def hooks(self) -> tuple[Hook, ...]:
        """The project's webhooks (H1)."""
        return await self._hooks.listed()

    async def install_hook(self, url: str, secret: str) -> Hook:
        """A new one (H2)."""
        return await self._hooks.install(url, secret)

    async def repair_hook(self, hook: Hook, secret: str) -> Hook:
        """One made right (H3)."""
        return await self._hooks.repair(hook, secret)

    async def remove_hook(self, hook: Hook) -> None:
        """One less (H4)."""
        await self._hooks.remove(hook)

    async def blockers(self, ticket: Ticket) -> tuple[Blocker, ...]:
        """The issues that this one is marked as blocked by; none on tiers that know no such links."""
        return await self._links.blockers(self._issues.iid(ticket.key))

    async def ensure_labels(self, *triggers: str) -> tuple[str, ...]:
        """Make the lifecycle labels that the project lacks, and these; answers those made, as they are spelled there.
        One request when none is missing.

        Worth calling at start-up: it shows whether the token may write, and gives the labels their colours.
        """
        looks = dict.fromkeys(triggers, _TRIGGER_LOOKS) | {self.labels.label(s): look for s, look in _LOOKS.items()}
        made = []
        for name in await self.missing_labels(*looks):
            color, meaning = looks[name]
            label = self._spelling.written(name)
            body = {"name": label, "color": color, "description": f"agentsmith: {meaning}"}
            # 409: somebody else made it meanwhile, which is as good.
            path, taken = self._site.path(rest="/labels"), frozenset({409})
            await self._client.write("POST", path, body, repeatable=True, allow=taken, missing=Refused)
            made.append(label)
        return tuple(made)

    async def missing_labels(self, *names: str) -> tuple[str, ...]:
        """Those of the labels that the project lacks."""
        there: set[str] = set()
        path = self._site.path(rest="/labels")
        params = {"per_page": str(PAGE_SIZE)}
        async for page in self._client.pages(path, params=params, next_page=onward(params), missing=Refused):
            labels: list[Label] = payloads.read(list[Label], page.data, "a list of labels")
            there |= {label.name.casefold() for label in labels}
        return tuple(name for name in names if self._spelling.written(name).casefold() not in there)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()
