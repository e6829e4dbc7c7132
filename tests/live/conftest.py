"""The conformance suite on real accounts, for whoever names some; and a rehearsal of that on the simulators.

An account is named by environment variables (CONTRIBUTING.md lists them). Where none is, `test_accounts.py` says so by
a skipped test for each platform. The rehearsal always runs: it shows that what people do here is really done, by the
same requests, before anybody trusts it with an account.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.simulators import serve
from agentsmith.trackers.http import Pace
from tests.conformance.harness import Platform
from tests.conformance.steps import LABELS
from tests.live.azuredevops import LiveAzureDevOps
from tests.live.github import LiveGitHub
from tests.live.gitlab import LiveGitLab
from tests.live.jira import LiveJira
from tests.live.live import LivePlatform

LIVE: dict[str, type[LivePlatform]] = {
    "azure-devops": LiveAzureDevOps,
    "github": LiveGitHub,
    "gitlab": LiveGitLab,
    "jira": LiveJira,
}


def rehearsed(live: type[LivePlatform]) -> type[LivePlatform]:
    """The same, on a simulator of its own."""

    class Rehearsed(live):  # type: ignore[misc, valid-type]  # a class as good as any
        pace = Pace(first_delay=0.001, longest_delay=0.002)

        @classmethod
        @asynccontextmanager
        async def start(cls, folder: Path, labels: LabelSet) -> AsyncIterator[Platform]:  # noqa: ARG003
            """On the simulator."""
            simulator, account = live.rehearsal()
            async with serve(simulator) as running, cls.at(account(running.api_url), labels) as platform:
                yield platform
            simulator.assert_understood()

    return Rehearsed


PLATFORMS: dict[str, type[LivePlatform]] = {
    **LIVE,
    **{f"{name}-rehearsal": rehearsed(live) for name, live in LIVE.items()},
}


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "needs(what): a Fault or the name of a flag of Capabilities")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test for every account that is named, and for every rehearsal."""
    if "platform_name" in metafunc.fixturenames:
        named = [name for name, live in LIVE.items() if live.configured(os.environ) is not None]
        metafunc.parametrize("platform_name", [*named, *(name for name in PLATFORMS if name not in LIVE)])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the platforms cannot do, and what would only hammer them."""
    unfit = [item for item in items if isinstance(item, pytest.Function) and not _fit(item)]
    if unfit:
        config.hook.pytest_deselected(items=unfit)
        items[:] = [item for item in items if item not in unfit]


def _fit(item: pytest.Function) -> bool:
    here = Path(str(item.path)).parent == Path(__file__).parent
    if not here or "platform_name" not in getattr(item, "fixturenames", ()):
        return True
    return PLATFORMS[str(item.callspec.params["platform_name"])].capabilities.include(item.iter_markers("needs"))


@pytest.fixture
async def platform(platform_name: str, tmp_path: Path) -> AsyncIterator[Platform]:
    """A project without open tickets."""
    async with PLATFORMS[platform_name].start(tmp_path, LABELS) as started:
        yield started


@pytest.fixture
def platform_type(platform_name: str) -> type[Platform]:
    """The platform's class."""
    return PLATFORMS[platform_name]
