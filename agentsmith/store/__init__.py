"""Redis: the only package that speaks to it. It knows nothing of trackers."""

from __future__ import annotations

from agentsmith.store.connection import AWAY, Outage
from agentsmith.store.dead_letters import DeadLetter
from agentsmith.store.intents import Begun, Intents
from agentsmith.store.keys import Key
from agentsmith.store.leases import LeaderLease, Lease, Trust
from agentsmith.store.presence import Cycle, Leader, Presence, Process
from agentsmith.store.queue import Queue
from agentsmith.store.refusals import Refusal
from agentsmith.store.run_lease import Acquired, NotAcquired, RunLease, Settled
from agentsmith.store.runs import Runs
from agentsmith.store.scripts.presence import TAKEN_OVER
from agentsmith.store.scripts.queue import Pushed
from agentsmith.store.scripts.seen_commands import Seen
from agentsmith.store.signals import Signals
from agentsmith.store.store import LeaseTimes, Store

__all__ = [
    "AWAY",
    "TAKEN_OVER",
    "Acquired",
    "Begun",
    "Cycle",
    "DeadLetter",
    "Intents",
    "Key",
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
    "Seen",
    "Settled",
    "Signals",
    "Store",
    "Trust",
]
