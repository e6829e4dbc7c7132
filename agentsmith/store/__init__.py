"""Redis: the only package that speaks to it. It knows nothing of trackers."""

from __future__ import annotations
