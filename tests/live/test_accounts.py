"""Whether there are real accounts to run on, said aloud; and that half an account is an error, not a skipped test."""

from __future__ import annotations

import os

import pytest

from tests.live.azuredevops import LiveAzureDevOps
from tests.live.github import LiveGitHub
from tests.live.gitlab import LiveGitLab
from tests.live.jira import LiveJira
from tests.live.live import PREFIX, LivePlatform

LIVE = (LiveAzureDevOps, LiveGitHub, LiveGitLab, LiveJira)


@pytest.mark.parametrize("live", LIVE, ids=lambda live: live.service)
def test_the_suite_runs_on_a_real_account(live: type[LivePlatform]) -> None:
    if live.configured(os.environ) is None:
        wanted = ", ".join(f"{PREFIX}{live.service}_{name}" for name in live.needed)
        pytest.skip(f"NOT RUN on a real {live.service}: set {wanted}")


@pytest.mark.parametrize("live", LIVE, ids=lambda live: live.service)
def test_an_account_is_named_whole_or_not_at_all(live: type[LivePlatform]) -> None:
    assert live.configured({}) is None
    environ = {f"{PREFIX}{live.service}_{name}": f"the {name}" for name in live.needed}
    account = live.configured(environ)
    assert account is not None
    assert account == {**live.optional, **{name: f"the {name}" for name in live.needed}}
    left_out = environ.popitem()[0]
    with pytest.raises(ValueError, match=f"by half: set {left_out}"):
        live.configured(environ)
