"""GitLab (gitlab.com and self-managed): issues as tickets, labels as status. The only place that knows GitLab."""

from __future__ import annotations
