"""One organization, put together: what every group of endpoints needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentsmith.simulators.azuredevops.access import Credentials, Door
from agentsmith.simulators.azuredevops.changes import Changes, Notice
from agentsmith.simulators.azuredevops.code import Code
from agentsmith.simulators.azuredevops.payloads import Renderer
from agentsmith.simulators.azuredevops.state import GitRepository, Project, PullRequest, World
from agentsmith.simulators.clock import Clock
from agentsmith.simulators.frame import Call
from agentsmith.simulators.git.bare import GitHome


class Hub:
    """State, verbs and credentials of one organization."""

    def __init__(self, clock: Clock, organization: str, notify: Callable[[Notice], None], home: GitHome) -> None:
        self.clock, self.organization = clock, organization
        self.world = World()
        self.credentials = Credentials(clock)
        self.changes = Changes(self.world, clock, notify)
        self.door = Door(self.world)
        self.code = Code(home, clock)

    def clear(self) -> None:
        """Empty everything in place: the endpoints hold on to this object."""
        self.world.clear()
        self.credentials.tokens.clear()
        self.door.blind.clear()
        self.door.readers.clear()
        self.door.deaf.clear()

    def pull_json(
        self, render: Renderer, project: Project, repository: GitRepository, pull: PullRequest
    ) -> dict[str, Any]:
        """A pull request, with the repository that it is in."""
        return render.pull(project, repository, pull, empty=self.code.empty(repository))

    def render(self, call: Call) -> Renderer:
        """A renderer whose addresses are those the client used."""
        return Renderer(self.world, f"{call.base_url}/{self.organization}")
