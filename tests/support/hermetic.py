"""Tests see nothing of the shell, the user or the runner that starts them: each process begins from the same.

What is not named here is not handed down, so that no variable has to be known to be kept out (proxies, GIT_*, NO_COLOR,
AGENTSMITH_* of a developer's own daemon, …).
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import structlog

from agentsmith import logs, privacy, redaction

_OF_THE_MACHINE: Final = ("PATH", "TMPDIR", "LD_LIBRARY_PATH")
_OF_THE_TOOLS: Final = ("PYTEST_", "PY_COLORS", "HYPOTHESIS_", "PYTHONHASHSEED", "COVERAGE_", "AGENTSMITH_LIVE_")
_OF_THE_NETWORK: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "https_proxy", "all_proxy", "no_proxy")
"""The way to real accounts, in small and capital letters; kept only where some are named."""
_SAME_FOR_ALL: Final = {"LANG": "C.UTF-8", "TZ": "AHEAD-05:45"}
"""An odd zone, because what forgets to say which it means looks right in UTC."""
_LONGEST_TMPDIR: Final = 60
"""Letters: sockets stand below it, whose paths are short by nature."""
_FILES_AT_LEAST: Final = 1024
_LEFT_IGNORED: Final = (signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)
"""The first by `nohup`, so that tests live on when the terminal is gone; the others by Python, in every process."""


def make_hermetic() -> None:
    """Forget what was handed down. To be called by each process of pytest, before anything else."""
    _environment()
    _signals()
    os.umask(0o022)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _FILES_AT_LEAST:
        enough = _FILES_AT_LEAST if hard == resource.RLIM_INFINITY else min(_FILES_AT_LEAST, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))


@contextmanager
def left_as_found() -> Iterator[None]:
    """What the product keeps for as long as its process lives is a test's own: loggers, secrets, variables."""
    loggers = [logging.getLogger(), *map(logging.getLogger, logs._NOISY)]
    levels, handlers = [logger.level for logger in loggers], list(loggers[0].handlers)
    configured, configuration = structlog.is_configured(), structlog.get_config()
    secrets, variables = redaction.registered(), dict(privacy._kept)
    yield
    loggers[0].handlers[:] = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    structlog.configure(**configuration) if configured else structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    privacy.keep(variables)
    if redaction.registered() != secrets:
        redaction._secrets.clear()
        for secret in secrets:
            redaction.register_secret(secret)


def _environment() -> None:
    # Sizes that a person may choose are those that CONTRIBUTING.md names.
    sizes = set(re.findall(r"AGENTSMITH_[A-Z_]+", (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text("utf-8")))
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in sizes or name in _OF_THE_MACHINE or name.startswith(_OF_THE_TOOLS)
    }
    if any(name.startswith("AGENTSMITH_LIVE_") for name in kept):
        spelled = {spelling for name in _OF_THE_NETWORK for spelling in (name, name.upper())}
        kept |= {name: value for name, value in os.environ.items() if name in spelled}
    if len(kept.get("TMPDIR", "")) > _LONGEST_TMPDIR:
        kept["TMPDIR"] = "/tmp"
    home = os.environ.get("HOME", "")
    os.environ.clear()
    os.environ.update(kept, **_SAME_FOR_ALL)
    tempfile.tempdir = None  # it is chosen anew, among those that there are
    # Workers get the home of the process that started them.
    os.environ["HOME"] = home if "PYTEST_XDIST_WORKER" in kept else _new_home()
    time.tzset()


def _new_home() -> str:
    home, owner = tempfile.mkdtemp(prefix="home-"), os.getpid()

    def forget() -> None:
        if os.getpid() == owner:  # not by what was forked
            shutil.rmtree(home, ignore_errors=True)

    atexit.register(forget)
    return home


def _signals() -> None:
    for number in signal.valid_signals() - {*_LEFT_IGNORED}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
