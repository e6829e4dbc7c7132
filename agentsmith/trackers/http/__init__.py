"""The one HTTP layer under all trackers: auth, pacing, retries, ETags, redirects, redaction, counting.

A platform brings a `Dialect` (what its headers and error bodies mean) and a `Credential`; everything else is here,
once. Whatever must be shared between replicas (`Governor`, `EtagCache`, `Ledger`, `LabelLock`) is a small protocol with
an in-memory implementation beside it; this package knows nothing of Redis.
"""

from __future__ import annotations

from agentsmith.trackers.http.calls import Pace
from agentsmith.trackers.http.client import ApiClient
from agentsmith.trackers.http.credentials import Credential
from agentsmith.trackers.http.dialect import Dialect, Limit
from agentsmith.trackers.http.etags import Cached, EtagCache, LocalEtags
from agentsmith.trackers.http.governor import Governor, Hold, LocalGovernor, Quota
from agentsmith.trackers.http.labellock import LabelLock, LocalLabelLock
from agentsmith.trackers.http.ledger import Ledger, LocalLedger, Spent, spending_for
from agentsmith.trackers.http.paging import NextPage, link_header
from agentsmith.trackers.http.replies import WITHHELD, Answer, OutcomeUnknown, Redirected
from agentsmith.trackers.http.shared import Shared
from agentsmith.trackers.http.transport import open_http

UNTOLD = WITHHELD  # as trackers written for earlier releases import it

__all__ = [
    "UNTOLD",
    "WITHHELD",
    "Answer",
    "ApiClient",
    "Cached",
    "Credential",
    "Dialect",
    "EtagCache",
    "Governor",
    "Hold",
    "LabelLock",
    "Ledger",
    "Limit",
    "LocalEtags",
    "LocalGovernor",
    "LocalLabelLock",
    "LocalLedger",
    "NextPage",
    "OutcomeUnknown",
    "Pace",
    "Quota",
    "Redirected",
    "Shared",
    "Spent",
    "link_header",
    "open_http",
    "spending_for",
]
