"""A plain git server: code, but no tickets and no pull requests."""

from __future__ import annotations
