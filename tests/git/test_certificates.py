"""git trusts whom the API's client trusts, though it looks for the certificates under other names."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentsmith.git.command import Git, TimeLimits
from tests.support.git_bench import PlainShell


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({"SSL_CERT_FILE": "/ours.pem"}, {"GIT_SSL_CAINFO": "/ours.pem"}),
        ({"SSL_CERT_DIR": "/ours"}, {"GIT_SSL_CAPATH": "/ours"}),
        ({"SSL_CERT_FILE": "/ours.pem", "GIT_SSL_CAINFO": "/gits.pem"}, {"GIT_SSL_CAINFO": "/gits.pem"}),
        ({}, {}),
    ],
)
async def test_what_we_trust_git_trusts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], seen: dict[str, str]
) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)

    async def nobody() -> None:
        return None

    git = Git(PlainShell(tmp_path / "scratch"), "https://git.example.org/web.git", nobody, TimeLimits(60, 60, 60))
    told = dict(line.split("=", 1) for line in (await git.program(["env"])).text.splitlines())
    assert {name: value for name, value in told.items() if name.startswith("GIT_SSL")} == seen
