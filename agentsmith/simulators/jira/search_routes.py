"""Search: answered from an index that may lag, but for issues that the caller wants reconciled."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Handler
from agentsmith.simulators.jira.answers import only, problem, read_object, refuse
from agentsmith.simulators.jira.hub import Hub
from agentsmith.simulators.jira.issue_routes import API, split
from agentsmith.simulators.jira.jql import parse
from agentsmith.simulators.jira.state import Issue

GONE = (
    "The requested API has been removed. Please migrate to the /rest/api/3/search/jql API. "
    "A full migration guideline is available at https://developer.atlassian.com/changelog/#CHANGE-2046"
)
MOST = 100


class SearchRoutes:
    """The old search and the new one."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler."""
        return [
            (method, API + path, handler)
            for method in ("GET", "POST")
            for path, handler in (("/search", self.numbered), ("/search/jql", self.by_token))
        ]

    def numbered(self, call: Call) -> Response:
        """Data Center's search by `startAt`; on Cloud it is gone."""
        if self.hub.cloud:
            return problem(410, GONE)
        data = self._asked(call)
        only(data, ("jql", "startAt", "maxResults", "fields", "expand", "validateQuery"), call.path)
        found = self._found(call, data, set())
        start, most = int(data.get("startAt", 0)), min(1000, int(data.get("maxResults", 50)))
        render, fields = self.hub.render(call), data.get("fields", ["*navigable"])
        shown = [render.issue(issue, fields) for issue in found[start : start + most]]
        counts = {"startAt": start, "maxResults": most, "total": len(found)}
        return JSONResponse({"expand": "schema,names", **counts, "issues": shown})

    def by_token(self, call: Call) -> Response:
        """Cloud's search by `nextPageToken`; without `fields` an issue is only its id."""
        if not self.hub.cloud:
            raise refuse(404, "HTTP 404 Not Found")
        data = self._asked(call)
        known = ("jql", "nextPageToken", "maxResults", "fields", "expand", "properties", "fieldsByKeys", "failFast")
        only(data, (*known, "reconcileIssues"), call.path)
        wanted = data.get("reconcileIssues") or []
        if len(wanted) > 50:
            raise refuse(400, "reconcileIssues: no more than 50 issues can be reconciled.")
        found = self._found(call, data, {int(number) for number in wanted})
        after = _opened(data.get("nextPageToken"))
        place = next((n + 1 for n, issue in enumerate(found) if issue.id == after), None)
        if place is None:
            # Whoever stood at the end of the last page may have left the result; ids rise with the default order.
            place = next((n for n, issue in enumerate(found) if issue.id > after), len(found)) if after else 0
        most = min(MOST, max(1, int(data.get("maxResults", 50))))
        page, render = found[place : place + most], self.hub.render(call)
        fields, keys = data.get("fields") or ["id"], data.get("properties") or ()
        shown = [_bare(render.issue(issue, fields, keys), fields) for issue in page]
        last = place + most >= len(found)
        more = {} if last else {"nextPageToken": _sealed(page[-1].id)}
        return JSONResponse({"issues": shown, "isLast": last, **more})

    def _asked(self, call: Call) -> dict[str, Any]:
        if call.method == "POST":
            return read_object(call)
        data: dict[str, Any] = dict(call.query)
        for name in ("fields", "properties", "reconcileIssues"):
            if name in data:
                data[name] = split(",".join(call.query.getlist(name)))
        return data

    def _found(self, call: Call, data: dict[str, Any], reconciled: set[int]) -> list[Issue]:
        """What the index knows to match, and what the caller may see."""
        world, who = self.hub.world, self.hub.door.name(call)
        jql = data.get("jql")
        if not isinstance(jql, str):
            raise refuse(400, "A JQL query is required.")
        query = parse(jql, world, self.hub.clock.now())
        matching = []
        for current in world.issues():
            known = current if current.id in reconciled else self.hub.indexed(current.id)
            if known and query.matches(known) and world.may(who, known.project, "BROWSE_PROJECTS"):
                matching.append(known)
        return query.sorted(matching)


def _bare(shown: dict[str, Any], fields: list[str]) -> dict[str, Any]:
    return {"id": shown["id"]} if fields == ["id"] else shown


def _sealed(issue_id: int) -> str:
    return base64.urlsafe_b64encode(f"after {issue_id}".encode()).decode()


def _opened(token: Any) -> int:
    if token is None:
        return 0
    try:
        return int(base64.urlsafe_b64decode(str(token)).decode().removeprefix("after "))
    except (binascii.Error, ValueError):
        raise refuse(400, "The nextPageToken is invalid or has expired.") from None
