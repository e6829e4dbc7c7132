"""What the branch of a ticket is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentsmith.domain.forge import Forge
from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.ticket import slug
from agentsmith.git import OtherName

_PREFIX: Final = "agent-smith/"


def is_ours(branch: str) -> bool:
    """Whether a branch has such a name as we give."""
    return branch.startswith(_PREFIX)


def branch_for(key: str, tracker: str, forges: Mapping[str, Forge]) -> str:
    """The branch of a ticket; the tracker is part of it where the tickets of two could meet in one repository."""
    return f"{_PREFIX}{slug(key, tracker if _shared(tracker, forges) else None)}"


def other_branch(request: PipelineRequest, forges: Mapping[str, Forge]) -> OtherName:
    """What the branch was called before trackers came or went; with no tracker in it, it may be another's."""
    shared = _shared(request.tracker, forges)
    name = f"{_PREFIX}{slug(request.key, None if shared else request.tracker)}"
    return OtherName(name, ours=not shared)


def _shared(tracker: str, forges: Mapping[str, Forge]) -> bool:
    here = forges[tracker].clone_url
    return sum(forge.clone_url == here for forge in forges.values()) > 1
