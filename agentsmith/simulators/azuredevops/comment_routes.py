"""Comments: an API in preview, whose every change is a revision of the work item."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.azuredevops.answers import listed, need_version, only_query, read_object, refuse, whole
from agentsmith.simulators.azuredevops.hub import Hub
from agentsmith.simulators.azuredevops.state import Comment, WorkItem
from agentsmith.simulators.frame import Call, Handler

COMMENTS = "/wit/workItems/{number:int}/comments"
COMMENT = COMMENTS + "/{comment:int}"
PREVIEW = 4
REACTION_PREVIEW = 1
REACTIONS = frozenset({"like", "dislike", "heart", "hooray", "smile", "confused"})
LONGEST = 150_000
MOST_IN_PAGE = 200


class CommentRoutes:
    """The endpoints about comments."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path below `_apis`, handler."""
        return [
            ("GET", COMMENTS, self.list_comments),
            ("POST", COMMENTS, self.add),
            ("GET", COMMENT, self.get),
            ("PATCH", COMMENT, self.edit),
            ("DELETE", COMMENT, self.delete),
            ("GET", COMMENT + "/reactions", self.reactions),
            ("PUT", COMMENT + "/reactions/{kind}", self.react),
        ]

    def list_comments(self, call: Call) -> Response:
        """Some comments, newest first unless asked otherwise, with a token for the next page."""
        only_query(call, "$top", "continuationToken", "includeDeleted", "$expand", "order")
        need_version(call, preview=PREVIEW)
        item = self.hub.door.item(call)
        comments = [c for c in item.as_of(call.behind).comments if not c.deleted]
        if call.query.get("order", "desc").lower() != "asc":
            comments.reverse()
        size = whole(call, "$top", MOST_IN_PAGE, MOST_IN_PAGE) or MOST_IN_PAGE
        start = whole(call, "continuationToken", 0, 1 << 30)
        some = comments[start : start + size]
        render = self.hub.render(call)
        shown = {
            "totalCount": len(comments),
            "count": len(some),
            "comments": [render.comment(item, comment) for comment in some],
        }
        if start + size < len(comments):
            shown["continuationToken"] = str(start + size)
            shown["nextPage"] = f"{call.base_url}{call.path}?continuationToken={start + size}"
        return JSONResponse(shown)

    def get(self, call: Call) -> Response:
        """One comment."""
        need_version(call, preview=PREVIEW)
        item, comment = self._comment(call)
        return JSONResponse(self.hub.render(call).comment(item, comment))

    def add(self, call: Call) -> Response:
        """A new comment."""
        only_query(call, "format")
        need_version(call, preview=PREVIEW)
        item = self.hub.door.item(call)
        self.hub.door.need_write(call)
        format_ = self._format(call)
        made = self.hub.changes.comment(item, self._text(call), self.hub.door.by(call), format_=format_)
        return JSONResponse(self.hub.render(call).comment(item, made))

    def edit(self, call: Call) -> Response:
        """Another text; only for whoever wrote the comment."""
        only_query(call, "format")
        need_version(call, preview=PREVIEW)
        item, comment = self._comment(call)
        self.hub.door.need_write(call)
        by = self.hub.door.by(call)
        if by.user != comment.by:
            message = "TF401243: You do not have permissions to edit this comment."
            raise refuse(403, message, "WorkItemUnauthorizedAccessException")
        self._format(call)
        edited = self.hub.changes.edit_comment(item, comment, self._text(call), by)
        return JSONResponse(self.hub.render(call).comment(item, edited))

    def delete(self, call: Call) -> Response:
        """The comment goes."""
        need_version(call, preview=PREVIEW)
        item, comment = self._comment(call)
        self.hub.door.need_write(call)
        self.hub.changes.delete_comment(item, comment, self.hub.door.by(call))
        return Response(status_code=200)

    def reactions(self, call: Call) -> Response:
        """How many gave what, and whether the caller is among them."""
        need_version(call, preview=REACTION_PREVIEW)
        _, comment = self._comment(call)
        given = self.hub.world.reactions.get(comment.id, {})
        return listed([self._reaction(call, comment, kind) for kind in sorted(given)])

    def react(self, call: Call) -> Response:
        """Give a reaction; giving it twice changes nothing."""
        need_version(call, preview=REACTION_PREVIEW)
        _, comment = self._comment(call)
        kind = str(call.params["kind"]).lower()
        if kind not in REACTIONS:
            raise refuse(400, f"The reaction {kind!r} is not known.", "ArgumentException")
        by = self.hub.door.by(call).user.name.casefold()
        self.hub.world.reactions.setdefault(comment.id, {}).setdefault(kind, set()).add(by)
        return JSONResponse(self._reaction(call, comment, kind))

    def _reaction(self, call: Call, comment: Comment, kind: str) -> dict[str, object]:
        given = self.hub.world.reactions[comment.id][kind]
        engaged = self.hub.door.by(call).user.name.casefold() in given
        return {"type": kind, "commentId": comment.id, "count": len(given), "isCurrentUserEngaged": engaged}

    def _comment(self, call: Call) -> tuple[WorkItem, Comment]:
        item = self.hub.door.item(call)
        wanted = call.params["comment"]
        for comment in item.as_of(call.behind).comments:
            if comment.id == wanted and not comment.deleted:
                return item, comment
        raise refuse(
            404, f"Comment {wanted} does not exist on work item {item.id}.", "WorkItemCommentNotFoundException"
        )

    @staticmethod
    def _text(call: Call) -> str:
        text = read_object(call).get("text")
        if not isinstance(text, str) or not text:
            raise refuse(400, "The comment text is required.", "ArgumentNullException")
        if len(text.encode("utf-16-le")) // 2 > LONGEST:
            message = f"VS403647: The comment is longer than {LONGEST} characters."
            raise refuse(400, message, "WorkItemCommentTooLongException")
        return text

    @staticmethod
    def _format(call: Call) -> str:
        format_ = call.query.get("format", "html").lower()
        if format_ in ("0", "1"):
            return ("markdown", "html")[int(format_)]
        if format_ not in ("markdown", "html"):
            raise refuse(400, f"The format {format_!r} is not known.", "ArgumentException")
        return format_
