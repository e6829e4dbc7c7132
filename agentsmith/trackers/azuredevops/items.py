"""Single work items: reading one, and the one patch that changes its tags under a test of its revision."""

from __future__ import annotations

from typing import Final

import structlog

from agentsmith.domain.errors import BadAnswer, Refused, TicketNotFound, TrackerError
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Sticky
from agentsmith.redaction import excerpt
from agentsmith.trackers.azuredevops import payloads, tags
from agentsmith.trackers.azuredevops.comment_format import CommentInMove
from agentsmith.trackers.azuredevops.dialect import API_VERSION, JSON_PATCH, message, type_key
from agentsmith.trackers.azuredevops.memory import ItemMemory
from agentsmith.trackers.azuredevops.payloads import Project, Snapshot, WorkItem, snapshot_of
from agentsmith.trackers.azuredevops.site import Site
from agentsmith.trackers.azuredevops.states import States
from agentsmith.trackers.http import WITHHELD, Answer
from agentsmith.trackers.shared.api import OnProject, ProjectApi
from agentsmith.trackers.shared.outcomes import IgnoredWrite

log = structlog.get_logger()

_CONFLICT: Final = frozenset({409, 412})
_STALE: Final = {
    "TestPatchOperationFailedException": "VS403351",
    "WorkItemRevisionMismatchException": "TF26071",
}
"""The two ways to say that somebody wrote meanwhile. Other conflicts exist, and another write does not end them."""


class Items(OnProject[Site]):
    """The work items of one project."""

    def __init__(self, api: ProjectApi[Site], *, states: States, memory: ItemMemory) -> None:
        super().__init__(api)
        self._states = states
        self._memory = memory

    def key(self, text: str) -> str:
        """The text as the id of a work item; what cannot be one names no ticket."""
        number = self._site.number(text)
        if number is None:
            raise TicketNotFound(f"Azure DevOps: {self._site.project} has no work item {text[:40]!r}")
        return number

    async def read(self, text: str, *, deadline: float | None = None) -> Ticket:
        """The work item as it is now (T1, T3); one that is in another project is not found."""
        number = self.key(text)
        read_at = self._now()
        path = self._site.path(f"/wit/workitems/{number}")
        answer = await self._client.get(path, params={"api-version": API_VERSION}, deadline=deadline)
        item: WorkItem = payloads.read(WorkItem, answer.data, f"work item {number}")
        if str(item.id) != number:
            raise BadAnswer(f"Azure DevOps: asked for work item {number}, got {item.id}")
        await self._check_place(item, deadline)
        ticket = await self.ticket(item, read_at=read_at, sure=True, deadline=deadline)
        if (snapshot := snapshot_of(ticket)) is not None:
            self._memory.remember(snapshot)
        return ticket

    async def relabel(
        self,
        ticket: Ticket,
        seen: Snapshot,
        wanted: tuple[str, ...],
        *,
        rev: int,
        deadline: float,
        comment: CommentInMove | None = None,
    ) -> Ticket | None:
        """Write exactly these tags if the revision is `rev` still; None when it is not.

        Raises IgnoredWrite for an answer of success that shows other tags. `comment` is made in the same revision, if
        nobody has commented yet: the test of the revision makes sure that this is still so.
        """
        patch = [{"op": "test", "path": "/rev", "value": rev}, tags.operation(seen.tags, wanted)]
        said = comment if self._memory.nobody_commented(seen) else None
        if said is not None:
            patch.append({"op": "add", "path": "/fields/System.History", "value": said.body})
        path = self._site.path(f"/wit/workitems/{seen.key}") + f"?api-version={API_VERSION}"
        self._memory.forget_state(seen.key)  # until an answer says otherwise
        read_at = self._now()
        answer = await self._client.write(
            "PATCH", path, patch, content_type=JSON_PATCH, deadline=deadline, allow=_CONFLICT
        )
        if answer.status in _CONFLICT:
            self._check_stale(answer)
            return None
        item: WorkItem = payloads.read(WorkItem, answer.data, f"work item {seen.key}")
        if item.rev <= rev or not tags.same(tags.split(item.fields.tags), wanted):
            raise IgnoredWrite(
                f"Azure DevOps answered {answer.status}, but the tags of work item {seen.key} are not what was "
                "written: the token may not write them"
            )
        after = await self.ticket(
            item, read_at=read_at, verified=True, sure=True, was_open=ticket.open, deadline=deadline
        )
        if (snapshot := snapshot_of(after)) is not None:
            self._memory.remember(snapshot)
        if said is not None:
            self._note(seen.key, item, said)
        return after

    def _note(self, number: str, item: WorkItem, said: CommentInMove) -> None:
        """Remember the comment that was made with the tags; where its id is not told it will be looked for."""
        remembered, author = self._memory.of(number), item.fields.changed_by
        if item.comment is None or author is None or not author.id:
            remembered.in_doubt = True
            return
        remembered.comment, remembered.author = str(item.comment.id), author.to_actor().id
        remembered.said = Sticky(f"{item.comment.id}.{remembered.author}", said.text, said.memo)

    async def ticket(
        self,
        item: WorkItem,
        *,
        read_at: float,
        verified: bool = False,
        sure: bool = False,
        was_open: bool | None = None,
        deadline: float | None = None,
    ) -> Ticket:
        """The work item as the core sees it; `sure`, where a run may be withdrawn because it is closed.

        After a write an unknown state must not hide that it succeeded.
        """
        try:
            open_ = await self._states.is_open(item.fields.type, item.fields.state, sure=sure, deadline=deadline)
        except TrackerError:
            if was_open is None:
                raise
            open_ = was_open
        return payloads.to_ticket(item, self._site, self._tracker, open_=open_, read_at=read_at, verified=verified)

    async def here(self, name: str, *, deadline: float | None = None) -> bool:
        """Whether that is the name of this project; one that we do not know may be its new one."""
        if self._site.here(name):
            return True
        if not await self.learn_project(deadline=deadline):
            raise Refused(
                f"Azure DevOps: work items of {self._site.project!r} are in a project {name[:64]!r}, and the token may "
                "not ask whether it was renamed: put its name into `project`, or let the token read projects"
            )
        return self._site.here(name)

    async def learn_project(self, *, deadline: float | None = None) -> bool:
        """Ask for the project: its id, by which its webhooks are known, and its name today. False where not told."""
        path = self._site.above(f"/projects/{self._site.id or self._site.path('').split('/')[2]}")
        params = {"api-version": API_VERSION}
        answer = await self._client.get(path, params=params, deadline=deadline, allow=WITHHELD)
        if answer.status != 200:
            self._site.id = self._site.id or ""
            return False
        project: Project = payloads.read(Project, answer.data, "a project")
        self._site.id = project.id
        if not self._site.here(project.name):
            log.warning("the project was renamed; put its new name into the configuration", now=project.name)
            self._site.called = project.name
        return True

    async def _check_place(self, item: WorkItem, deadline: float | None) -> None:
        """Ids are the organization's: a ticket that was moved to another project is not ours any more."""
        if await self.here(item.fields.project, deadline=deadline):
            return
        raise TicketNotFound(
            f"Azure DevOps: work item {item.id} is in the project {item.fields.project[:64]!r}, "
            f"not in {self._site.project!r}"
        )

    @staticmethod
    def _check_stale(answer: Answer) -> None:
        """Raise Refused unless the conflict is the one that a fresh read can end."""
        said, kind = excerpt(message(answer.data)), type_key(answer.data)
        if kind not in _STALE and not any(code in said for code in _STALE.values()):
            raise Refused(f"Azure DevOps: the tags were not written ({answer.status}): {said or kind or 'no reason'}")
