"""Running a ticket's pipeline, and making sure that what it starts ends.

A step of one's own needs `StepContext` (`context.py`) and `StepEnd` (`outcome.py`) from here, and `StepSettings` and
`StepKind` from `agentsmith.config`; docs/pipelines.md shows one.
"""

from __future__ import annotations
