"""The Azure DevOps tracker: the contract of `domain.tracker`, put together from its parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Final

import httpx

from agentsmith.domain.conversation import Acknowledged
from agentsmith.domain.foreign import foreign
from agentsmith.domain.hooks import Hook
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.memo import Memo
from agentsmith.domain.ticket import Actor, Ticket, TicketId
from agentsmith.domain.tracker import Access, Blocker, Labelling, Move, MoveOutcome, Sticky
from agentsmith.domain.vetting import History
from agentsmith.domain.webhook import Remark
from agentsmith.trackers.azuredevops import links, tags
from agentsmith.trackers.azuredevops.form import Form, Format
from agentsmith.trackers.azuredevops.hooks import Hooks
from agentsmith.trackers.azuredevops.items import Items
from agentsmith.trackers.azuredevops.listing import BATCH, QUERY_PAGE, Listing
from agentsmith.trackers.azuredevops.memory import Memory
from agentsmith.trackers.azuredevops.moves import Moves
from agentsmith.trackers.azuredevops.payloads import snapshot_of
from agentsmith.trackers.azuredevops.people import HISTORY_PAGE, People
from agentsmith.trackers.azuredevops.site import Site
from agentsmith.trackers.azuredevops.states import States
from agentsmith.trackers.azuredevops.sticky import COMMENTS_VERSION, Stickies
from agentsmith.trackers.azuredevops.voice import Voice
from agentsmith.trackers.http import ApiClient, Pace


class AzureDevOpsTracker:
    """The work items of one project; see `domain.tracker` for what each method owes."""

    platform: Final = "azure-devops"
    needs: Final = (
        'the scope "Work Items (Read & write)", and "Edit work items in this node" and "Create tag '
        'definition" in the project'
    )
    edits_are_kept: Final = True
    """Each edit of a comment is a revision, and a work item has 10,000 of them in its life."""

    def __init__(
        self,
        *,
        name: str,
        site: Site,
        labels: LabelSet,
        client: ApiClient,
        pace: Pace,
        http: httpx.AsyncClient | None = None,
        teams: frozenset[str] = frozenset(),
        comment_format: Format = "markdown",
        comments_version: str = COMMENTS_VERSION,
        page_size: int | None = None,
    ) -> None:
        """`http` is closed with the tracker; `page_size` makes all pages small, for tests."""
        tags.check(labels)
        self.name = name
        self.labels = labels
        self._site = site
        self._client = client
        self._http = http
        now, memory = pace.now, Memory()
        self._states = States(client, site, now=now)
        self._people = People(client, site, teams=teams, page_size=page_size or HISTORY_PAGE)
        self._items = Items(tracker=name, site=site, client=client, states=self._states, memory=memory, now=now)
        self._listing = Listing(
            site=site,
            client=client,
            items=self._items,
            states=self._states,
            now=now,
            query_page=page_size or QUERY_PAGE,
            batch=page_size or BATCH,
        )
        self._form = Form(labels, comment_format)
        self._moves = Moves(items=self._items, labels=labels, memory=memory, pace=pace)
        self._voice = Voice(client, site, version=comments_version)
        self._hooks = Hooks(client, site)
        self._stickies = Stickies(
            client=client,
            site=site,
            form=self._form,
            items=self._items,
            people=self._people,
            memory=memory,
            now=now,
            page_size=page_size or BATCH,
            version=comments_version,
        )

    @property
    def project(self) -> str:
        """The canonical project: `dev.azure.com/acme/web`."""
        return self._site.project_name

    def ticket_id(self, key: str) -> TicketId:
        """`dev.azure.com/acme/web#12`."""
        return self._site.ticket_id(key)

    def identify(self, text: str) -> str | None:
        """The id behind `12`, `#12`, the canonical id or the work item's URL (T15)."""
        return self._site.identify(text)

    def filter_hint(self, status: Status) -> str:
        """A condition for a query; the search box of the work items page takes `t:` with the tag as well."""
        return f"[System.Tags] CONTAINS '{self.labels.label(status)}'"

    async def get(self, key: str) -> Ticket:
        """The work item as it is now (T1, T3)."""
        return await self._items.read(key)

    def find(self, *labels: str) -> AsyncIterator[Ticket]:
        """Every open work item that carries one of `labels` (T2)."""
        return self._listing.find(*labels)

    async def move(self, ticket: Ticket, move: Move) -> MoveOutcome:
        """Publish one edge (T4 to T11); its words travel in the same patch where nobody has commented yet (T18)."""
        return await self._moves.move(ticket, move, self._form.saying(move.say) if move.say else None)

    async def tidy(self, ticket: Ticket, *, keep: Status | None, deadline: float) -> Ticket:
        """Leave one lifecycle tag (T12)."""
        return await self._moves.tidy(ticket, keep=keep, deadline=deadline)

    async def read_sticky(self, ticket: Ticket) -> Sticky | None:
        """Our comment on the work item (T13)."""
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
        """Change tags that are not ours (T17)."""
        wanted = tags.check_foreign(foreign(self.labels.lifecycle, add, remove))
        return await self._moves.relabel(ticket, wanted, deadline=deadline)

    async def me(self) -> Actor:
        """The account of the token."""
        me = await self._people.me()
        if self._site.id is None:
            await self._items.look()
        return me

    async def labelled_by(self, ticket: Ticket, label: str) -> Labelling | None:
        """Who last put `label` on the work item, from its history."""
        snapshot = snapshot_of(ticket)
        updates = snapshot.rev if snapshot else 0
        return await self._people.labelled_by(self._items.number(ticket.key), label, updates=updates)

    async def history(self, ticket: Ticket, label: str) -> History:
        """What was done to the work item since `label` was put on (T21)."""
        snapshot = snapshot_of(ticket)
        updates = snapshot.rev if snapshot else 0
        return await self._people.history(self._items.number(ticket.key), label, updates=updates)

    @property
    def access_goes_by(self) -> str:
        """Azure DevOps tells nobody's rights."""
        return "membership of the project's teams"

    async def access_of(self, actor: Actor) -> Access:
        """What membership of the project's teams says."""
        return await self._people.access_of(actor)

    async def belongs_to(self, actor: Actor, *, teams: frozenset[str], roles: frozenset[str]) -> str:
        """By a team of the project, or as the administrator of one."""
        return await self._people.belongs_to(actor, teams=teams, roles=roles)

    async def remark(self, ticket: Ticket, ref: str) -> Remark | None:
        """A comment on the work item (T19)."""
        return await self._voice.remark(self._items.number(ticket.key), ref)

    async def remarks(self, ticket: Ticket, *, since: float) -> tuple[Remark, ...]:
        """What was said since then (T22)."""
        return await self._voice.remarks(self._stickies.records(ticket), since=since)

    async def acknowledge(self, ticket: Ticket, ref: str, *, deadline: float) -> Acknowledged:
        """A reaction, where the comment can be named (T20)."""
        return await self._voice.acknowledge(self._items.number(ticket.key), ref, deadline=deadline)

    async def hooks(self) -> tuple[Hook, ...]:
        """The project's service hooks, by address (H1)."""
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
        """The predecessors of the work item."""
        number = self._items.number(ticket.key)
        return await links.blockers(self._client, self._site, self._states, number)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()
