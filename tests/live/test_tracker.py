"""tests/conformance/test_tracker.py on real accounts."""

from __future__ import annotations

from tests.conformance.test_tracker import *  # noqa: F403 - the very same tests
