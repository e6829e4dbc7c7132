"""Capacity: how many tickets are queued and running, in all, of one tracker and of one pipeline.

A ticket takes its places in the very step that begins its claim, also where there is no limit yet: one that is set
tomorrow counts what runs today. Nobody gives places back: one whose ticket is neither queued nor running nor being
claimed is free, and that is found out when it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentsmith.domain.request import PipelineRequest
from agentsmith.store.keys import Keys
from agentsmith.store.redis_commands import Commands
from agentsmith.store.scripts import capacity as scripts


@dataclass(frozen=True, slots=True)
class Place:
    """Something that has room for so many tickets at once, or for any number."""

    name: str
    limit: int | None = None


class Occupancy:
    """Who takes up room."""

    def __init__(self, redis: Commands, keys: Keys) -> None:
        self._redis, self._keys = redis, keys

    async def occupy(self, request: PipelineRequest) -> None:
        """Count a ticket that is in hand without having been claimed here: Redis forgot it meanwhile."""
        keys = [self._keys.places(name) for name in places_of(request.tracker, request.pipeline)]
        await scripts.Occupy(places=keys, ticket=request.ticket).on(self._redis)


def places_of(tracker: str, pipeline: str) -> tuple[str, str, str]:
    """The places that a ticket takes up: in all, of its tracker, of its pipeline."""
    return "all", f"tracker:{tracker}", f"pipeline:{pipeline}"
