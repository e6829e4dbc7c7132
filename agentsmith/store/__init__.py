"""Redis: the only package that speaks to it. It knows nothing of trackers."""

from __future__ import annotations

from agentsmith.store.connection import AWAY, Outage
from agentsmith.store.dead_letters import DeadLetter
from agentsmith.store.intents import Begun, Intents
from agentsmith.store.leases import LeaderLease, Lease, Trust
from agentsmith.store.presence import Cycle, Leader, Presence, Process
from agentsmith.store.queue import Pushed, Queue
from agentsmith.store.refusals import Refusal
from agentsmith.store.run_lease import Acquired, NotAcquired, RunLease, Settled
from agentsmith.store.runs import Runs
from agentsmith.store.signals import Signals
from agentsmith.store.store import LeaseTimes, Store

__all__ = [
    "AWAY",
    "Acquired",
    "Begun",
    "Cycle",
    "DeadLetter",
    "Intents",
    "Leader",
    "LeaderLease",
    "Lease",
    "LeaseTimes",
    "NotAcquired",
    "Outage",
    "Presence",
    "Process",
    "Pushed",
    "Queue",
    "Refusal",
    "RunLease",
    "Runs",
    "Settled",
    "Signals",
    "Store",
    "Trust",
]
