"""HTTP: webhooks come in; health, metrics and the API answer."""

from __future__ import annotations
