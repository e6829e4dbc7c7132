"""One organization, put together: what every group of endpoints needs."""

from __future__ import annotations

from collections.abc import Callable

from agentsmith.simulators.azuredevops.access import Credentials, Door
from agentsmith.simulators.azuredevops.changes import Changes, Notice
from agentsmith.simulators.azuredevops.payloads import Renderer
from agentsmith.simulators.azuredevops.state import World
from agentsmith.simulators.clock import Clock
from agentsmith.simulators.frame import Call


class Hub:
    """State, verbs and credentials of one organization."""

    def __init__(self, clock: Clock, organization: str, notify: Callable[[Notice], None]) -> None:
        self.clock, self.organization = clock, organization
        self.world = World()
        self.credentials = Credentials(clock)
        self.changes = Changes(self.world, clock, notify)
        self.door = Door(self.world)

    def clear(self) -> None:
        """Empty everything in place: the endpoints hold on to this object."""
        self.world.clear()
        self.credentials.tokens.clear()
        self.door.blind.clear()
        self.door.readers.clear()
        self.door.deaf.clear()

    def render(self, call: Call) -> Renderer:
        """A renderer whose addresses are those the client used."""
        return Renderer(self.world, f"{call.base_url}/{self.organization}")
