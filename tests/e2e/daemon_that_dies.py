"""The program behind `test_kill_at_steps.py`: forks daemons, and kills one before or after a step of its pipeline.

`Plan.way` is the kind of the step; number 0 is right before it and 1 right after it. Nothing of the run is told in
between: after a step even its own end is not noted yet.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, Final

from agentsmith.guard.client import Guard
from agentsmith.pipelines import engine
from agentsmith.pipelines.context import StepContext
from agentsmith.pipelines.outcome import StepEnd
from agentsmith.pipelines.steps import RunStep, doing
from tests.e2e.faulty_daemon import Nursery, Plan, warm_up

BEFORE: Final = 0
AFTER: Final = 1


def _prepare(order: dict[str, Any]) -> None:
    plan = Plan(**order["plan"])
    _note_guards(Path(plan.folder))
    if plan.way:
        _strike(plan)


def _strike(plan: Plan) -> None:
    attribute = doing.__name__

    def deadly(kind: str) -> RunStep:
        run = doing(kind)

        async def struck(context: StepContext, settings: Any) -> StepEnd:
            if plan.number == BEFORE:
                os.kill(os.getpid(), signal.SIGKILL)
            end = await run(context, settings)
            os.kill(os.getpid(), signal.SIGKILL)
            return end

        return struck if kind == plan.way else run

    setattr(engine, attribute, deadly)


def _note_guards(folder: Path) -> None:
    """So that whoever ends the daemons knows what belongs to them."""
    attribute, made = "__init__", Guard.__init__

    def make(guard: Guard, *args: Any) -> None:
        made(guard, *args)
        with (folder / "guards").open("a") as guards:
            guards.write(f"{guard.pid}\n")

    setattr(Guard, attribute, make)


if __name__ == "__main__":
    warm_up()
    Nursery(_prepare, lend=True).serve()
