"""The connections to trackers."""

from __future__ import annotations

import certifi
import httpx
import pytest

from agentsmith.trackers.http import open_http, transport


async def test_whom_we_trust_is_read_once_for_all_pools_and_again_for_another_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, real = [], httpx.create_ssl_context

    def create() -> object:
        made.append(real())
        return made[-1]

    monkeypatch.setattr(httpx, "create_ssl_context", create)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    transport._trusting.cache_clear()
    pools = [open_http(), open_http()]
    assert len(made) == 1
    monkeypatch.setenv("SSL_CERT_FILE", certifi.where())
    pools.append(open_http())
    assert len(made) == 2
    transport._trusting.cache_clear()
    for pool in pools:
        await pool.aclose()
