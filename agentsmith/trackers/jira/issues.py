"""Reading one issue, and writing its labels: add and remove in one request, never a whole set (P3)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog

from agentsmith.bounded import Bounded
from agentsmith.domain.errors import BadAnswer, Refused, TicketNotFound
from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.ticket import Ticket
from agentsmith.trackers.http import Answer
from agentsmith.trackers.jira import payloads
from agentsmith.trackers.jira.dialect import bucket
from agentsmith.trackers.jira.payloads import Edited, Issue, Project, Snapshot, snapshot_of
from agentsmith.trackers.jira.site import Site
from agentsmith.trackers.shared.api import OnProject, ProjectApi
from agentsmith.trackers.shared.memory import TicketMemory

log = structlog.get_logger()

FIELDS: Final = (
    "summary",
    "description",
    "status",
    "labels",
    "creator",
    "reporter",
    "assignee",
    "updated",
    "comment",
    "issuetype",
    "components",
)
_MOST_RECENT: Final = 50
"""As many issues search takes for which it must not answer from an old index."""
_RECENT_FOR: Final = 600.0


@dataclass(frozen=True, slots=True)
class Claim:
    """On whose behalf a label is written; travels with the write as a property that people do not see."""

    run: str
    fence: int
    status: str | None
    nonce: str

    @classmethod
    def fresh(cls, run: str, fence: int, status: str | None) -> Claim:
        """A claim that no other write has made."""
        return cls(run, fence, status, uuid.uuid4().hex)

    def to_json(self) -> dict[str, Any]:
        """The value of the property."""
        return {"run": self.run, "fence": self.fence, "status": self.status, "nonce": self.nonce}

    def made(self, value: object) -> bool:
        """Whether a property is the one that this write has set."""
        return isinstance(value, dict) and value.get("nonce") == self.nonce


class RecentWrites:
    """The issues that we have written lately: search is told not to answer from an older index."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._written: Bounded[int, float] = Bounded(_MOST_RECENT)

    def wrote(self, id_: str) -> None:
        """We have just written to the issue of that number."""
        if id_.isascii() and id_.isdecimal():
            self._written[int(id_)] = self._now()

    def ids(self) -> list[int]:
        """Those for which the index may still lag."""
        oldest = self._now() - _RECENT_FOR
        return [id_ for id_, at in self._written.items() if at > oldest]


class Issues(OnProject[Site]):
    """The issues of one project."""

    def __init__(
        self,
        api: ProjectApi[Site],
        *,
        labels: LabelSet,
        memory: TicketMemory[Any],
        recent: RecentWrites,
        quiet: bool,
    ) -> None:
        super().__init__(api)
        self._memory = memory
        self._recent = recent
        self._quiet = quiet
        self.property = f"{labels.prefix}.lifecycle"

    def key(self, text: str) -> str:
        """The text as an issue key; what cannot be one names no ticket."""
        key = self._site.key(text)
        if key is None:
            raise TicketNotFound(f"Jira: {self._site.project} has no issue {text[:40]!r}")
        return key

    async def read(self, text: str, *, deadline: float | None = None) -> Ticket:
        """The issue as it is now (T1, T3)."""
        key = self.key(text)
        params = {"fields": ",".join(FIELDS), "properties": self.property}
        read_at = self._now()
        answer = await self._client.get(self._site.issue(key), params=params, deadline=deadline)
        ticket = self.ticket(answer.data, f"issue {key}", read_at=read_at)
        if ticket.key != key and await self.learn_project(deadline=deadline):
            ticket = self.ticket(answer.data, f"issue {key}", read_at=read_at)
        if ticket.key != key:
            # Jira answers for an issue that was moved to another project, under its new key.
            raise TicketNotFound(f"Jira: {key} was moved to {ticket.key[:40]}")
        snapshot = snapshot_of(ticket)
        if snapshot is not None:
            self._memory.remember(snapshot)
        return ticket

    async def learn_project(self, *, deadline: float | None = None) -> bool:
        """Ask Jira for the project: its number, and whether its key has changed since we last knew."""
        path = self._site.api(f"/project/{self._site.id or self._site.project}")
        answer = await self._client.get(path, deadline=deadline, missing=Refused)
        project: Project = payloads.read(Project, answer.data, "a project")
        try:
            renamed = self._site.learn(project.id, project.key)
        except ValueError as error:
            raise BadAnswer(f"Jira: a project is malformed: {error}") from None
        if renamed:
            log.warning("the project has another key; put it into the configuration", now=project.key)
        return renamed

    def ticket(self, data: object, what: str, *, read_at: float) -> Ticket:
        """The ticket in an answer that holds all of FIELDS."""
        issue: Issue = payloads.read(Issue, data, what)
        return payloads.to_ticket(issue, self._site, self._tracker, claim=self.property, read_at=read_at)

    async def write_labels(
        self, seen: Ticket, add: Sequence[str], remove: Sequence[str], claim: Claim | None, *, deadline: float
    ) -> Ticket | None:
        """One edit that adds and removes; answers the issue as it is then, or None if Jira reported a conflict.

        The answer is looked at again: by itself on Cloud, by another read on Data Center. A claim that is not on the
        issue any more was overwritten at once; the ticket then tells what stands there instead.
        """
        key = seen.key
        labels = [{"add": name} for name in add]
        labels += [{"remove": name} for name in remove]
        body: dict[str, Any] = {"update": {"labels": labels}}
        if claim is not None:
            body["properties"] = [{"key": self.property, "value": claim.to_json()}]
        self._memory.forget_state(key)
        old = snapshot_of(seen)
        if old is not None:
            self._recent.wrote(old.id)
        path = self._site.issue(key, "?returnIssue=true" if self._site.cloud else "")
        # Not repeatable: what may have been carried out is for the caller to look at, perhaps under a newer fence.
        conflict = frozenset({409})
        answer = await self.edit(path, key, body, deadline=deadline, allow=conflict)
        if answer.status == 409:
            return None
        after = self._edited(seen, answer)
        if after is not None:
            return after
        found = await self.read(key, deadline=deadline)
        return self._saw(found, found.revision)

    async def edit(
        self,
        path: str,
        key: str,
        body: Mapping[str, Any],
        *,
        deadline: float,
        repeatable: bool = False,
        allow: frozenset[int] = frozenset(),
    ) -> Answer:
        """A PUT that sends no mail, where the account may ask for that; else one that does."""

        async def put(path: str, allow: frozenset[int]) -> Answer:
            return await self._client.write(
                "PUT", path, body, deadline=deadline, repeatable=repeatable, bucket=bucket(key), allow=allow
            )

        if not self._quiet:
            return await put(path, allow)
        answer = await put(f"{path}{'&' if '?' in path else '?'}notifyUsers=false", allow | {403})
        if answer.status == 403:
            # Data Center refuses the whole edit when somebody who is no admin asks for silence; Cloud ignores it.
            answer = await put(path, allow)
            self._quiet = False
            log.info("the account may not suppress Jira's mails", tracker=self._tracker)
        return answer

    def _edited(self, seen: Ticket, answer: Answer) -> Ticket | None:
        """The ticket as the answer to an edit shows it; None where it does not tell the labels."""
        if answer.data is None:
            return None
        edited: Edited = payloads.read(Edited, answer.data, f"issue {seen.key}")
        if self._site.key(edited.key) != seen.key or edited.fields.labels is None:
            return None  # where it was moved, or its project renamed, the read tells which
        labels = frozenset(edited.fields.labels)
        updated = edited.fields.updated or seen.updated_at
        snapshot = replace(
            snapshot_of(seen) or Snapshot(key=seen.key),
            claim=(edited.properties or {}).get(self.property),
            read_at=self._now(),
            verified=True,
        )
        return self._saw(
            replace(seen, labels=labels, updated_at=updated, native=snapshot),
            payloads.revision(updated, snapshot.status, labels),
        )

    def _saw(self, ticket: Ticket, revision: str) -> Ticket:
        """Remember what our own write left behind."""
        snapshot = replace(snapshot_of(ticket) or Snapshot(key=ticket.key), verified=True)
        self._memory.remember(snapshot)
        return replace(ticket, revision=revision, native=snapshot)
