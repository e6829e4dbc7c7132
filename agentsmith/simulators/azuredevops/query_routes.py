"""Queries by WIQL: ids only, and never more than 20,000."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.azuredevops.answers import need_version, only_query, read_object, refuse, whole
from agentsmith.simulators.azuredevops.hub import Hub
from agentsmith.simulators.azuredevops.payloads import iso
from agentsmith.simulators.azuredevops.wiql import parse
from agentsmith.simulators.frame import Call, Handler


class QueryRoutes:
    """The endpoints about queries. `limit` is 20,000 on the real service; a longer result is refused or cut off."""

    def __init__(self, hub: Hub, *, limit: int, refuses: bool) -> None:
        self.hub, self.limit, self.refuses = hub, limit, refuses

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path below `_apis`, handler."""
        return [("POST", "/wit/wiql", self.run)]

    def run(self, call: Call) -> Response:
        """The ids that a query selects."""
        only_query(call, "$top", "timePrecision")
        need_version(call)
        project = self.hub.door.project(call)
        text = read_object(call).get("query")
        if not isinstance(text, str):
            raise refuse(400, "The query is missing.", "ArgumentNullException")
        precise = call.query.get("timePrecision", "false").lower() == "true"
        query = parse(text, project.name if project else None, precise=precise)
        blind = self.hub.door.credential(call).user.name.casefold() in self.hub.door.blind
        items = [] if blind else [item for item in self.hub.world.items.values() if not item.deleted]
        found = [item.id for item in items if query.selects(item, item.as_of(call.behind))]
        if query.order != "System.Id":
            found.sort(key=lambda number: self.hub.world.item(number).now.at)
        if query.descending:
            found.reverse()
        found = found[: whole(call, "$top", 1 << 30, 1 << 30)]
        if len(found) > self.limit and self.refuses:
            message = (
                f"VS402337: The number of work items returned exceeds the size limit of {self.limit}. "
                "Change the query to return fewer items."
            )
            raise refuse(400, message, "WorkItemTrackingQueryResultSizeLimitExceededException")
        root = self.hub.render(call).root
        hits: list[Any] = [{"id": n, "url": f"{root}/_apis/wit/workItems/{n}"} for n in found[: self.limit]]
        columns = [
            {"referenceName": c, "name": c.rpartition(".")[2], "url": f"{root}/_apis/wit/fields/{c}"}
            for c in query.columns
        ]
        return JSONResponse(
            {
                "queryType": "flat",
                "queryResultType": "workItem",
                "asOf": iso(self.hub.clock.stamp()),
                "columns": columns,
                "workItems": hits,
            }
        )
