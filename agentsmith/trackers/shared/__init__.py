"""What several trackers have in common and is not HTTP. No platform is named here, and none is imported."""

from __future__ import annotations
