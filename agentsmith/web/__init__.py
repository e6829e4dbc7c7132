"""The HTTP face of the daemon."""

from __future__ import annotations
