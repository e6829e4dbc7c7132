"""Who we are, who set a label, and what somebody may do in the project."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from agentsmith.bounded import Bounded
from agentsmith.domain.errors import BadAnswer, Refused, TrackerUnavailable
from agentsmith.domain.ticket import Actor, Ticket
from agentsmith.domain.tracker import Access
from agentsmith.domain.vetting import Deed, DeedKind, History, ends_rest, in_order, since_set
from agentsmith.trackers.gitlab import payloads
from agentsmith.trackers.gitlab.paging import onward
from agentsmith.trackers.gitlab.payloads import LabelEvent, Member, Note, User
from agentsmith.trackers.gitlab.renames import CANNOT_TELL, Renames
from agentsmith.trackers.gitlab.site import Site
from agentsmith.trackers.gitlab.spelling import Spelling
from agentsmith.trackers.http import Answer, spending_for
from agentsmith.trackers.http.ledger import ACTOR
from agentsmith.trackers.http.paging import links
from agentsmith.trackers.shared.api import ProjectApi
from agentsmith.trackers.shared.people import Accounts

_LEVELS: Final = ((40, Access.ADMIN), (30, Access.WRITE), (15, Access.TRIAGE), (10, Access.READ))
"""Maintainer and Owner, Developer, Planner and Reporter, Guest; a level of its own counts as the one below it."""
_WORDS: Final = (
    (10, "guest"),
    (15, "planner"),
    (20, "reporter"),
    (30, "developer"),
    (40, "maintainer"),
    (50, "owner"),
)
"""GitLab's own words; whoever has a role has those below it as well."""
_BOT: Final = re.compile(r"(?:project|group)_[0-9]+_bot(?:[0-9_].*)?|service_account_.+|.+-bot", re.I)
"""How GitLab names the users of access tokens and its own programs."""
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_MOST_PAGES: Final = 100
_ACTIONS: Final = {"add": DeedKind.LABELLED, "remove": DeedKind.UNLABELLED}
_EDITS: Final = (
    ("changed title from", DeedKind.TITLE),
    ("changed the description", DeedKind.BODY),
    ("marked the task", DeedKind.BODY),
    ("marked the checklist item", DeedKind.BODY),
)
"""How the notes begin that tell of a changed text."""
_COPIED: Final = ("moved from", "cloned from")
"""How the note begins by which a copy's own history begins."""
_MOST_REMEMBERED: Final = 1000


class People(Accounts):
    """Accounts, as one project sees them."""

    def __init__(self, api: ProjectApi[Site], spelling: Spelling) -> None:
        super().__init__()
        self._client = api.client
        self._site = api.site
        self._page_size = api.page_size
        self._spelling = spelling
        self._renames = Renames(api)
        self._bots: Bounded[str, bool] = Bounded(_MOST_REMEMBERED)

    async def ask_who_we_are(self, deadline: float | None) -> Actor:
        """See Accounts."""
        answer = await self._client.get("/user", deadline=deadline, missing=Refused)
        user: User = payloads.read(User, answer.data, "a user")
        actor = user.to_actor()
        return replace(actor, bot=actor.bot or bool(_BOT.fullmatch(actor.name)))

    async def history(self, ticket: Ticket, label: str) -> History:
        """What was done to the issue since the label was put on."""
        with spending_for(ACTOR):
            deeds = await self._since(ticket.key, label)
            edits = await self._edits(ticket.key, deeds[0].at) if deeds else None
            return History() if edits is None else History(in_order((*deeds, *edits)))

    async def _since(self, iid: str, wanted: str) -> tuple[Deed, ...]:
        """The labels that came and went since the label was put on; none where we do not get to see so far back.

        Nobody counts as having set a label that was changed since: it may have had another name then.
        """
        events: dict[str, LabelEvent] = {}
        path = self._site.path(iid, "/resource_label_events")
        first = await self._client.get(path, params={"per_page": str(self._page_size)})
        answer, page = await self._newest(first, path)
        deeds = self._deeds(answer, events)
        found = self._found(deeds, wanted)
        for older in range(page - 1, max(0, page - _MOST_PAGES), -1):
            if found is not None:
                break
            deeds = (*self._deeds(first if older == 1 else await self._page(path, older), events), *deeds)
            found = self._found(deeds, wanted)
        certain = await self._without_renamed(found, events) if found else ()
        return tuple([replace(deed, actor=await self._whole(deed.actor)) for deed in certain])

    async def _without_renamed(self, deeds: tuple[Deed, ...], events: dict[str, LabelEvent]) -> tuple[Deed, ...]:
        """The same, where who set a label is left out if that label may have had another name at that time.

        So is who took a status off, by which they asked for a run; unless it was us, which nobody goes by. The first
        of them set the label that everything is about, so that it has to be told of that one, as of a status; another
        that was set may be gone from the issue.
        """
        issue = events[deeds[0].event].resource_id
        dates = None if issue is None else await self._renames.on_issue(issue)
        known = []
        for deed in deeds:
            label = events[deed.event].label
            number = label.id if label is not None else None
            rested = ends_rest(deed, self._spelling.labels) and not await self._ours(deed)
            if rested and label is not None and dates is not None and number not in dates:
                dates |= await self._renames.in_project(label.name)
            date = dates.get(number) if dates is not None and number is not None else None
            if date is not None:
                doubt = date.doubt(label.name if label is not None else "", deed.at)
            else:
                doubt = CANNOT_TELL if deed is deeds[0] or rested or dates is None else ""
            doubtful = doubt and (rested or deed.kind is DeedKind.LABELLED)
            known.append(replace(deed, actor=None, doubt=doubt) if doubtful else deed)
        return tuple(known)

    async def _ours(self, deed: Deed) -> bool:
        return deed.actor is not None and deed.actor.id == await self.my_id()

    def _found(self, deeds: tuple[Deed, ...], wanted: str) -> tuple[Deed, ...] | None:
        return since_set(deeds, lambda name: self._spelling.canonical(name) == wanted)

    async def _whole(self, actor: Actor | None) -> Actor | None:
        return None if actor is None else replace(actor, bot=await self._is_bot(actor))

    def _deeds(self, answer: Answer, events: dict[str, LabelEvent]) -> tuple[Deed, ...]:
        """What the label events of a page tell, which are noted in `events`; those of deleted labels tell nothing."""
        records: list[Any] = payloads.read(list[Any], answer.data, "a list of label events")
        found = []
        for record in records:
            if not isinstance(record, dict):
                raise BadAnswer("GitLab: a label event is malformed")  # who knows what it would tell
            if record.get("action") not in _ACTIONS or record.get("label") is None:
                continue
            event: LabelEvent = payloads.read(LabelEvent, record, "a label event")
            actor = event.user.to_actor() if event.user is not None else None
            events[str(event.id)] = event
            name = self._spelling.canonical(event.label.name) if event.label is not None else ""
            found.append(Deed(_ACTIONS[event.action], actor, event.created_at, str(event.id), name))
        return tuple(found)

    async def _edits(self, iid: str, since: datetime) -> list[Deed] | None:
        """Who changed title or description since then: GitLab writes a note about it, in English always.

        None where the issue came from elsewhere since then: a copy has the lines of its original, and whoever set a
        label there has asked for nothing here.

        Several changes within minutes may be one note, by the last who made them; so it counts when it was last
        written. Whoever ticks off a task may change anything else in the same write, and no other note tells so.
        """
        path = self._site.path(iid, "/notes")
        params = {"order_by": "updated_at", "sort": "desc", "per_page": str(self._page_size)}
        found: list[Deed] = []
        async for page in self._client.pages(path, params=params, next_page=onward(params)):
            records: list[Any] = payloads.read(list[Any], page.data, "a list of notes")
            for record in records:
                note: Note = payloads.read(Note, record, "a note")
                at = max((moment for moment in (note.created_at, note.updated_at) if moment is not None), default=None)
                if at is None:
                    raise BadAnswer("GitLab: a note is malformed: it has no date")
                if at < since:
                    return found
                if note.system and (note.body or "").lstrip().startswith(_COPIED):
                    return None
                kind = _edit(note)
                if kind is not None:
                    actor = await self.known(note.author) if note.author is not None else None
                    found.append(Deed(kind, actor, at, f"note {note.id}"))
        return found

    async def belongs_to(self, actor: Actor, *, teams: frozenset[str], roles: frozenset[str]) -> str:
        """The role in the project, or the group, of those named, that lets an account in."""
        if roles and (member := await self._member(actor, self._site.path(rest=""))) is not None:
            held = {name for level, name in _WORDS if member.access_level >= level}
            held |= {member.member_role.name.casefold()} if member.member_role else set()
            if named := next((role for role in sorted(roles) if role.casefold() in held), None):
                return f"role {named!r}"
        for team in sorted(teams):
            if await self._member(actor, f"/groups/{quote(team.strip('/'), safe='')}") is not None:
                return f"group {team!r}"
        return ""

    async def access_of(self, actor: Actor) -> Access:
        """What an account may do here, by direct or inherited membership; NONE for whoever is no member."""
        with spending_for(ACTOR):
            member = await self._member(actor, self._site.path(rest=""))
        if member is None:
            return Access.NONE
        return next((access for level, access in _LEVELS if member.access_level >= level), Access.NONE)

    async def _member(self, actor: Actor, of: str) -> Member | None:
        """The account as a member of a project or a group, by inheritance too; None for whoever is none."""
        if not _NUMBER.fullmatch(actor.id):
            return None
        answer = await self._client.get(f"{of}/members/all/{actor.id}", allow=frozenset({404}), missing=Refused)
        if answer.status == 404:
            return None
        member: Member = payloads.read(Member, answer.data, "a member")
        return member if member.state == "active" and str(member.id) == actor.id else None

    async def known(self, user: User) -> Actor:
        """The actor, with what only the long form of a user tells: whether it is a program."""
        actor = user.to_actor()
        return replace(actor, bot=await self._is_bot(actor))

    async def _is_bot(self, actor: Actor) -> bool:
        if actor.id not in self._bots:
            bot = bool(_BOT.fullmatch(actor.name))
            if not bot:
                denied = frozenset({403, 404})
                answer = await self._client.get(f"/users/{actor.id}", allow=denied, missing=Refused)
                if answer.status in denied:
                    return False  # not remembered: next time it may be told
                user: User = payloads.read(User, answer.data, "a user")
                bot = user.bot
            self._bots[actor.id] = bot
        return self._bots[actor.id]

    async def _newest(self, first: Answer, path: str) -> tuple[Answer, int]:
        """The last page of a history that begins with its oldest events, and its number.

        GitLab does not count what is very long; then the end is looked for in growing steps and by halves.
        """
        answer, page, beyond = first, 1, 0
        step = max(1, (_number(first, "x-total-pages") or 1) - 1)
        for _ in range(_MOST_PAGES):
            if not self._goes_on(answer):
                return answer, page
            probe = (page + beyond) // 2 if beyond else page + step
            if probe == page:
                break
            there = await self._page(path, probe)
            if there.data:
                answer, page, step = there, probe, step * 2
            else:
                beyond = probe
        raise TrackerUnavailable("GitLab: the end of an issue's history was not found")

    def _goes_on(self, answer: Answer) -> bool:
        """Whether there are newer events than these; a full page of which nothing is told may have a successor."""
        if links(answer.link).get("next") or answer.headers.get("x-next-page"):
            return True
        links_pages = answer.link or "x-next-page" in answer.headers
        return not links_pages and isinstance(answer.data, list) and len(answer.data) >= self._page_size

    async def _page(self, path: str, page: int) -> Answer:
        return await self._client.get(path, params={"per_page": str(self._page_size), "page": str(page)})


def _edit(note: Note) -> DeedKind | None:
    """What a line that GitLab wrote itself says was changed, if it was the text."""
    body = (note.body or "").lstrip()
    if not note.system:
        return None
    return next((kind for beginning, kind in _EDITS if body.startswith(beginning)), None)


def _number(answer: Answer, header: str) -> int | None:
    value = answer.headers.get(header, "")
    return int(value) if _NUMBER.fullmatch(value) else None
