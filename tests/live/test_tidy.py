"""tests/conformance/test_tidy.py on real accounts."""

from __future__ import annotations

from tests.conformance.test_tidy import *  # noqa: F403 - the very same tests
