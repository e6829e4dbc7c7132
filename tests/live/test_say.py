"""tests/conformance/test_say.py on real accounts."""

from __future__ import annotations

from tests.conformance.test_say import *  # noqa: F403 - the very same tests
