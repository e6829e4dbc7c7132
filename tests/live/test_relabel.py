"""tests/conformance/test_relabel.py on real accounts."""

from __future__ import annotations

from tests.conformance.test_relabel import *  # noqa: F403 - the very same tests
