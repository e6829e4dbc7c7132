"""Who we are, who set a label, and what somebody may do in the repository."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from agentsmith.domain.errors import Refused
from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.domain.tracker import Access
from agentsmith.domain.vetting import History
from agentsmith.trackers.github import payloads
from agentsmith.trackers.github.history import Histories
from agentsmith.trackers.github.payloads import App, Membership, Permission, User
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.http import ApiClient, spending_for
from agentsmith.trackers.http.ledger import ACTOR
from agentsmith.trackers.shared.api import ProjectApi
from agentsmith.trackers.shared.people import Accounts

_ROLES: Final = {
    "admin": Access.ADMIN,
    "maintain": Access.WRITE,
    "write": Access.WRITE,
    "triage": Access.TRIAGE,
    "read": Access.READ,
    "none": Access.NONE,
}


class People(Accounts):
    """Accounts, as one repository sees them."""

    def __init__(self, api: ProjectApi[Site], *, as_app: ApiClient | None) -> None:
        super().__init__()
        self._client = api.client
        self._site = api.site
        self._as_app = as_app
        """Speaks for the GitHub App itself; an installation's token cannot say who it is."""
        self._histories = Histories(api)

    def wrote_it(self, actor: Actor) -> None:
        """See Accounts; a comment shows all of its author."""
        super().wrote_it(actor)
        self._me = self._me or actor

    async def history(self, ticket: Ticket, label: str) -> History:
        """What was done to the issue since the label was put on."""
        with spending_for(ACTOR):
            return await self._histories.since(ticket.key, label)

    async def belongs_to(self, actor: Actor, *, teams: frozenset[str], roles: frozenset[str]) -> str:
        """The role or the team, of those named, that lets an account in; a team is asked for by its short name."""
        if roles and (permission := await self._permission(actor)) is not None:
            named = next((role for role in sorted(roles) if role.casefold() == permission.role_name.casefold()), None)
            if named is not None:
                return f"role {named!r}"
        organization, refusal = self._site.repository.partition("/")[0], None
        for team in sorted(teams):
            slug = quote(team.rpartition("/")[2].lower(), safe="")
            path = f"/orgs/{organization}/teams/{slug}/memberships/{quote(actor.name, safe='')}"
            try:
                with spending_for(ACTOR):
                    answer = await self._client.get(path, allow=frozenset({404}))
            except Refused as error:
                refusal = error  # another one may let them in
                continue
            if answer.status == 200 and payloads.read(Membership, answer.data, "a membership").state == "active":
                return f"team {team!r}"
        if refusal is not None:
            raise refusal
        return ""

    async def access_of(self, actor: Actor) -> Access:
        """What an account may do here; NONE for programs, which have no role, and for whoever is not known."""
        permission = await self._permission(actor)
        if permission is None:
            return Access.NONE
        role = _ROLES.get(permission.role_name.lower())
        # A role that an organisation made up has a name of its own; the older word tells what it includes.
        return role if role is not None else _ROLES.get(permission.permission.lower(), Access.NONE)

    async def _permission(self, actor: Actor) -> Permission | None:
        path = self._site.path(rest=f"/collaborators/{quote(actor.name, safe='')}/permission")
        with spending_for(ACTOR):
            answer = await self._client.get(path, allow=frozenset({404}), missing=Refused)
        if answer.status == 404:
            return None
        permission: Permission = payloads.read(Permission, answer.data, "a permission")
        if permission.user is not None and actor.id and str(permission.user.id) != actor.id:
            return None  # the login belongs to somebody else by now
        return permission

    async def ask_who_we_are(self, deadline: float | None) -> Actor:
        """See Accounts."""
        if self._as_app is None:
            answer = await self._client.get("/user", deadline=deadline, missing=Refused)
        else:
            answer = await self._as_app.get("/app", deadline=deadline, missing=Refused)
            app: App = payloads.read(App, answer.data, "an App")
            path = f"/users/{quote(f'{app.slug}[bot]', safe='')}"
            answer = await self._client.get(path, deadline=deadline, missing=Refused)
        user: User = payloads.read(User, answer.data, "a user")
        return user.to_actor()
