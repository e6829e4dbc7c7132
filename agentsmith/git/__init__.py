"""Workspaces and git: checkouts that a worker may do anything to, and branches that lose no work.

Knows neither store nor trackers; a `Forge` names the repository and hands out its credential.
"""

from __future__ import annotations

from agentsmith.git.checkout import Author, BeginWrite, Bounds, Checkout
from agentsmith.git.errors import GitError
from agentsmith.git.opening import CheckoutPlan, OtherName, open_checkout
from agentsmith.git.outcomes import (
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
from agentsmith.git.pruning import Pruned, prune
from agentsmith.git.repository import remove
from agentsmith.git.shell import EndedCommand, GitShell, GuardShell

__all__ = [
    "Author",
    "BaseMerge",
    "BeginWrite",
    "Bounds",
    "Checkout",
    "CheckoutPlan",
    "Conflicted",
    "Diverged",
    "EndedCommand",
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
