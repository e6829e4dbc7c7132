"""The demo: real processes on a small stage, a kill in the middle, and a look at what came of it."""

from __future__ import annotations
