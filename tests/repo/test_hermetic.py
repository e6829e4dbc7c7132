"""Tests begin from the same, whatever machine, shell or runner starts them (`tests/support/hermetic.py`)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import structlog

from agentsmith import logs, privacy, redaction
from tests.support.hermetic import left_as_found

ROOT: Final = Path(__file__).parents[2]
_TELL: Final = """
import os, signal
from tests.support.hermetic import make_hermetic
make_hermetic()
print(sorted(os.environ), os.umask(0), signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""


def test_nothing_is_handed_down_that_a_test_could_notice() -> None:
    def hand_down() -> None:
        os.umask(0o077)
        for number in (signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())

    def told(handed_down: dict[str, str], prepare: Callable[[], None] | None = None) -> str:
        env = {"PATH": os.environ["PATH"], **handed_down}
        done = subprocess.run(
            [sys.executable, "-c", _TELL],
            cwd=ROOT,
            env=env,
            preexec_fn=prepare,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    noise = dict.fromkeys(("HTTPS_PROXY", "GIT_DIR", "NO_COLOR", "CI", "COLUMNS", "AGENTSMITH_LOG", "LC_ALL"), "1")
    assert told(noise, hand_down) == told({})
    assert "AGENTSMITH_RACE_ROUNDS" in told({"AGENTSMITH_RACE_ROUNDS": "7"})
    assert "HTTPS_PROXY" in told({"HTTPS_PROXY": "http://proxy", "AGENTSMITH_LIVE_GITHUB_TOKEN": "a real account"})


def test_nothing_stays_that_the_next_test_could_notice(request: pytest.FixtureRequest) -> None:
    """A word that one test makes a secret is blanked out of what another one reads."""
    assert "process_as_found" in request.fixturenames
    redaction.register_secret("kept")
    configured = structlog.is_configured()
    with left_as_found():
        redaction.register_secret("cannot")
        logs.configure("json", "debug")
        privacy.keep({"TOKEN": "cannot"})
        structlog.contextvars.bind_contextvars(run="r1")
    assert redaction.redact("what is kept cannot be read") == "what is *** cannot be read"
    assert structlog.is_configured() == configured
    assert not structlog.contextvars.get_contextvars()
    assert "TOKEN" not in privacy.environment()
