"""The Jira tracker: the contract of `domain.tracker`, put together from its parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Final

import httpx

from agentsmith.boottime import boottime
from agentsmith.domain.conversation import Acknowledged
from agentsmith.domain.errors import ConfigError
from agentsmith.domain.foreign import Foreign, foreign
from agentsmith.domain.hooks import Hook
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.memo import Memo
from agentsmith.domain.ticket import Actor, Ticket, TicketId
from agentsmith.domain.tracker import Access, Blocker, Labelling, Move, MoveOutcome, Sticky
from agentsmith.domain.vetting import History
from agentsmith.domain.webhook import Remark
from agentsmith.trackers.http import ApiClient, LabelLock
from agentsmith.trackers.jira.hooks import Hooks
from agentsmith.trackers.jira.issues import Issues, Recent
from agentsmith.trackers.jira.links import Links
from agentsmith.trackers.jira.listing import PAGE_SIZE, Listing
from agentsmith.trackers.jira.moves import Moves
from agentsmith.trackers.jira.people import People
from agentsmith.trackers.jira.site import Site
from agentsmith.trackers.jira.sticky import Stickies
from agentsmith.trackers.jira.texts import Form
from agentsmith.trackers.jira.voice import Voice
from agentsmith.trackers.jira.workflow import Workflow
from agentsmith.trackers.shared.memory import Memory

TRUST_READS: Final = 5.0
"""Seconds for which a read stands for the look right before a label write."""
BLOCKS: Final = "Blocks"
_LONGEST_LABEL: Final = 255


class JiraTracker:
    """The issues of one project; see `domain.tracker` for what each method owes."""

    platform: Final = "jira"
    needs: Final = (
        '"Browse projects", "Edit issues", "Add comments" and "Edit own comments" in the project (a '
        "scoped token: read:jira-work and write:jira-work)"
    )

    def __init__(
        self,
        *,
        name: str,
        site: Site,
        labels: LabelSet,
        client: ApiClient,
        lock: LabelLock,
        statuses: Mapping[Status, str] | None = None,
        link_type: str = BLOCKS,
        quiet: bool = True,
        http: httpx.AsyncClient | None = None,
        trust_reads: float = TRUST_READS,
        page_size: int = PAGE_SIZE,
        secret_in_path: bool = False,
        now: Callable[[], float] = boottime,
    ) -> None:
        """`statuses` switches status mode on; `http` is closed with the tracker."""
        _check(labels)
        self.name = name
        self.labels = labels
        self._site = site
        self._http = http
        memory, recent = Memory(trust=trust_reads), Recent(now)
        self._issues = issues = Issues(
            tracker=name,
            site=site,
            client=client,
            labels=labels,
            memory=memory,
            recent=recent,
            quiet=quiet,
            now=now,
        )
        self._people = People(client, site, issues, page_size=page_size)
        self._listing = Listing(site=site, client=client, issues=issues, recent=recent, now=now, page_size=page_size)
        self._links = Links(client, site, issues, kind=link_type)
        self._moves = Moves(
            issues=issues,
            labels=labels,
            memory=memory,
            lock=lock,
            workflow=Workflow(client=client, site=site, issues=issues, words=statuses) if statuses else None,
            now=now,
        )
        form = Form(labels, site.cloud)
        self._voice = Voice(client, site, form)
        self._hooks = Hooks(client, site, secret_in_path=secret_in_path)
        self._stickies = Stickies(
            client=client,
            site=site,
            form=form,
            issues=issues,
            people=self._people,
            memory=memory,
            now=now,
            page_size=page_size,
        )

    @property
    def project(self) -> str:
        """The canonical project: `acme.atlassian.net/WEB`."""
        return self._site.canonical

    def ticket_id(self, key: str) -> TicketId:
        """`acme.atlassian.net/WEB-12`."""
        return self._site.ticket_id(key)

    def identify(self, text: str) -> str | None:
        """The key behind `WEB-12`, the canonical id or the issue's URL (T15)."""
        return self._site.identify(text)

    def filter_hint(self, status: Status) -> str:
        """A JQL query for the search page."""
        return f'project = "{self._site.named}" AND labels = "{self.labels.label(status)}"'

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
        wanted = _check_foreign(foreign(self.labels.lifecycle, add, remove))
        return await self._moves.relabel(ticket, wanted, deadline=deadline)

    async def me(self) -> Actor:
        """The account of the token. The project's number is learned with it: webhooks are known by that."""
        me = await self._people.me()
        if not self._site.id:
            await self._issues.look()
        return me

    async def labelled_by(self, ticket: Ticket, label: str) -> Labelling | None:
        """Who last put `label` on the issue, from its history."""
        return await self._people.labelled_by(ticket, label)

    async def history(self, ticket: Ticket, label: str) -> History:
        """What was done to the issue since `label` was put on (T21)."""
        return await self._people.history(ticket, label)

    async def access_of(self, actor: Actor) -> Access:
        """What the account may do in the project, by its roles and groups together."""
        return await self._people.access_of(actor)

    async def belongs_to(self, actor: Actor, *, teams: frozenset[str], roles: frozenset[str]) -> str:
        """By a role of the project, or by a group."""
        return await self._people.belongs_to(actor, teams=teams, roles=roles)

    async def remark(self, ticket: Ticket, ref: str) -> Remark | None:
        """A comment on the issue (T19)."""
        return await self._voice.remark(self._issues.key(ticket.key), ref)

    async def remarks(self, ticket: Ticket, *, since: float) -> tuple[Remark, ...]:
        """What was said since then (T22)."""
        return await self._voice.remarks(self._stickies.records(ticket), since=since)

    async def acknowledge(self, ticket: Ticket, ref: str, *, deadline: float) -> Acknowledged:  # noqa: ARG002
        """Jira has no reactions (T20)."""
        return Acknowledged.NO_WAY

    async def hooks(self) -> tuple[Hook, ...]:
        """The webhooks of this Jira (H1)."""
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
        """The issues that this one is linked to as blocked by."""
        return await self._links.blockers(ticket)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()


def _check_foreign(wanted: Foreign) -> Foreign:
    """The same, if Jira takes these labels; raises ConfigError where it would not."""
    for name in wanted.add:
        if any(c.isspace() for c in name):
            raise ConfigError(f"Jira takes no label {name[:40]!r}: labels hold no spaces there")
    return wanted


def _check(labels: LabelSet) -> None:
    """Raise ConfigError when Jira would refuse or split one of our labels."""
    for prefix in (labels.prefix, *labels.former_prefixes):
        spaced = any(c.isspace() or not c.isprintable() for c in prefix)
        if spaced or len(prefix) > _LONGEST_LABEL - 20:
            raise ConfigError(f"Jira takes no labels that begin with {prefix[:40]!r}: they hold no spaces there")
