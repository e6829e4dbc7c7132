"""GitLab in memory: `GitLabSimulator`, gitlab.com or self-managed, free or paid."""

from __future__ import annotations

from agentsmith.simulators.gitlab.simulator import GitLabSimulator

__all__ = ["GitLabSimulator"]
