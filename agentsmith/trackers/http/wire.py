"""One attempt on the wire: send, follow redirects, read within bounds. Knows no retries and no limits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import httpx

from agentsmith import __version__
from agentsmith.domain.errors import BadAnswer
from agentsmith.redaction import excerpt
from agentsmith.trackers.http.calls import Broken, Call, Pace
from agentsmith.trackers.http.dialect import Dialect
from agentsmith.trackers.http.ledger import Ledger, current_purpose
from agentsmith.trackers.http.replies import REDIRECTS, Reply, read_reply
from agentsmith.trackers.http.shared import if_possible

_MOST_REDIRECTS: Final = 5
_OURS: Final = {"User-Agent": f"agentsmith/{__version__}"}
_NEVER_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_ON_OUR_HOST: Final = frozenset({"authorization", "cookie", "private-token", "if-none-match"})
"""Headers that no other host may see."""


class Wire:
    """Carries calls to one platform and books each request under the credential's name."""

    def __init__(self, http: httpx.AsyncClient, dialect: Dialect, ledger: Ledger, pace: Pace) -> None:
        self._http = http
        self._dialect = dialect
        self._ledger = ledger
        self._pace = pace

    async def exchange(self, call: Call, auth: Mapping[str, str], credential: str) -> Reply:
        """Send once; Broken when no whole answer came, BadAnswer for an impossible one.

        Reads follow redirects. A write does not: it may be led to something that is not ours to change any more, so
        whoever sent it has to look first.
        """
        url, headers = call.url, {**_OURS, **self._dialect.headers, **auth}
        if call.content is not None:
            headers["Content-Type"] = call.content_type
        if call.etag is not None:
            headers["If-None-Match"] = call.etag
        for _ in range(_MOST_REDIRECTS + 1):
            reply = await self._once(call, url, headers, credential)
            if reply.status not in REDIRECTS or call.write or self._signed_out(reply):
                return reply
            target = self._target(call, reply, url)
            if _origin(target) != _origin(url):
                headers = {k: v for k, v in headers.items() if k.lower() not in _ON_OUR_HOST}
            url = target
        raise BadAnswer(f"{call.summary}: more than {_MOST_REDIRECTS} redirects")

    async def _once(self, call: Call, url: httpx.URL, headers: Mapping[str, str], credential: str) -> Reply:
        seconds = min(self._pace.attempt, call.finish - self._pace.now())
        if seconds <= 0:
            raise Broken(f"{call.summary} was not sent: its deadline has passed", sent=False)
        status: int | None = None
        sent = True
        try:
            request = self._http.build_request(call.method, url, headers=dict(headers), content=call.content)
            # httpx times each read; only this bounds the whole, so that no write outlives its deadline (T11).
            async with asyncio.timeout(seconds):
                response = await self._http.send(request, stream=True)
                status = response.status_code
                try:
                    return await read_reply(response, most=self._pace.largest_body)
                finally:
                    with suppress(httpx.HTTPError):
                        await response.aclose()
        except _NEVER_SENT as error:
            sent = False
            raise Broken(f"{call.summary}: cannot connect ({_name(error)})", sent=False) from None
        except (TimeoutError, httpx.TimeoutException):
            raise Broken(f"{call.summary}: no answer within {seconds:.3g} s", sent=True) from None
        except httpx.DecodingError:
            raise BadAnswer(f"{call.summary}: the answer cannot be decompressed") from None
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise Broken(f"{call.summary}: the connection broke ({_name(error)})", sent=True) from None
        except BadAnswer as error:
            raise BadAnswer(f"{call.summary}: {error}") from None
        finally:
            if sent:
                await if_possible(self._ledger.record(credential, current_purpose(), counted=status != 304))

    def _signed_out(self, reply: Reply) -> bool:
        """Whether a redirect leads to a sign-in page, which is no place to look for the answer."""
        return self._dialect.signed_out(reply.status, reply.headers, reply.body)

    def _target(self, call: Call, reply: Reply, url: httpx.URL) -> httpx.URL:
        """Where the redirect leads, if we may go there: our own host, or one that the platform is known to use."""
        location = reply.headers.get("location", "")
        try:
            target = url.join(location)
        except (httpx.InvalidURL, ValueError):
            location = ""
            target = url
        if not location or not target.host:
            raise BadAnswer(f"{call.summary}: a redirect ({reply.status}) to nowhere")
        known = target.host in self._dialect.hosts and target.scheme == "https"
        if _origin(target) != _origin(url) and not known:
            raise BadAnswer(f"{call.summary}: refusing a redirect to {excerpt(target.host)}")
        return target


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _name(error: Exception) -> str:
    return type(error).__name__
