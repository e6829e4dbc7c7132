"""An event loop on virtual time that knows which process each callback belongs to.

Nothing waits: when nobody can go on, the clock moves to the next timer. A dead process's callbacks are dropped, as
kill -9 drops them, so no `finally` gets to run; a stopped one's are kept until it goes on. Sets of tasks, which
asyncio iterates over, have the same order in every replay: tasks hash to the number in which they were made.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, cast


class Owner(Protocol):
    """A process, as the loop sees it."""

    def admits(self, call: Call) -> bool:
        """Whether the call may go on now; if not, it is dropped, or the owner keeps it for later."""


OWNER: contextvars.ContextVar[Owner | None] = contextvars.ContextVar("owner", default=None)
"""Whose code is running; None for the world outside of all processes."""

_OUTSIDE = contextvars.Context()


class Clock:
    """Virtual time in seconds; the loop moves it."""

    def __init__(self) -> None:
        self.now = 100_000.0


class Call:
    """A callback that waits for its turn: what asyncio calls a handle."""

    __slots__ = ("args", "callback", "context", "dropped", "moment", "owner")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context, moment: float
    ) -> None:
        self.callback, self.args, self.context, self.moment = callback, args, context, moment
        self.owner = context.get(OWNER)
        self.dropped = False

    def cancel(self) -> None:
        """Never run it."""
        self.dropped = True

    def cancelled(self) -> bool:
        return self.dropped

    def when(self) -> float:
        return self.moment


class _Task(asyncio.Task[Any]):
    number: int

    def __hash__(self) -> int:
        return self.number


class _Future(asyncio.Future[Any]):
    number: int

    def __hash__(self) -> int:
        return self.number


class SimulatedLoop(asyncio.AbstractEventLoop):
    """As much of an event loop as the code under test uses."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.steps = 0
        self.tasks: list[asyncio.Task[Any]] = []
        """Kept until the end: what belongs to a dead process must not be collected, which would run its `finally`."""
        self.troubles: list[dict[str, Any]] = []
        self._ready: deque[Call] = deque()
        self._timers: list[tuple[float, int, Call]] = []
        self._numbers = itertools.count(1)

    # ---- running

    @contextmanager
    def running(self) -> Iterator[None]:
        """Be the running loop of this thread."""
        asyncio.events._set_running_loop(self)
        try:
            yield
        finally:
            asyncio.events._set_running_loop(None)

    def run_until(self, moment: float, over: Callable[[], object]) -> None:
        """Let everything go on until then, or until `over` says so, which is asked whenever the clock is to move."""
        ready, timers, clock = self._ready, self._timers, self.clock
        while True:
            while ready:
                call = ready.popleft()
                if call.dropped or (call.owner is not None and not call.owner.admits(call)):
                    continue
                self.steps += 1
                try:
                    call.context.run(call.callback, *call.args)
                except Exception as error:
                    self.call_exception_handler({"message": "a callback failed", "exception": error})
            if over():
                return
            while timers and timers[0][2].dropped:
                heapq.heappop(timers)
            if not timers or timers[0][0] > moment:
                clock.now = max(clock.now, moment)
                return
            when, _, call = heapq.heappop(timers)
            if when > clock.now:
                clock.now = when
            ready.append(call)

    def requeue(self, calls: list[Call]) -> None:
        """What a process was held back from, now that it goes on."""
        self._ready.extend(calls)

    def outside(self, delay: float, callback: Callable[..., object], *args: Any) -> Call:
        """Call back later on behalf of the world, whoever asks for it and whatever becomes of them."""
        moment = self.clock.now + delay
        call = Call(callback, args, _OUTSIDE, moment)
        heapq.heappush(self._timers, (moment, next(self._numbers), call))
        return call

    # ---- what asyncio asks of a loop

    def time(self) -> float:
        return self.clock.now

    def call_soon(  # type: ignore[override]  # typeshed knows which arguments belong to which callback
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        call = Call(callback, args, contextvars.copy_context() if context is None else context, self.clock.now)
        self._ready.append(call)
        return cast(asyncio.Handle, call)

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]  # a Call is all that a TimerHandle is used for
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Call:
        call = Call(callback, args, contextvars.copy_context() if context is None else context, when)
        heapq.heappush(self._timers, (when, next(self._numbers), call))
        return call

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Call:
        return self.call_at(self.clock.now + delay, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        future = _Future(loop=self)
        future.number = next(self._numbers)
        return future

    def create_task(
        self,
        coro: Coroutine[Any, Any, Any],  # type: ignore[override]
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[Any]:
        task = _Task.__new__(_Task)
        task.number = next(self._numbers)
        task.__init__(coro, loop=self, name=name, context=context)  # type: ignore[misc]  # which hashes it already
        self.tasks.append(task)
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Threads are quick here: the work is done as soon as the caller waits for it."""
        del executor
        done = self.create_future()

        def work() -> None:
            try:
                result = func(*args)
            except Exception as error:
                done.set_exception(error)
            else:
                if not done.done():
                    done.set_result(result)

        self.call_soon(work)
        return done

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.troubles.append(context)
