"""Which platforms can be played: adding one is a `Stage` in its folder and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from agentsmith.simulators.github.stage import GitHubStage
from agentsmith.simulators.stage import Stage

STAGES: Final[Mapping[str, Callable[[], Stage]]] = {
    "github": GitHubStage,
}
"""By the name that a configuration calls the platform."""
