"""Comments on issues: commands in them are carried out, in new ones and in edited ones."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Handler
from agentsmith.simulators.gitlab.access import credential_of
from agentsmith.simulators.gitlab.answers import (
    choice,
    forbidden,
    invalid,
    not_found,
    only_fields,
    only_query,
    page_of,
    read_fields,
    refuse,
)
from agentsmith.simulators.gitlab.commands import extract
from agentsmith.simulators.gitlab.hub import Hub
from agentsmith.simulators.gitlab.payloads import Json
from agentsmith.simulators.gitlab.quick_actions import carry_out
from agentsmith.simulators.gitlab.state import GUEST, MAINTAINER, PLANNER, Issue, Note, Project

NOTES = "/projects/{project:path}/issues/{iid:int}/notes"
NOTE = NOTES + "/{note_id:int}"
MAX_NOTE = 1_000_000


class NoteRoutes:
    """The endpoints about comments."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler."""
        return [
            ("GET", NOTES, self.list_notes),
            ("POST", NOTES, self.create),
            ("GET", NOTE, self.get),
            ("PUT", NOTE, self.edit),
            ("DELETE", NOTE, self.delete),
            ("GET", NOTE + "/award_emoji", self.awards),
            ("POST", NOTE + "/award_emoji", self.award),
        ]

    def list_notes(self, call: Call) -> Response:
        """The comments of an issue, newest first unless asked otherwise."""
        only_query(call, "sort", "order_by", "activity_filter", "per_page", "page")
        project, issue = self.hub.door.issue(call, missing="Issue")
        sort = choice(call, "sort", ("desc", "asc"))
        order = choice(call, "order_by", ("created_at", "updated_at"))
        kind = choice(call, "activity_filter", ("all_notes", "only_comments", "only_activity"))
        found = [n for n in issue.notes if kind == "all_notes" or n.system == (kind == "only_activity")]
        found.sort(key=lambda n: (n.created_at if order == "created_at" else n.updated_at, n.id))
        if sort == "desc":
            found.reverse()
        render = self.hub.render(call)
        return page_of(call, found, lambda n: render.note(project, issue, n), address=self.hub.address(call))

    def create(self, call: Call) -> Response:
        """A new comment: 201; 202 and no comment where it held commands only."""
        project, issue = self.hub.door.issue(call, missing="Issue")
        if "notes_limit" in call.quirks:
            return self.hub.limits.endpoint_refusal()
        if issue.locked and self.hub.door.level(call, project) < GUEST:
            raise forbidden()
        data = read_fields(call)
        only_fields(call, data, "body", "internal", "confidential", "created_at")
        extracted = extract(_body(data.get("body"), required=True))
        by = credential_of(call).by
        note = self.hub.changes.comment(project, issue, extracted.text, by) if extracted.text else None
        return self._after(call, project, issue.iid, note, extracted.commands, 201)

    def get(self, call: Call) -> Response:
        """One comment."""
        project, issue, note = self._note(call)
        return JSONResponse(self.hub.render(call).note(project, issue, note))

    def edit(self, call: Call) -> Response:
        """Change a comment: its author may, and maintainers."""
        project, issue, note = self._note(call)
        self._own(call, project, note)
        data = read_fields(call)
        only_fields(call, data, "body")
        extracted = extract(_body(data.get("body"), required=False))
        if extracted.text:
            note = self.hub.changes.edit_comment(project, issue, note, extracted.text, credential_of(call).by)
            return self._after(call, project, issue.iid, note, extracted.commands, 200)
        self.hub.changes.delete_comment(project, issue, note)
        return self._after(call, project, issue.iid, None, extracted.commands, 200)

    def delete(self, call: Call) -> Response:
        """Remove a comment."""
        project, issue, note = self._note(call)
        self._own(call, project, note)
        self.hub.changes.delete_comment(project, issue, note)
        return Response(status_code=204)

    def awards(self, call: Call) -> Response:
        """What was given to a comment."""
        _, _, note = self._note(call)
        given = self.hub.world.awards.get(note.id, [])
        return page_of(call, given, lambda award: self._award(call, note, award), address=self.hub.address(call))

    def award(self, call: Call) -> Response:
        """Give an emoji; the same one twice is answered with 404, of all things."""
        _, _, note = self._note(call)
        data = read_fields(call)
        only_fields(call, data, "name")
        name, user = str(data.get("name", "")), credential_of(call).username
        if not name.replace("_", "").isalnum():
            raise refuse(404, "404 Award Emoji Name is not a valid emoji name Not Found")
        given = self.hub.world.awards.setdefault(note.id, [])
        if any((emoji, by) == (name, user) for _, emoji, by in given):
            raise refuse(404, "404 Award Emoji Name has already been taken Not Found")
        given.append((self.hub.world.next_id(), name, user))
        return JSONResponse(self._award(call, note, given[-1]), 201)

    def _award(self, call: Call, note: Note, award: tuple[int, str, str]) -> Json:
        number, name, user = award
        shown = {"id": number, "name": name, "user": self.hub.render(call).user(user)}
        return {**shown, "awardable_id": note.id, "awardable_type": "Note"}

    def _after(
        self,
        call: Call,
        project: Project,
        iid: int,
        note: Note | None,
        commands: tuple[tuple[str, str], ...],
        status: int,
    ) -> Response:
        """Carry out what the caller may, and answer."""
        allowed = commands if self.hub.door.level(call, project) >= PLANNER else ()
        summary = carry_out(self.hub.changes, project, iid, allowed, credential_of(call).by)
        changes = dict(allowed)
        if note is None:
            return JSONResponse({"commands_changes": changes, "summary": summary}, 202)
        issue = project.issue(iid)
        if issue is None:
            raise not_found()
        return JSONResponse(self.hub.render(call).note(project, issue, note, changes), status)

    def _note(self, call: Call) -> tuple[Project, Issue, Note]:
        project, issue = self.hub.door.issue(call, missing="Issue")
        for note in issue.notes:
            if note.id == call.params["note_id"]:
                return project, issue, note
        raise not_found()

    def _own(self, call: Call, project: Project, note: Note) -> None:
        own = note.author.casefold() == credential_of(call).username.casefold()
        if note.system or (not own and self.hub.door.level(call, project) < MAINTAINER):
            raise forbidden()


def _body(value: object, *, required: bool) -> str:
    if value is None and required:
        raise invalid("body is missing")
    if not isinstance(value, str):
        raise invalid("body is invalid")
    if not value.strip():
        raise refuse(400, '400 Bad request - Note {:note=>["can\'t be blank"]}')
    if len(value) > MAX_NOTE:
        raise refuse(400, f'400 Bad request - Note {{:note=>["is too long (maximum is {MAX_NOTE} characters)"]}}')
    return value
