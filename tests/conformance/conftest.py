"""Runs every conformance test once per platform that can do what the test needs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conformance.azuredevops import AzureDevOpsPlatform
from tests.conformance.github import GitHubPlatform
from tests.conformance.gitlab import GitLabPlatform
from tests.conformance.harness import Platform
from tests.conformance.jira import JiraDataCenterPlatform, JiraPlatform, JiraStatusPlatform
from tests.conformance.local import LocalPlatform
from tests.conformance.simulated import SimulatedPlatform
from tests.conformance.steps import LABELS

PLATFORMS: dict[str, type[Platform]] = {
    "azure-devops": AzureDevOpsPlatform,
    "github": GitHubPlatform,
    "gitlab": GitLabPlatform,
    "jira": JiraPlatform,
    "jira-data-center": JiraDataCenterPlatform,
    "jira-status": JiraStatusPlatform,
    "local": LocalPlatform,
}


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "needs(what): a Fault or the name of a flag of Capabilities")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test for every platform; one that asks for an `own_fault` for each that the platform has."""
    if "own_fault" in metafunc.fixturenames:
        pairs = [(name, fault) for name in sorted(PLATFORMS) for fault in own_faults(PLATFORMS[name])]
        metafunc.parametrize(("platform_name", "own_fault"), pairs)
    elif "platform_name" in metafunc.fixturenames:
        metafunc.parametrize("platform_name", sorted(PLATFORMS))


def own_faults(platform: type[Platform]) -> list[str]:
    """The names of what can go wrong on this platform only."""
    return list(platform.own_faults) if issubclass(platform, SimulatedPlatform) else []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out a test for the platforms that lack a capability it needs."""
    unfit = [item for item in items if isinstance(item, pytest.Function) and not _fit(item)]
    if unfit:
        config.hook.pytest_deselected(items=unfit)
        items[:] = [item for item in items if item not in unfit]


def _fit(item: pytest.Function) -> bool:
    marks = list(item.iter_markers("needs"))
    if not marks:
        return True
    return PLATFORMS[str(item.callspec.params["platform_name"])].capabilities.include(marks)


@pytest.fixture
async def platform(platform_name: str, tmp_path: Path) -> AsyncIterator[Platform]:
    """A platform with an empty project."""
    async with PLATFORMS[platform_name].start(tmp_path, LABELS) as started:
        yield started


@pytest.fixture
def platform_type(platform_name: str) -> type[Platform]:
    """The platform's class, for tests that run event loops of their own."""
    return PLATFORMS[platform_name]
