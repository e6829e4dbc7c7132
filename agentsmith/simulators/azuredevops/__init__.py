"""Azure DevOps in memory; see `AzureDevOpsSimulator`."""

from __future__ import annotations

from agentsmith.simulators.azuredevops.simulator import AzureDevOpsSimulator

__all__ = ["AzureDevOpsSimulator"]
