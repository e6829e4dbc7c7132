"""Simulators: each platform as an HTTP server in memory, with its quirks and with faults on demand.

Tests and the demo use them. `async with serve(GitHubSimulator()) as running:` serves one on loopback; what
can be done in Python on the object can be done over HTTP under `/_control` too. Nothing here imports the
rest of agentsmith.
"""

from __future__ import annotations

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.faults import Fault
from agentsmith.simulators.frame import Simulator
from agentsmith.simulators.journal import Recorded
from agentsmith.simulators.outbox import Delivery
from agentsmith.simulators.serving import Running, serve

__all__ = ["Clock", "Delivery", "Fault", "Recorded", "Running", "Simulator", "serve"]
