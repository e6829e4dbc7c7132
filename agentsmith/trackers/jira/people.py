"""Who we are, who set a label, and what somebody may do in the project.

What others may is asked of `/user/permission/search`: it answers for roles, groups and security levels together, in
one request, where reading role by role would have to resolve groups as well. Jira lets only those ask who administer
the project; where our account does not, nobody is known to be allowed, and only `allow.users` lets people through.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import structlog

from agentsmith.domain.errors import BadAnswer, Refused
from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.domain.tracker import Access
from agentsmith.domain.vetting import OPENING, Deed, DeedKind, since_set
from agentsmith.domain.vetting import History as TicketHistory
from agentsmith.trackers.http import spending_for
from agentsmith.trackers.http.ledger import ACTOR
from agentsmith.trackers.jira import payloads
from agentsmith.trackers.jira.issues import Issues
from agentsmith.trackers.jira.payloads import History, Named, RoleActor, User, snapshot_of
from agentsmith.trackers.jira.site import Site
from agentsmith.trackers.shared.api import ProjectApi
from agentsmith.trackers.shared.people import Accounts

log = structlog.get_logger()

_WRITE: Final = "EDIT_ISSUES,TRANSITION_ISSUES"
_ADMIN: Final = "ADMINISTER_PROJECTS"
_BELOW: Final = (("EDIT_ISSUES", Access.TRIAGE), ("BROWSE_PROJECTS", Access.READ))
"""Jira has no right to code: who may edit and move every issue writes, who may only edit triages."""
_MOST_PAGES: Final = 100
_CREATION: Final = "creation"
"""What is there from the beginning has no entry in the history."""
_LABELS: Final = "labels"
_FIELDS: Final = {_LABELS: None, "summary": DeedKind.TITLE, "description": DeedKind.BODY}
"""The fields whose changes count."""


class People(Accounts):
    """Accounts, as one project sees them."""

    def __init__(self, api: ProjectApi[Site], issues: Issues) -> None:
        super().__init__()
        self._client = api.client
        self._site = api.site
        self._page_size = api.page_size
        self._issues = issues

    async def ask_who_we_are(self, deadline: float | None) -> Actor:
        """See Accounts."""
        answer = await self._client.get(self._site.api("/myself"), deadline=deadline, missing=Refused)
        user: User = payloads.read(User, answer.data, "a user")
        if not user.id:
            raise BadAnswer("Jira: a user is malformed: it has no id")
        return user.to_actor()

    async def access_of_setter(self, actor: Actor) -> Access:
        """See Accounts; fails closed where Jira does not tell: who is named in `allow.users` still may."""
        try:
            return await self.access_of(actor)
        except Refused as error:
            log.error(
                "Jira does not tell what people may; let our account administer the project, or use allow.users",
                project=self._site.canonical,
                error=str(error),
            )
            return Access.NONE

    async def history(self, ticket: Ticket, label: str) -> TicketHistory:
        """What was done to the issue since the label was put on."""
        key = self._issues.key(ticket.key)
        deeds: list[Deed] = []
        oldest: frozenset[str] | None = None
        with spending_for(ACTOR):
            async for histories in self._newest_first(key):
                if histories is None:
                    return TicketHistory()
                deeds = [deed for history in histories for deed in _deeds(history)] + deeds
                found = since_set(deeds, lambda name: name == label)
                if found is not None:
                    return TicketHistory(found)
                changes = [change for history in histories for change in history.items if change.field == _LABELS]
                oldest = changes[0].before if changes else oldest
            if label not in (ticket.labels if oldest is None else oldest):
                return TicketHistory()
            snapshot = snapshot_of(ticket) or snapshot_of(await self._issues.read(key))
            opened = Deed(DeedKind.LABELLED, snapshot.creator if snapshot else None, OPENING, _CREATION, label)
            return TicketHistory((opened, *deeds))

    async def access_of(self, actor: Actor) -> Access:
        """What an account may do here; NONE for whoever Jira does not know."""
        if not actor.id:
            return Access.NONE
        if await self._may(actor, _WRITE):
            return Access.ADMIN if await self._may(actor, _ADMIN) else Access.WRITE
        for permission, access in _BELOW:
            if await self._may(actor, permission):
                return access
        return Access.NONE

    async def belongs_to(self, actor: Actor, *, teams: frozenset[str], roles: frozenset[str]) -> str:
        """The group or the project role, of those named, that lets an account in; a role may be had by a group."""
        if not actor.id:
            return ""
        groups = {name.casefold() for name in await self._groups(actor)}
        if named := next((team for team in sorted(teams) if team.casefold() in groups), None):
            return f"group {named!r}"
        for role in sorted(roles):
            if await self._has_role(actor, role, groups):
                return f"role {role!r}"
        return ""

    async def _groups(self, actor: Actor) -> list[str]:
        if self._site.cloud:
            params = {"accountId": actor.id}
            answer = await self._client.get(self._site.api("/user/groups"), params=params, missing=Refused)
            records: list[Named] = payloads.read(list[Named], answer.data, "a list of groups")
        else:
            params = {"username": actor.name, "expand": "groups"}
            answer = await self._client.get(self._site.api("/user"), params=params, missing=Refused)
            held = answer.data.get("groups") if isinstance(answer.data, dict) else None
            records = payloads.read(list[Named], payloads.listed(held, "items", "a list of groups"), "groups")
        return [record.name for record in records]

    async def _has_role(self, actor: Actor, role: str, groups: set[str]) -> bool:
        path = self._site.api(f"/project/{self._site.named}/role")
        answer = await self._client.get(path, missing=Refused)
        roles: dict[str, str] = payloads.read(dict[str, str], answer.data, "the roles of the project")
        address = next((url for name, url in roles.items() if name.casefold() == role.casefold()), None)
        if address is None:
            return False
        # Only the number is taken from the address: Jira may believe to live elsewhere than where we reach it.
        answer = await self._client.get(f"{path}/{address.rpartition('/')[2]}", missing=Refused)
        for record in payloads.listed(answer.data, "actors", "a role"):
            holder: RoleActor = payloads.read(RoleActor, record, "who has a role")
            same = bool(holder.account) and holder.account in (actor.id, actor.name)
            if same or holder.group.casefold() in groups:
                return True
        return False

    async def _may(self, actor: Actor, permissions: str) -> bool:
        who = {"accountId": actor.id} if self._site.cloud else {"username": actor.name}
        params = {"permissions": permissions, "projectKey": self._site.named, "maxResults": "50", **who}
        path = self._site.api("/user/permission/search")
        with spending_for(ACTOR):
            answer = await self._client.get(path, params=params, missing=Refused)
        users: list[Any] = payloads.read(list[Any], answer.data, "a list of users")
        # Data Center matches the beginning of names: only the very same account counts.
        return any(self._same(record, actor) for record in users)

    def _same(self, record: object, actor: Actor) -> bool:
        user: User = payloads.read(User, record, "a user in a list")
        return user.id == actor.id

    async def _newest_first(self, key: str) -> AsyncIterator[list[History] | None]:
        """The pages of an issue's history, from the end; each page has its oldest entry first.

        None is the last where something is missing, or lies further back than we look.
        """
        if not self._site.cloud:
            answer = await self._client.get(self._site.issue(key), params={"fields": "labels", "expand": "changelog"})
            log_ = answer.data.get("changelog") if isinstance(answer.data, dict) else None
            records = payloads.listed(log_, "histories", "a history")
            whole = len(records) >= (payloads.number(log_, "total") or 0)
            yield _histories(records) if whole else None
            return
        size = self._page_size
        first, page_data = await self._changes(key, 0, size)
        # The service may give less than was asked for; what it gave is how long a page is.
        size = min(size, payloads.number(page_data, "maxResults") or size)
        total = payloads.number(page_data, "total")
        if total is None and len(first) < size:
            total = len(first)
        if total is None:
            yield None
            return
        newest = end = (total - 1) // size * size if total else 0
        if newest:
            records = []
            for _ in range(_MOST_PAGES):  # forward to the end, because there may be more by now
                page, page_data = await self._changes(key, end, size)
                records, end, total = records + page, end + len(page), payloads.number(page_data, "total") or total
                if not page or end >= total:
                    break
            if end < total:
                yield None
                return
            yield _histories(records)
        starts = range(newest - size, 0, -size)
        for start in starts[:_MOST_PAGES]:
            page, _ = await self._changes(key, start, size)
            if len(page) < size:
                yield None
                return
            yield _histories(page)
        whole = len(starts) <= _MOST_PAGES and len(first) >= (size if newest else total)
        yield _histories(first) if whole else None

    async def _changes(self, key: str, start: int, size: int) -> tuple[list[Any], Any]:
        """The entries of a page of the history, and the page."""
        params = {"startAt": str(start), "maxResults": str(size)}
        answer = await self._client.get(self._site.issue(key, "/changelog"), params=params)
        return payloads.listed(answer.data, "values", "a history"), answer.data


def _histories(records: list[Any]) -> list[History]:
    """The entries that tell of labels and of the text; others may look as they like."""
    found: list[History] = []
    for record in records:
        items = record.get("items") if isinstance(record, dict) else None
        if not isinstance(items, list):
            raise BadAnswer("Jira: a history is malformed: it has no items")  # who knows what it would tell
        if about := [item for item in items if isinstance(item, dict) and item.get("field") in _FIELDS]:
            found.append(payloads.read(History, {**record, "items": about}, "a history"))
    return found


def _deeds(history: History) -> list[Deed]:
    """What one person did in one moment: the text counts as changed before the label was set by the same hand."""
    actor = history.author.to_actor() if history.author and history.author.id else None
    edits = dict.fromkeys(kind for change in history.items if (kind := _FIELDS[change.field]) is not None)
    found = [Deed(kind, actor, history.created, history.id) for kind in edits]
    for change in (change for change in history.items if change.field == _LABELS):
        for kind, names in (
            (DeedKind.UNLABELLED, change.before - change.after),
            (DeedKind.LABELLED, change.after - change.before),
        ):
            found += [Deed(kind, actor, history.created, history.id, name) for name in sorted(names)]
    return found
