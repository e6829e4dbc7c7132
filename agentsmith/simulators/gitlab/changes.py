"""Every change of state, with the history it leaves and the notice it gives. Who may do it is decided elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.gitlab.commands import NAMES, extract
from agentsmith.simulators.gitlab.state import (
    AUTO_COLOR,
    Issue,
    Label,
    LabelEvent,
    Link,
    MergeRequest,
    Note,
    Project,
    World,
    changed,
)


@dataclass(frozen=True, slots=True)
class Notice:
    """Something happened that a webhook tells: an `issue` with its action, or a `note` on one."""

    kind: str
    action: str
    project: Project
    actor: str
    issue: Issue
    before: Issue | None = None
    note: Note | None = None


@dataclass(frozen=True, slots=True)
class By:
    """On whose behalf, perhaps without telling anybody."""

    username: str
    quiet: bool = False


class Changes:
    """The verbs. Each answers the new version."""

    def __init__(self, world: World, clock: Clock, notify: Callable[[Notice], None], *, premium: bool) -> None:
        self.world, self.clock, self._notify = world, clock, notify
        self.premium = premium
        """Whether scoped labels exclude each other and links may block."""

    def now(self) -> datetime:
        """The time as GitLab prints it: milliseconds."""
        return datetime.fromtimestamp(int(self.clock.now() * 1000) / 1000, UTC)

    def open_issue(
        self,
        project: Project,
        by: By,
        *,
        title: str,
        description: str | None = None,
        labels: Iterable[str] = (),
        type: str = "issue",
    ) -> Issue:
        """A new issue; its labels leave events, as on GitLab."""
        now = self.now()
        iid = next(project.iids)
        author = self.world.user(by.username).username
        issue = Issue(self.world.next_id(), iid, title, description, author, now, now, type=type)
        ids = list(dict.fromkeys(self.ensure_label(project, name).id for name in labels))
        ids = self._exclusive(project, [], ids)
        events = tuple(self._event(by, i, "add") for i in ids)
        issue = project.save(replace(issue, labels=tuple(ids), events=events))
        self._tell(by, Notice("issue", "open", project, by.username, issue))
        return issue

    def ensure_label(self, project: Project, name: str) -> Label:
        """The label of that name, made if there is none: writing a label on an issue creates it."""
        return project.label_named(name) or self.create_label(project, name)

    def create_label(
        self, project: Project, name: str, color: str = AUTO_COLOR, description: str | None = None
    ) -> Label:
        """A new label of a project."""
        now = self.now()
        label = Label(self.world.next_id(), name, color, description, now, now)
        project.labels[label.id] = label
        return label

    def edit_label(self, project: Project, label: Label, **fields: Any) -> Label:
        """Rename or recolour: it stays the same label, on every issue that has it and in every line about it."""
        after = replace(label, updated_at=self.now(), **fields)
        project.labels[label.id] = after
        return after

    def relabel(
        self, project: Project, issue: Issue, by: By, *, add: Iterable[str] = (), remove: Iterable[str] = ()
    ) -> Issue:
        """Add and remove in one step: what is there already, or not there, changes nothing."""
        added = [self.ensure_label(project, name).id for name in add]
        gone = {label.id for name in remove if (label := project.label_named(name))}
        here = self._exclusive(project, list(issue.labels), added)
        return self.set_labels(project, issue, by, [i for i in here if i not in gone])

    def replace_labels(self, project: Project, issue: Issue, by: By, names: Iterable[str]) -> Issue:
        """Set all labels at once: whatever somebody else added is gone."""
        return self.set_labels(project, issue, by, [self.ensure_label(project, name).id for name in names])

    def set_labels(self, project: Project, issue: Issue, by: By, wanted: list[int]) -> Issue:
        """Write the ids, with an event for each difference; no difference, no change."""
        wanted = list(dict.fromkeys(wanted))
        added = [i for i in wanted if i not in issue.labels]
        removed = [i for i in issue.labels if i not in wanted]
        if not added and not removed:
            return issue
        events = [self._event(by, i, "add") for i in added] + [self._event(by, i, "remove") for i in removed]
        after = changed(issue, self.now(), labels=tuple(wanted), events=(*issue.events, *events))
        project.save(after)
        self._tell(by, Notice("issue", "update", project, by.username, after, issue))
        return after

    def edit_issue(self, project: Project, issue: Issue, by: By, **fields: Any) -> Issue:
        """Change title, description or other plain fields."""
        notes = (*issue.notes, *self._system_notes(issue, by, fields))
        after = project.save(changed(issue, self.now(), **{**fields, "notes": notes}))
        self._tell(by, Notice("issue", "update", project, by.username, after, issue))
        return after

    def _system_notes(self, issue: Issue, by: By, fields: dict[str, Any]) -> list[Note]:
        """What GitLab itself writes about a changed text; whoever ticks off a task is said to have done only that."""
        said = []
        if (title := fields.get("title", issue.title)) != issue.title:
            said.append(f"changed title from **{{-{issue.title}-}}** to **{{+{title}+}}**")
        text, before = fields.get("description", issue.description) or "", issue.description or ""
        if text != before:
            ticked = [
                task for task in _tasks(text) if task in _tasks(before) and _tasks(text)[task] != _tasks(before)[task]
            ]
            state = {True: "completed", False: "incomplete"}
            said += [f"marked the checklist item **{task}** as {state[_tasks(text)[task]]}" for task in ticked]
            said += [] if ticked else ["changed the description"]
        now, author = self.now(), self.world.user(by.username).username
        return [Note(self.world.next_id(), author, body, now, now, system=True) for body in said]

    def set_state(self, project: Project, issue: Issue, state: str, by: By) -> Issue:
        """Close or reopen; no change, no event."""
        if issue.state == state:
            return issue
        now, closed = self.now(), state == "closed"
        after = changed(
            issue, now, state=state, closed_at=now if closed else None, closed_by=by.username if closed else None
        )
        project.save(after)
        self._tell(by, Notice("issue", "close" if closed else "reopen", project, by.username, after, issue))
        return after

    def delete_issue(self, project: Project, issue: Issue) -> None:
        """Remove an issue for good; GitLab tells nobody."""
        del project.versions[issue.iid]

    def move_issue(self, project: Project, issue: Issue, target: Project, by: By) -> Issue:
        """Copy an issue to another project and close it here for good; over there it is as old as it was here."""
        after = target.save(replace(self._copy(project, issue, target, by, "moved"), created_at=issue.created_at))
        here = self.set_state(project, issue, "closed", by)
        project.save(replace(here, moved_to=after.id))
        return after

    def clone_issue(self, project: Project, issue: Issue, target: Project, by: By) -> Issue:
        """Copy an issue, and leave it here as it is."""
        return self._copy(project, issue, target, by, "cloned")

    def _copy(self, project: Project, issue: Issue, target: Project, by: By, word: str) -> Issue:
        """An issue's copy; labels that exist there come along. Its lines tell of what was done to the original.

        They keep their people and dates, and only their numbers are new. A line at the end tells of the copying.
        """
        names = [label.name for label in project.labels_of(issue)]
        kept = [name for name in names if target.label_named(name)]
        after = self.open_issue(target, by, title=issue.title, description=issue.description, labels=kept)
        events = tuple(replace(event, id=self.world.next_id()) for event in issue.events)
        notes = tuple(replace(note, id=self.world.next_id()) for note in issue.notes)
        now, author = self.now(), self.world.user(by.username).username
        origin = Note(self.world.next_id(), author, f"{word} from {project.path}#{issue.iid}", now, now, system=True)
        return target.save(replace(after, events=events, notes=(*notes, origin)))

    def comment(self, project: Project, issue: Issue, body: str, by: By) -> Note:
        """A new comment, as it is: commands in it were carried out before."""
        now = self.now()
        note = Note(self.world.next_id(), self.world.user(by.username).username, body, now, now)
        after = project.save(changed(issue, now, notes=(*issue.notes, note)))
        self._tell(by, Notice("note", "create", project, by.username, after, note=note))
        return note

    def edit_comment(self, project: Project, issue: Issue, note: Note, body: str, by: By) -> Note:
        """Change a comment's text in place."""
        now = self.now()
        edited = replace(note, body=body, updated_at=now)
        notes = tuple(edited if n.id == note.id else n for n in issue.notes)
        after = project.save(changed(issue, now, notes=notes))
        self._tell(by, Notice("note", "update", project, by.username, after, note=edited))
        return edited

    def delete_comment(self, project: Project, issue: Issue, note: Note) -> None:
        """Remove a comment."""
        left = tuple(n for n in issue.notes if n.id != note.id)
        project.save(changed(issue, self.now(), notes=left))

    def link(self, source: Issue, target: Issue, type: str) -> Link:
        """Relate two issues; `is_blocked_by` is kept as `blocks` the other way round."""
        first, second, kind = (target, source, "blocks") if type == "is_blocked_by" else (source, target, type)
        made = Link(self.world.next_id(), first.id, second.id, kind, self.now())
        self.world.links[made.id] = made
        return made

    def open_merge_request(
        self,
        project: Project,
        by: By,
        *,
        source: str,
        target: str,
        title: str,
        description: str | None = None,
        source_project: int | None = None,
    ) -> MergeRequest:
        """A new merge request; commands in its text are carried out, and are no part of it."""
        now, iid = self.now(), next(project.request_iids)
        author = self.world.user(by.username).username
        origin = project.id if source_project is None else source_project
        made = MergeRequest(self.world.next_id(), iid, title.strip(), None, author, now, now, source, target, origin)
        return self._save_request(project, made, {"description": description})

    def edit_merge_request(self, project: Project, request: MergeRequest, by: By, **fields: Any) -> MergeRequest:
        """Change title, text, target or state."""
        del by
        if "title" in fields:
            fields["title"] = str(fields["title"]).strip()
        return self._save_request(project, request, fields)

    def _save_request(self, project: Project, request: MergeRequest, fields: dict[str, Any]) -> MergeRequest:
        if isinstance(text := fields.get("description"), str):
            extracted = extract(text, (*NAMES, "merge", "draft", "ready"))
            fields["description"] = extracted.text
            for name, arguments in extracted.commands:
                fields |= _commanded(name, arguments, fields.get("title", request.title))
        after = replace(request, updated_at=self.now(), **fields)
        project.requests.setdefault(request.iid, []).append(after)
        return after

    def _exclusive(self, project: Project, here: list[int], added: list[int]) -> list[int]:
        """All labels together; on a paid tier a scoped label pushes its siblings out, the last one wins."""
        together = list(here)
        for label_id in added:
            if label_id in together:
                continue
            scope = project.labels[label_id].scope if self.premium else None
            if scope is not None:
                together = [i for i in together if i not in project.labels or project.labels[i].scope != scope]
            together.append(label_id)
        return together

    def _event(self, by: By, label: int, action: str) -> LabelEvent:
        username = self.world.user(by.username).username
        return LabelEvent(self.world.next_id(), username, self.now(), label, action)

    def _tell(self, by: By, notice: Notice) -> None:
        if not by.quiet:
            self._notify(notice)


def _tasks(text: str) -> dict[str, bool]:
    """The tasks in a text, and whether they are done."""
    return {name: mark != " " for mark, name in re.findall(r"^\s*[-*] \[([ xX])\] (.+)$", text, re.MULTILINE)}


def _commanded(name: str, arguments: str, title: str) -> dict[str, str]:
    """What a command in the text of a merge request changes about it."""
    match name:
        case "close":
            return {"state": "closed"}
        case "merge":
            return {"state": "merged"}
        case "title":
            return {"title": arguments}
        case "draft":
            return {"title": f"Draft: {title}"}
    return {}
