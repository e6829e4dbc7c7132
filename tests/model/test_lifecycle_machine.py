"""P1 to P6 hold over every story that hypothesis can think of."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import Lifecycle
from tests.model.world import Bench


@pytest.mark.long
def test_the_promises_hold(bench: Bench) -> None:
    wished = os.environ.get("AGENTSMITH_MODEL_EXAMPLES")
    run_state_machine_as_test(
        lambda: Lifecycle(bench),  # type: ignore[arg-type]  # any factory serves
        settings=settings(
            max_examples=int(wished or 40),
            stateful_step_count=30,
            derandomize=not wished,
            database=None,
            deadline=None,
        ),
    )
