"""Who may read `/api/v1` and `/metrics`: whoever has the token; without a token, this machine and nobody else.

Tickets are named there, and people. So without a token they are answered only while we listen on this machine's own
address, and not to what a proxy passes on: behind one anybody may ask.
"""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

_PASSED_ON: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


@dataclass(frozen=True, slots=True)
class ReadAccess:
    """Decides who may read. `host` is where we listen."""

    host: str
    token: str | None = None

    def refusal(self, request: Request) -> Response | None:
        """None for whoever may read, else what to answer."""
        if self.token is not None:
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            known = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self.token.encode())
            if scheme.casefold() == "bearer" and known:
                return None
            return _refused("send the token of server.api_token: Authorization: Bearer …")
        if is_loopback(self.host) and not _passed_on(request):
            return None
        return _refused("set server.api_token; without it this is for requests from this machine only")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _passed_on(request: Request) -> bool:
    """Whether a proxy, or a page that a browser was lured to, asks on behalf of somebody else."""
    return not is_loopback(request.url.hostname or "") or any(name in request.headers for name in _PASSED_ON)


def _refused(why: str) -> Response:
    return JSONResponse({"answer": why}, status_code=401, headers={"WWW-Authenticate": "Bearer"})
