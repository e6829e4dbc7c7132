"""Trackers: where tickets live. One folder per platform; none of them knows Redis."""

from __future__ import annotations
