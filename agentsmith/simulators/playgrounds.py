"""Which platforms can be played: adding one is a `Playground` in its folder and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from agentsmith.simulators.azuredevops.playground import AzureDevOpsPlayground
from agentsmith.simulators.github.playground import GitHubPlayground
from agentsmith.simulators.gitlab.playground import GitLabPlayground
from agentsmith.simulators.jira.playground import JiraPlayground
from agentsmith.simulators.playground import Playground

PLAYGROUNDS: Final[Mapping[str, Callable[[], Playground]]] = {
    "github": GitHubPlayground,
    "gitlab": GitLabPlayground,
    "azure-devops": AzureDevOpsPlayground,
    "jira": JiraPlayground,
}
"""By the name that a configuration calls the platform."""
