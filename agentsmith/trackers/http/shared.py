"""What the replicas of one installation share about a platform's API."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentsmith.trackers.http.etags import EtagCache, LocalEtags
from agentsmith.trackers.http.governor import Governor, LocalGovernor
from agentsmith.trackers.http.ledger import Ledger, LocalLedger


@dataclass(frozen=True, slots=True)
class Shared:
    """Governor, ETag cache and ledger; the defaults serve one process, the store's serve all replicas."""

    governor: Governor = field(default_factory=LocalGovernor)
    etags: EtagCache = field(default_factory=LocalEtags)
    ledger: Ledger = field(default_factory=LocalLedger)
