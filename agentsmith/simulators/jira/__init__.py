"""Jira in memory; see `JiraSimulator`."""

from __future__ import annotations

from agentsmith.simulators.jira.simulator import JiraSimulator

__all__ = ["JiraSimulator"]
