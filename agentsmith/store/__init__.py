"""Redis: the only package that speaks to it. It knows nothing of trackers.

| Module                       | Question that it answers                                                        |
|------------------------------|---------------------------------------------------------------------------------|
| `keys`                       | Which keys are there, of what type, and how long do they live?                  |
| `scripting`, `scripts/`      | How is an atomic step declared, and which are there?                            |
| `store`, `connection`        | What is open, and how is Redis reached and waited for?                          |
| `redis_commands`             | Which commands do we use outside of scripts?                                    |
| `error_replies`              | What does each error reply mean for us?                                         |
| `queue`, `entries`           | Which requests wait, and who has taken which?                                   |
| `runs`, `run_lease`          | Who runs a ticket, is that run alive, and is it to stop?                        |
| `intents`                    | What was decided and is not published yet, and what is due?                     |
| `signals`                    | Which tickets are to be looked at, now or later?                                |
| `leases`                     | Who holds a ticket's lock, or leads?                                            |
| `presence`                   | Which processes are alive, and may Redis have forgotten something?              |
| `capacity`                   | How many tickets are in hand, and is there room for one more?                   |
| `pins`, `questions`          | Which text was vetted, and what did a worker ask?                               |
| `seen_commands`              | Which commands in comments were carried out?                                    |
| `looks`                      | What did each look at a ticket see?                                             |
| `quota`, `refusals`          | What do platforms allow us, and what do they refuse?                            |
| `dead_letters`               | Which requests could nobody run?                                                |
| `server/`                    | Where is no Redis configured, how is one of our own kept running?               |
"""

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
from agentsmith.store.scripts.intents import DecideAnswer, DecideWord
from agentsmith.store.scripts.queue import Pushed
from agentsmith.store.scripts.seen_commands import Seen
from agentsmith.store.signals import Signals
from agentsmith.store.store import LeaseTimes, Store

__all__ = [
    "AWAY",
    "Acquired",
    "Begun",
    "Cycle",
    "DeadLetter",
    "DecideAnswer",
    "DecideWord",
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
