"""tests/conformance/test_sticky.py on real accounts."""

from __future__ import annotations

from tests.conformance.test_sticky import *  # noqa: F403 - the very same tests
