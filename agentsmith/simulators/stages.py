"""Which platforms can be played: adding one is a `Stage` in its folder and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from agentsmith.simulators.azuredevops.stage import AzureDevOpsStage
from agentsmith.simulators.github.stage import GitHubStage
from agentsmith.simulators.gitlab.stage import GitLabStage
from agentsmith.simulators.jira.stage import JiraStage
from agentsmith.simulators.stage import Stage

STAGES: Final[Mapping[str, Callable[[], Stage]]] = {
    "github": GitHubStage,
    "gitlab": GitLabStage,
    "azure-devops": AzureDevOpsStage,
    "jira": JiraStage,
}
"""By the name that a configuration calls the platform."""
