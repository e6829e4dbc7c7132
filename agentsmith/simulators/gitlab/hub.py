"""One GitLab, put together: what every group of endpoints needs."""

from __future__ import annotations

from collections.abc import Callable

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.frame import Call
from agentsmith.simulators.git.bare import GitHome
from agentsmith.simulators.gitlab.access import Credentials, Door
from agentsmith.simulators.gitlab.changes import Changes, Notice
from agentsmith.simulators.gitlab.code import Code
from agentsmith.simulators.gitlab.limits import Limits
from agentsmith.simulators.gitlab.payloads import Renderer
from agentsmith.simulators.gitlab.state import World

API = "/api/v4"


class Hub:
    """State, verbs, credentials and limits of one GitLab."""

    def __init__(
        self,
        clock: Clock,
        limits: Limits,
        notify: Callable[[Notice], None],
        *,
        premium: bool,
        keyset: str,
        external_url: str | None,
        home: GitHome,
    ) -> None:
        self.clock = clock
        self.limits = limits
        self.keyset = keyset
        """`yes`, `ignored` (pages by number instead) or `refused` (405)."""
        self.external_url = external_url
        """The address that GitLab believes to have, where that is not the one it is called by."""
        self.world = World()
        self.credentials = Credentials(clock)
        self.changes = Changes(self.world, clock, notify, premium=premium)
        self.door = Door(self.world)
        self.code = Code(home)

    def clear(self) -> None:
        """Empty everything in place: the endpoints hold on to this object."""
        self.world.clear()
        self.credentials.tokens.clear()
        self.limits.clear()

    def render(self, call: Call) -> Renderer:
        """A renderer whose addresses are those the client used, or GitLab's own."""
        web = self.external_url or call.base_url.removesuffix(API)
        return Renderer(self.world, web + API, web, self.code.empty)

    def address(self, call: Call) -> str:
        """The API root as links in answers name it."""
        return self.render(call).api
