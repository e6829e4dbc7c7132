"""GitHub in memory; see `GitHubSimulator`."""

from __future__ import annotations

from agentsmith.simulators.github.simulator import GitHubSimulator

__all__ = ["GitHubSimulator"]
