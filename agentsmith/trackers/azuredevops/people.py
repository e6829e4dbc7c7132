"""Who we are, who set a tag, and what somebody may do in the project.

Azure DevOps can tell what the caller itself may do, but not what somebody else may: that takes the security namespaces
and the graph of all groups, on another host and with more rights than a bot should have. So membership of a team of the
project stands for the right to write; the settings may name the teams that count. Whoever is in none of them is taken
for a reader, although Azure DevOps let them set the tag; `allow.users` lets single people in.
"""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from typing import Any, Final

from agentsmith.domain.errors import BadAnswer, Refused
from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.domain.tracker import Access
from agentsmith.domain.vetting import Deed, DeedKind, History, since_set
from agentsmith.trackers.azuredevops import payloads, tags
from agentsmith.trackers.azuredevops.dialect import API_VERSION, IDENTITY_VERSION
from agentsmith.trackers.azuredevops.payloads import Connection, Member, Page, Team, Update, snapshot_of
from agentsmith.trackers.azuredevops.site import Site
from agentsmith.trackers.http import spending_for
from agentsmith.trackers.http.ledger import ACTOR
from agentsmith.trackers.shared.api import ProjectApi
from agentsmith.trackers.shared.people import Accounts

HISTORY_PAGE: Final = 200
ADMINISTRATOR: Final = "team administrator"
_MOST_PAGES: Final = 100
_TAGS: Final = "System.Tags"
_CHANGED: Final = "System.ChangedDate"
_TEXT_FIELDS: Final = {
    "System.Title": DeedKind.TITLE,
    "System.Description": DeedKind.BODY,
    "Microsoft.VSTS.TCM.ReproSteps": DeedKind.BODY,
}
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_UNIQUE: Final = re.compile(r"[@\\]")

Members = tuple[dict[str, Access], dict[str, set[str]]]
"""What each may, and who is in which team; people by id and unique name."""


class People(Accounts):
    """Accounts, as one project sees them."""

    def __init__(self, api: ProjectApi[Site], *, teams: frozenset[str], page_size: int = HISTORY_PAGE) -> None:
        super().__init__()
        self._client = api.client
        self._site = api.site
        self._teams = frozenset(name.casefold() for name in teams)
        self._page_size = page_size
        self._looking = asyncio.Lock()
        self._lookups = 0
        """How often the members were asked for; whoever began to wait before the last time may have its answer."""
        self._looked_up: Members | None = None

    async def ask_who_we_are(self, deadline: float | None) -> Actor:
        """See Accounts."""
        params = {"api-version": IDENTITY_VERSION}
        path = self._site.above("/connectionData")
        answer = await self._client.get(path, params=params, deadline=deadline, missing=Refused)
        connection: Connection = payloads.read(Connection, answer.data, "the connection's data")
        return connection.user.to_actor()

    async def history(self, ticket: Ticket, label: str) -> History:
        """What was done to the work item since the tag was put on."""
        number, wanted, snapshot = ticket.key, label.casefold(), snapshot_of(ticket)
        updates = snapshot.rev if snapshot else 0  # about how many there are
        with spending_for(ACTOR):
            start = max(0, updates - self._page_size)
            deeds, skip = list[Deed](), start
            for _ in range(_MOST_PAGES):  # forward to the end, because there may be more than we think
                page = await self._history(number, skip)
                deeds += _deeds(page)
                skip += len(page)
                if not page or (len(page) < self._page_size and skip >= updates):
                    break
            else:
                return History()  # what is newest, we have not seen
            found = since_set(deeds, lambda tag: tag.casefold() == wanted)
            while found is None and start > 0:
                begin = max(0, start - self._page_size)
                older = await self._history(number, begin)
                if len(older) < start - begin:
                    return History()  # something is missing in between
                deeds, start = _deeds(older[: start - begin]) + deeds, begin
                found = since_set(deeds, lambda tag: tag.casefold() == wanted)
            return History(found or ())

    async def belongs_to(self, actor: Actor, *, teams: frozenset[str], roles: frozenset[str]) -> str:
        """The team, of those named, that somebody is in; the one role is that of a team's administrator."""
        key = _key(actor)
        members, by_team = await self._members()
        for team in sorted(teams):
            if key and key in by_team.get(team.casefold(), ()):
                return f"team {team!r}"
        named = next((role for role in sorted(roles) if role.casefold() == ADMINISTRATOR), None)
        return f"role {named!r}" if named and members.get(key, Access.NONE) >= Access.ADMIN else ""

    async def access_of(self, actor: Actor) -> Access:
        """WRITE for members of the project's teams, ADMIN for the teams' administrators, READ for all others."""
        key = _key(actor)
        if not key:
            return Access.NONE
        members, _ = await self._members()
        return members.get(key, Access.READ)

    async def _members(self) -> Members:
        """The members as they are now; those who ask while somebody waits for an answer share the next one."""
        before = self._lookups
        async with self._looking:
            if self._looked_up is None or self._lookups == before:
                self._looked_up, self._lookups = None, self._lookups + 1
                with spending_for(ACTOR):
                    self._looked_up = await self._ask_members()
            return self._looked_up

    async def _history(self, number: str, skip: int) -> list[Any]:
        params = {"api-version": API_VERSION, "$top": str(self._page_size), "$skip": str(skip)}
        answer = await self._client.get(self._site.path(f"/wit/workItems/{number}/updates"), params=params)
        page: Page = payloads.read(Page, answer.data, "a list of updates")
        return page.value

    async def _ask_members(self) -> Members:
        project = self._site.path("").split("/")[2]
        found: dict[str, Access] = {}
        by_team: dict[str, set[str]] = {}
        for record in await self._listed(f"/projects/{project}/teams"):
            team: Team = payloads.read(Team, record, "a team")
            names = {team.name.casefold(), team.id.casefold()}
            # Where the settings name the teams whose members may write, others are asked for none the less: `allow`
            # may name them.
            counts = not self._teams or bool(names & self._teams)
            for person in await self._listed(f"/projects/{project}/teams/{team.id}/members"):
                member: Member = payloads.read(Member, person, "a member of a team")
                access = Access.ADMIN if member.admin else Access.WRITE
                who = member.identity.to_actor()
                for key in (who.id, who.name.casefold()):
                    for name in names:
                        by_team.setdefault(name, set()).add(key)
                    if counts:
                        found[key] = max(access, found.get(key, Access.NONE))
        return found, by_team

    async def _listed(self, rest: str) -> list[Any]:
        records: list[Any] = []
        for _ in range(_MOST_PAGES):
            params = {"api-version": API_VERSION, "$top": str(self._page_size), "$skip": str(len(records))}
            answer = await self._client.get(self._site.above(rest), params=params, missing=Refused)
            page: Page = payloads.read(Page, answer.data, "a list")
            records += page.value
            if len(page.value) < self._page_size:
                return records
        raise BadAnswer("Azure DevOps: a list of teams or members does not end")


def _key(actor: Actor) -> str:
    # A webhook about a comment names its author without an id; unique names are unique, display names are not.
    return actor.id.lower() or (actor.name.casefold() if _UNIQUE.search(actor.name) else "")


def _deeds(page: list[Any]) -> list[Deed]:
    """What the updates of a page did to tags, title and description; what came in one write was one deed.

    In one update the text counts as changed before the tag was set: both are by the same hand.
    """
    found: list[Deed] = []
    for record in page:
        if not isinstance(record, dict):
            raise BadAnswer("Azure DevOps: an update is malformed")  # who knows what it would tell
        fields = record.get("fields")
        if not isinstance(fields, dict) or not fields.keys() & {_TAGS, *_TEXT_FIELDS}:
            continue
        update: Update = payloads.read(Update, record, "an update")
        actor = update.revised_by.to_actor() if update.revised_by is not None else None
        at = _changed_at(update)
        kinds = dict.fromkeys(kind for name, kind in _TEXT_FIELDS.items() if name in update.fields)
        found += [Deed(kind, actor, at, str(update.id)) for kind in kinds]
        change = update.fields.get(_TAGS)
        if change is not None:
            before, after = (
                {tag.casefold(): tag for tag in tags.split(text if isinstance(text, str) else "")}
                for text in (change.old, change.new)
            )
            for kind, gone, there in ((DeedKind.UNLABELLED, before, after), (DeedKind.LABELLED, after, before)):
                names = sorted(gone.keys() - there.keys())
                found += [Deed(kind, actor, at, str(update.id), gone[name]) for name in names]
    return found


def _changed_at(update: Update) -> datetime:
    """When it was made; the last moment there is where nobody tells: then it came after everything."""
    changed = update.fields.get(_CHANGED)
    try:
        at = datetime.fromisoformat(changed.new) if changed is not None and isinstance(changed.new, str) else _NEVER
    except ValueError:
        return _NEVER
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
