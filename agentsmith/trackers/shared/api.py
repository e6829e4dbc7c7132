"""One project as one tracker reaches it: what all parts of a tracker need to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from agentsmith.trackers.http import ApiClient

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class ProjectApi(Generic[S]):
    """Where a project is, and who speaks to it; `S` is the platform's way of naming and addressing things."""

    tracker: str
    """The tracker's name in the configuration."""
    site: S
    client: ApiClient
    now: Callable[[], float]
    """The boot-time clock."""
    page_size: int
    """How many records are asked for at once."""


class OnProject(Generic[S]):
    """A part of a tracker that speaks to the project."""

    def __init__(self, api: ProjectApi[S]) -> None:
        self._tracker, self._site, self._client = api.tracker, api.site, api.client
        self._now, self._page_size = api.now, api.page_size
