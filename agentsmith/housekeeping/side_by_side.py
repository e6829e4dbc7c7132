"""Work on all trackers at once. One that fails or is slow never holds up the work on others: what is not done in time
goes on by itself, and its tracker is left out of the passes until then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from agentsmith.boottime import boottime

_AT_ONCE: Final = 4
"""Tickets of one tracker that are looked after at once."""
_LONGEST_ROUND: Final = 60.0
"""Seconds after which the rest of what was found for one tracker is left to the next pass, which finds it anew."""

Task = Callable[[], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class SideBySide:
    """What is under way for each tracker."""

    patience: float | None = None
    """Seconds for which a pass waits for trackers; without it as long as it takes."""
    _under_way: dict[tuple[str, str], asyncio.Task[None]] = field(default_factory=dict)
    """By pass and tracker."""

    async def do(self, what: str, work: Mapping[str, Task]) -> None:
        """Do the work of each tracker; the first failure ends all of it, and is raised as it is.

        A tracker that is still at an earlier round of this gets no more, and is not waited for (P5).
        """
        begun: list[asyncio.Task[None]] = []
        for tracker, task in work.items():
            former = self._under_way.get((what, tracker))
            if former is None or former.done():
                begun.append(asyncio.ensure_future(task()))
                self._under_way[what, tracker] = begun[-1]
        try:
            if begun:
                await asyncio.wait(begun, timeout=self.patience, return_when=asyncio.FIRST_EXCEPTION)
            for key, working in list(self._under_way.items()):
                if working.done():
                    del self._under_way[key]
                    working.result()
        except BaseException:
            await self.cancel_all()
            raise

    async def do_each(self, what: str, tasks: Mapping[str, list[Task]]) -> None:
        """Do the tasks of each tracker, a few at a time."""
        await self.do(what, {tracker: partial(share, of_tracker) for tracker, of_tracker in tasks.items()})

    async def cancel_all(self) -> None:
        """End what is under way: we no longer lead, or something failed that is not a tracker's."""
        left = list(self._under_way.values())
        self._under_way.clear()
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)


async def share(tasks: Iterable[Task]) -> None:
    """Do the tasks, a few at a time, in order; what is not begun in time is left."""
    left, give_up = iter(tasks), boottime() + _LONGEST_ROUND

    async def some() -> None:
        for task in left:
            if boottime() > give_up:
                return
            await task()

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(some())
    except BaseExceptionGroup as failures:
        first: BaseException = failures
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
