"""One Jira, put together: what every group of endpoints needs."""

from __future__ import annotations

from collections.abc import Callable

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.frame import Call
from agentsmith.simulators.jira.access import Door
from agentsmith.simulators.jira.changes import By, Changes, Notice
from agentsmith.simulators.jira.limits import Limits
from agentsmith.simulators.jira.payloads import Renderer
from agentsmith.simulators.jira.state import Issue, World


class Hub:
    """State, verbs, credentials, limits and the search index of one Jira."""

    def __init__(self, clock: Clock, notify: Callable[[Notice], None], *, cloud: bool, issue_limits: bool) -> None:
        self.clock, self.cloud = clock, cloud
        self.world = World()
        self.changes = Changes(self.world, clock, notify)
        self.door = Door(self.world, clock, cloud=cloud)
        self.limits = Limits(clock, enforced=issue_limits)
        self.index_lag = 0.0
        self.refreshed_at = 0.0
        self.returns_issue = True
        self.returns_properties = False
        self.lists_comment_properties = True

    def clear(self) -> None:
        """Empty everything in place: the endpoints hold on to this object."""
        self.world.clear()
        self.door.credentials.clear()
        self.limits.clear()
        self.index_lag = self.refreshed_at = 0.0

    def render(self, call: Call) -> Renderer:
        """A renderer whose addresses are those the client used."""
        version = str(call.params.get("version", "3"))
        version = ("3" if self.cloud else "2") if version == "latest" else version
        return Renderer(self.world, call.base_url, version, self.cloud, self.lists_comment_properties)

    def by(self, call: Call) -> By:
        """The caller as an actor."""
        return By(self.door.name(call) or "anonymous")

    def indexed(self, issue_id: int) -> Issue | None:
        """An issue as the search index knows it: as of some time ago."""
        return self.world.as_of(issue_id, max(self.clock.now() - self.index_lag, self.refreshed_at))
