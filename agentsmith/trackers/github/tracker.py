"""The GitHub tracker: the contract of `domain.tracker`, put together from its parts."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import replace
from typing import Final

import httpx

from agentsmith.boottime import boottime
from agentsmith.domain.conversation import Acknowledged
from agentsmith.domain.errors import BadAnswer, Refused, TicketNotFound
from agentsmith.domain.foreign import foreign
from agentsmith.domain.hooks import Hook
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.memo import Memo
from agentsmith.domain.ticket import Actor, Ticket, TicketId
from agentsmith.domain.tracker import Access, Blocker, Labelling, Move, MoveOutcome, Sticky
from agentsmith.domain.vetting import History
from agentsmith.domain.webhook import Remark
from agentsmith.trackers.github import payloads
from agentsmith.trackers.github.claims import ClaimRefs
from agentsmith.trackers.github.hooks import Hooks
from agentsmith.trackers.github.issues import PAGE_SIZE, Issues
from agentsmith.trackers.github.labels import LabelWriter
from agentsmith.trackers.github.moves import Moves
from agentsmith.trackers.github.notes import Notes
from agentsmith.trackers.github.payloads import Issue, Label
from agentsmith.trackers.github.people import People
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.github.sticky import Form, Stickies
from agentsmith.trackers.github.voice import Voice
from agentsmith.trackers.http import ApiClient

_FIRST_WITH_DEPENDENCIES: Final = (3, 19)
"""The Enterprise Server release that can tell what blocks an issue."""
_LOOKS: Final = {
    Status.PENDING: ("fbca04", "waits for its turn"),
    Status.ENQUEUED: ("c5def5", "is in the queue"),
    Status.IN_PROGRESS: ("1d76db", "is being worked on"),
    Status.WAITING: ("d4c5f9", "waits for a person, a time or another ticket"),
    Status.DONE: ("0e8a16", "finished"),
    Status.FAILED: ("b60205", "failed; the comment says why"),
}
_TRIGGER_LOOKS: Final = ("5319e7", "starts work")


class GitHubTracker:
    """The issues of one repository; see `domain.tracker` for what each method owes."""

    platform: Final = "github"
    needs: Final = (
        'the permission "Issues: Read and write" (a fine-grained token or an app) or the scope repo (a '
        "classic token), and the role Triage or more in the repository"
    )

    def __init__(
        self,
        *,
        name: str,
        site: Site,
        labels: LabelSet,
        client: ApiClient,
        as_app: ApiClient | None = None,
        http: httpx.AsyncClient | None = None,
        strict: bool = False,
        page_size: int = PAGE_SIZE,
        now: Callable[[], float] = boottime,
    ) -> None:
        """`as_app` speaks for the GitHub App where the credential is one; `http` is closed with the tracker."""
        self.name = name
        self.labels = labels
        self._site = site
        self._client = client
        self._http = http
        self._page_size = page_size
        notes = Notes()
        self._writer = LabelWriter(client, site)
        self._people = People(client, site, as_app=as_app, page_size=page_size)
        self._issues = Issues(
            tracker=name,
            site=site,
            client=client,
            writer=self._writer,
            notes=notes,
            now=now,
            page_size=page_size,
        )
        self._moves = Moves(
            issues=self._issues,
            writer=self._writer,
            labels=labels,
            notes=notes,
            claims=ClaimRefs(client, site) if strict else None,
            now=now,
        )
        self._voice = Voice(client, site)
        self._hooks = Hooks(client, site, page_size=page_size)
        self._stickies = Stickies(
            client=client,
            site=site,
            form=Form(labels),
            issues=self._issues,
            people=self._people,
            notes=notes,
            now=now,
            page_size=page_size,
        )

    @property
    def project(self) -> str:
        """The canonical project: `github.com/acme/web`."""
        return self._site.project

    def ticket_id(self, key: str) -> TicketId:
        """`github.com/acme/web#12`."""
        return self._site.ticket_id(key)

    def identify(self, text: str) -> str | None:
        """The number behind `12`, `#12`, `acme/web#12`, the canonical id or the issue's URL (T15)."""
        return self._site.identify(text)

    def filter_hint(self, status: Status) -> str:
        """A search on the repository's issues page."""
        return f'is:issue label:"{self.labels.label(status)}"'

    async def get(self, key: str) -> Ticket:
        """The issue as it is now (T1, T3)."""
        return await self._issues.read(key)

    def find(self, *labels: str) -> AsyncIterator[Ticket]:
        """Every open issue that carries one of `labels` (T2)."""
        return self._issues.find(*labels)

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
        wanted = foreign(self.labels.lifecycle, add, remove)
        return await self._moves.relabel(ticket, wanted, deadline=deadline)

    async def me(self) -> Actor:
        """The account of the token, or the bot of the GitHub App."""
        me = await self._people.me()
        if self._site.id is None:
            await self._issues.look()
        return me

    async def labelled_by(self, ticket: Ticket, label: str) -> Labelling | None:
        """Who last put `label` on the issue, from its history."""
        return await self._people.labelled_by(self._issues.number(ticket.key), label)

    async def history(self, ticket: Ticket, label: str) -> History:
        """What was done to the issue since `label` was put on (T21)."""
        return await self._people.history(self._issues.number(ticket.key), label)

    async def access_of(self, actor: Actor) -> Access:
        """The account's role in the repository."""
        return await self._people.access_of(actor)

    async def belongs_to(self, actor: Actor, *, teams: frozenset[str], roles: frozenset[str]) -> str:
        """By the role's name in the repository, or by a team of its organization."""
        return await self._people.belongs_to(actor, teams=teams, roles=roles)

    async def remark(self, ticket: Ticket, ref: str) -> Remark | None:
        """A comment on the issue (T19)."""
        return await self._voice.remark(self._issues.number(ticket.key), ref)

    async def remarks(self, ticket: Ticket, *, since: float) -> tuple[Remark, ...]:
        """What was said since then (T22)."""
        return await self._voice.remarks(self._stickies.records(ticket), since=since)

    async def acknowledge(self, ticket: Ticket, ref: str, *, deadline: float) -> Acknowledged:  # noqa: ARG002
        """A reaction (T20)."""
        return await self._voice.acknowledge(ref, deadline=deadline)

    async def hooks(self) -> tuple[Hook, ...]:
        """The repository's webhooks (H1)."""
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

    async def redeliver_failed(self, tracker: str, public_url: str | None) -> int:
        """What never arrived, sent again by GitHub itself."""
        return await self._hooks.redeliver_failed(tracker, public_url)

    async def blockers(self, ticket: Ticket) -> tuple[Blocker, ...]:
        """The issues that this one is marked as blocked by; none on servers too old to know of such links."""
        number = self._issues.number(ticket.key)
        path = self._site.path(number, "/dependencies/blocked_by")
        params = {"per_page": str(self._page_size)}
        found: list[Blocker] = []
        async for page in self._client.pages(path, params=params, allow=frozenset({404})):
            if page.status == 404:
                if _too_old(page.headers):
                    return ()
                raise TicketNotFound(f"GitHub: {self.ticket_id(number)} is not there: {payloads.said(page.data)}")
            issues: list[Issue] = payloads.read(list[Issue], page.data, "a list of issues")
            found += [self._blocker(issue) for issue in issues]
        return tuple(found)

    async def ensure_labels(self, *triggers: str) -> tuple[str, ...]:
        """Make the lifecycle labels that the repository lacks, and these; answers those made. One request when none is
        missing.

        Worth calling at start-up: it shows whether the token may write, and teaches the ids that make moves cheaper.
        """
        looks = dict.fromkeys(triggers, _TRIGGER_LOOKS) | {self.labels.label(s): look for s, look in _LOOKS.items()}
        missing = await self.missing_labels(*looks)
        for label in missing:
            color, meaning = looks[label]
            await self._writer.create(label, color, f"agentsmith: {meaning}")
        return missing

    async def missing_labels(self, *names: str) -> tuple[str, ...]:
        """Those of the labels that the repository lacks."""
        there: set[str] = set()
        params = {"per_page": str(PAGE_SIZE)}
        async for page in self._client.pages(self._site.path(rest="/labels"), params=params, missing=Refused):
            labels: list[Label] = payloads.read(list[Label], page.data, "a list of labels")
            self._writer.learn(labels)
            there |= {label.name.casefold() for label in labels}
        return tuple(name for name in names if name.casefold() not in there)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()

    def _blocker(self, issue: Issue) -> Blocker:
        try:
            site = replace(self._site, repository="/".join(issue.html_url.split("/")[3:5]))
        except ValueError:
            raise BadAnswer(f"GitHub: issue {issue.number} has no address in a repository") from None
        return Blocker(site.ticket_id(str(issue.number)), issue.html_url, issue.state == "open")


def _too_old(headers: Mapping[str, str]) -> bool:
    """Whether an Enterprise Server says that it is older than the links between issues."""
    version = re.match(r"(\d+)\.(\d+)", headers.get("x-github-enterprise-version", ""))
    return version is not None and (int(version[1]), int(version[2])) < _FIRST_WITH_DEPENDENCIES
