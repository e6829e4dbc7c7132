"""agentsmith: label a ticket, work happens, and the ticket's label tells you how it went."""

from __future__ import annotations

__version__ = "0.1.0"
