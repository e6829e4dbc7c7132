"""tests/conformance/test_moves.py on real accounts."""

from __future__ import annotations

from tests.conformance.test_moves import *  # noqa: F403 - the very same tests
