"""Real git inside the simulators: bare repositories on disk, served over smart HTTP."""

from __future__ import annotations

from agentsmith.simulators.git.bare import SEED, BareRepository, Commit, GitHome

__all__ = ["SEED", "BareRepository", "Commit", "GitHome"]
