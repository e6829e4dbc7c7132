"""GitHub (github.com and Enterprise Server): issues as tickets, labels as status. The only place that knows GitHub."""

from __future__ import annotations
