"""The pure core: statuses, edges, gates, requests and recovery decisions. No clock, no I/O."""

from __future__ import annotations
