"""Jira Cloud and Jira Data Center behind the tracker contract."""

from __future__ import annotations
