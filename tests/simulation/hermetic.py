"""Nothing from outside: clocks, chance and the names of machines come from the simulation alone."""

from __future__ import annotations

import datetime
import os
import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final
from unittest.mock import patch

import apscheduler.executors.base
import apscheduler.schedulers.base
import apscheduler.triggers.interval

from tests.simulation.loop import Clock

EPOCH: Final = 1_700_000_000.0 - 100_000.0
"""The wall clock where nobody set it: a moment in November 2023, plus what has passed since."""

_real_gmtime, _real_strftime = time.gmtime, time.strftime


@contextmanager
def hermetic(
    clock: Clock, chance: random.Random, ahead: Callable[[], float], host: Callable[[], str]
) -> Iterator[None]:
    """Let all code read virtual clocks and draw from `chance`.

    `ahead` says by how much the wall clock of whoever asks is wrong, and `host` on which machine they are.
    """

    def wall() -> float:
        return EPOCH + clock.now + ahead()

    def gmtime(seconds: float | None = None) -> time.struct_time:
        return _real_gmtime(wall() if seconds is None else seconds)

    def strftime(form: str, moment: time.struct_time | None = None) -> str:
        return _real_strftime(form, gmtime() if moment is None else moment)

    class Datetime(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
            return datetime.datetime.fromtimestamp(wall(), tz)

    replaced: list[tuple[object, str, object]] = [
        (time, "time", wall),
        (time, "time_ns", lambda: round(wall() * 1e9)),
        (time, "monotonic", lambda: clock.now),
        (time, "clock_gettime", lambda _: clock.now),
        (time, "gmtime", gmtime),
        (time, "localtime", gmtime),
        (time, "strftime", strftime),
        (os, "urandom", chance.randbytes),
        (random, "_urandom", chance.randbytes),
        (socket, "gethostname", host),
        *(
            (module, "datetime", Datetime)
            for module in (apscheduler.executors.base, apscheduler.schedulers.base, apscheduler.triggers.interval)
        ),
    ]
    before = random.getstate()
    with ExitStack() as stack:
        stack.callback(random.setstate, before)
        for thing, name, substitute in replaced:
            stack.enter_context(patch.object(thing, name, substitute))
        random.seed(chance.getrandbits(64))
        yield
