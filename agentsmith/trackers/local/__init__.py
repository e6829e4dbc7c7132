"""The built-in tracker: tickets in a SQLite file."""

from __future__ import annotations
