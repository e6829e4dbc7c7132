"""One GitHub, put together: what every group of endpoints needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from starlette.responses import Response

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.frame import Call
from agentsmith.simulators.git.bare import GitHome
from agentsmith.simulators.github.access import Credentials, Door
from agentsmith.simulators.github.answers import listed, page_of
from agentsmith.simulators.github.changes import Changes, Notice
from agentsmith.simulators.github.code import Code
from agentsmith.simulators.github.limits import Limits
from agentsmith.simulators.github.payloads import Json, Renderer
from agentsmith.simulators.github.state import Repository, World

T = TypeVar("T")


class Hub:
    """State, verbs, credentials and limits of one GitHub."""

    def __init__(self, clock: Clock, limits: Limits, notify: Callable[[Notice], None], home: GitHome) -> None:
        self.clock = clock
        self.limits = limits
        self.world = World()
        self.credentials = Credentials(clock)
        self.changes = Changes(self.world, clock, notify)
        self.door = Door(self.world)
        self.code = Code(self.changes, home)
        self.apps: dict[int, Json] = {}
        """The public JSON of GitHub Apps by id, for `performed_via_github_app`."""

    def clear(self) -> None:
        """Empty everything in place: the endpoints hold on to this object."""
        self.world.clear()
        self.credentials.clear()
        self.limits.clear()
        self.apps.clear()

    def render(self, call: Call) -> Renderer:
        """A renderer whose addresses are those the client used."""
        root = call.base_url
        return Renderer(self.world, root, root.removesuffix("/api/v3"), self.apps)

    def page(
        self,
        call: Call,
        repository: Repository,
        tail: str,
        items: Sequence[T],
        show: Callable[[T], Any] = lambda item: item,
    ) -> Response:
        """One page of a listing; its links name the repository by id, as GitHub's do."""
        shown, headers = page_of(call, items, f"{call.base_url}/repositories/{repository.id}/{tail}")
        return listed([show(item) for item in shown], headers)
