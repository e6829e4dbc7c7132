"""What the configuration says about a local tracker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic import field_validator

from agentsmith.config import Duration, TrackerSettings

DEFAULT_FILE: Final = "tickets.sqlite3"
"""The file inside `data_dir` where no `path` is given."""

_PROJECT: Final = re.compile(r"[A-Za-z0-9._-]{1,63}")


class LocalSettings(TrackerSettings):
    """A tracker in a SQLite file; works without any setting. Several projects may share one file."""

    unsupported_filters: ClassVar[frozenset[str]] = frozenset({"component", "type", "assignee"})
    idle_stretch: ClassVar[float] = 1.0

    platform: Literal["local"] = "local"
    poll_interval: Duration = Duration(2)
    """A look costs a read of a local file, so it can be taken often."""
    project: str = "tickets"
    """The first part of the tickets' names: `local/tickets#3`."""
    path: Path | None = None
    """The file; None means `tickets.sqlite3` in the `data_dir`."""

    @field_validator("project")
    @classmethod
    def _legal_project(cls, name: str) -> str:
        if not _PROJECT.fullmatch(name):
            raise ValueError("is not a project name; use up to 63 letters, digits, '.', '-' and '_'")
        return name

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        if path is None:
            return None
        if "\0" in str(path) or path == Path():
            raise ValueError("is not a file; write a path, absolute or from the working directory")
        try:
            return path.expanduser().absolute()
        except RuntimeError:
            raise ValueError("starts with ~, but there is no such home folder; write the path in full") from None

    def file(self, data_dir: Path) -> Path:
        """Where the tickets are."""
        return self.path or data_dir / DEFAULT_FILE

    def project_identity(self) -> str:
        """`local/tickets`: the same as the tracker's `project`, and the first part of every ticket id."""
        return f"local/{self.project}"
