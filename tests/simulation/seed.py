"""Playing one seed: a rough part, then calm, and within the published bound every label tells the truth."""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import structlog

from tests.simulation.people import People
from tests.simulation.played import Played
from tests.simulation.setting import bound
from tests.simulation.troubles import Troubles
from tests.simulation.world import SimulatedWorld

_STARTED: Final = 100_000.0
_LOOK_EVERY: Final = 1.0
_ROUGH_IF_SILENT: Final = 50.0
"""Long enough for a lease to lapse in the middle of work, and for somebody to take over."""
_NO_LEVEL: Final = logging.CRITICAL


def play(seed: int, *, whole_trace: bool = False) -> Played:
    """Play a seed to its end, or to the first promise that does not hold."""
    _keep_modules()
    folder = Path(tempfile.mkdtemp(prefix="as-sim-", dir=_fastest_folder()))
    try:
        world = SimulatedWorld(seed, folder / "data", whole_trace=whole_trace)
        with _log_goes_to(world), _nothing_collected():
            with world.inside():
                played = _play(seed, world)
            _bury(world.loop.tasks)
        return played
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _play(seed: int, world: SimulatedWorld) -> Played:
    people, troubles, promises = People(world), Troubles(world, seed), world.promises
    rough = _ROUGH_IF_SILENT if world.weather.silent else world.chance.choice((10.0, 20.0, 40.0))
    world.trace.say(f"seed {seed}: {', '.join(world.topology)}; {world.board.flavour}")
    for name in world.topology:
        world.later(world.between(0, 1.5), world.start, name)
    world.loop.run_until(_STARTED + 2, lambda: False)
    world.weather.rough = True
    people.come(rough)
    troubles.plan(rough)
    world.loop.run_until(_STARTED + 2 + rough, lambda: bool(promises.violations))
    troubles.mend()
    world.trace.say("all trouble is over")
    calm_since, limit = world.clock.now, world.clock.now + bound(world.config)
    wrong = ["nobody has looked yet"]
    while wrong and not promises.violations and world.clock.now < limit:
        world.loop.run_until(world.clock.now + _LOOK_EVERY, lambda: bool(promises.violations))
        wrong = [*promises.wrong_labels(), *world.left()]
    for what in () if promises.violations else wrong:
        promises.broken("P2/P5", f"{what}, {limit - calm_since:.0f} s after all trouble was over")
    for trouble in world.loop.troubles:
        promises.broken("P2", f"{trouble.get('message')}: {trouble.get('exception')!r}")
    world.weather.counts["finished work done again"] += promises.repeated
    return Played(
        seed=seed,
        violations=tuple(promises.violations),
        faults=world.weather.counts,
        tickets=len(world.board.pages),
        runs=len(world.floor.children),
        seconds=world.clock.now - _STARTED,
        recovered_in=world.clock.now - calm_since,
        steps=world.loop.steps,
        trace=tuple(world.trace.lines),
    )


@contextmanager
def _log_goes_to(world: SimulatedWorld) -> Iterator[None]:
    before = structlog.get_config()
    if world.trace.whole:
        structlog.configure(processors=[world.trace.log])
    else:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_NO_LEVEL))
    try:
        yield
    finally:
        structlog.configure(**before)


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Keep the garbage collector out of the story; it takes a tenth of the time, and the story is short."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


@functools.cache
def _keep_modules() -> None:
    """Once: what is there before the first story stays, and need not be looked through after every one."""
    gc.freeze()


def _bury(tasks: list[Any]) -> None:
    """Let go of everything that was still going on, before the garbage collector does it at some other time."""
    for task in tasks:
        task._log_destroy_pending = False
        if not task.done():
            with contextlib.suppress(BaseException):  # whatever it tries in its `finally`, there is no world any more
                task.get_coro().close()
    tasks.clear()


def _fastest_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
