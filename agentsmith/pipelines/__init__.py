"""Running a ticket's commands, and making sure that they end."""

from __future__ import annotations
