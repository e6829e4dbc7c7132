"""Azure DevOps (Services and Server): work items as tickets, tags as status. The only place that knows Azure DevOps."""

from __future__ import annotations
