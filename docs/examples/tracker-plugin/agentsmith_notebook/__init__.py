"""An example of a further tracker: a notebook, which is a SQLite file with a path of its own.

A real one would implement every method of `agentsmith.domain.tracker.Tracker` by itself; this one borrows them from
the built-in local tracker, so that what remains is what every plug-in needs: settings, a way to build, a `Platform`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from agentsmith.config import TrackerSettings
from agentsmith.domain.tracker import Tracker
from agentsmith.trackers.local.tracker import LocalTracker
from agentsmith.trackers.registry import Platform, Surroundings


class NotebookSettings(TrackerSettings):
    """What stands under `trackers.<name>` in the configuration when its platform is `notebook`."""

    platform: Literal["notebook"]
    file: Path

    def project_identity(self) -> str:
        """Two trackers on one notebook are a configuration error."""
        return f"notebook/{self.file}"


def build(name: str, settings: NotebookSettings, around: Surroundings) -> Tracker:
    """Make the tracker; nothing is asked of it yet."""
    return LocalTracker(name=name, path=settings.file, project="notebook", labels=around.labels)


PLATFORM = Platform(NotebookSettings, build)
