"""Workspaces and git: checkouts that a worker may do anything to, and branches that lose no work.

Knows neither store nor trackers; a `Forge` names the repository and hands out its credential.
"""

from __future__ import annotations

from agentsmith.pipelines.git.checkout import Author, BeginWrite, Bounds, Checkout
from agentsmith.pipelines.git.errors import GitError
from agentsmith.pipelines.git.opening import OtherName, open_checkout
from agentsmith.pipelines.git.outcomes import (
    BaseMerge,
    Conflicted,
    Diverged,
    Finding,
    Merged,
    Pushed,
    PushOutcome,
    SecretsFound,
    UpToDate,
)
from agentsmith.pipelines.git.pruning import Pruned, prune
from agentsmith.pipelines.git.repository import remove
from agentsmith.pipelines.git.shell import Ended, GitShell, GuardShell

__all__ = [
    "Author",
    "BaseMerge",
    "BeginWrite",
    "Bounds",
    "Checkout",
    "Conflicted",
    "Diverged",
    "Ended",
    "Finding",
    "GitError",
    "GitShell",
    "GuardShell",
    "Merged",
    "OtherName",
    "Pruned",
    "PushOutcome",
    "Pushed",
    "SecretsFound",
    "UpToDate",
    "open_checkout",
    "prune",
    "remove",
]
