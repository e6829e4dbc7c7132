"""Transitions: what an issue may do next, and doing it."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from agentsmith.simulators.frame import Call, Handler
from agentsmith.simulators.jira.answers import nothing, only, properties_in, read_object, refuse
from agentsmith.simulators.jira.hub import Hub
from agentsmith.simulators.jira.issue_routes import ISSUE, SCREEN

TRANSITIONS = ISSUE + "/transitions"


class TransitionRoutes:
    """The endpoints about the workflow."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler."""
        return [("GET", TRANSITIONS, self.offered), ("POST", TRANSITIONS, self.make)]

    def offered(self, call: Call) -> Response:
        """The transitions open to the caller; none for somebody who may not make any."""
        issue, render = self.hub.door.issue(call), self.hub.render(call)
        project = self.hub.world.project(issue.project)
        may = self.hub.world.may(self.hub.door.name(call), project.key, "TRANSITION_ISSUES")
        ways = project.ways_from(issue.status) if may else []
        wanted = call.query.get("transitionId")
        shown = [render.transition(project, way) for way in ways if wanted in (None, way.id)]
        return JSONResponse({"expand": "transitions", "transitions": shown})

    def make(self, call: Call) -> Response:
        """Make a transition. Of two at once one gets 409; one that is not open from here, 400."""
        issue, data = self.hub.door.issue(call), read_object(call)
        only(data, ("transition", "fields", "update", "properties", "historyMetadata"), "a transition")
        wanted = str((data.get("transition") or {}).get("id", ""))
        if not wanted:
            raise refuse(400, "Missing 'transition' identifier")
        if "transition_conflict" in call.quirks:
            raise refuse(409, "The issue is being transitioned by another request.")
        project = self.hub.world.project(issue.project)
        if not self.hub.world.may(self.hub.door.name(call), project.key, "TRANSITION_ISSUES"):
            raise refuse(400, f"Transition id '{wanted}' is not valid for this issue.")
        ways = {way.id: way for way in project.ways_from(issue.status)}
        if wanted not in ways:
            raise refuse(400, f"Transition id '{wanted}' is not valid for this issue.")
        # No transition here has a screen, and without one Jira takes no fields.
        if fields := [*(data.get("fields") or {}), *(data.get("update") or {})]:
            raise refuse(400, errors={field: SCREEN.format(field) for field in fields})
        self.hub.changes.transition(issue, self.hub.by(call), ways[wanted].to, properties=properties_in(data))
        return nothing()
