"""ApiClient: waits its turn, authenticates, retries where that is safe, keeps the deadline, and types every failure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import httpx
import structlog

from agentsmith.config.lacking import demand
from agentsmith.domain.errors import (
    BadAnswer,
    RateLimited,
    StoreUnavailable,
    TicketNotFound,
    TrackerError,
    TrackerUnavailable,
    Unauthorized,
)
from agentsmith.domain.pacing import EVERYWHERE, LONGEST_BACKOFF
from agentsmith.redaction import excerpt
from agentsmith.trackers.http.calls import Broken, Call, Pace
from agentsmith.trackers.http.credentials import Credential
from agentsmith.trackers.http.dialect import Dialect, Limit, asked_wait, http_date, retry_after
from agentsmith.trackers.http.etags import Cached
from agentsmith.trackers.http.governor import Hold
from agentsmith.trackers.http.paging import NextPage, Page, link_header
from agentsmith.trackers.http.replies import Answer, OutcomeUnknown, Reply, error_for, is_json, parsed
from agentsmith.trackers.http.shared import Shared, if_possible
from agentsmith.trackers.http.wire import Wire

log = structlog.get_logger()

_MOST_PAGES: Final = 1000
_NONE: Final[frozenset[int]] = frozenset()


class ApiClient:
    """Speaks JSON over HTTP to one API root with one credential. Raises the errors of `domain.errors` only."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        *,
        base_url: str,
        dialect: Dialect,
        credential: Credential,
        shared: Shared,
        write_spacing: float = 0.0,
        pace: Pace | None = None,
    ) -> None:
        self._root = base_url.rstrip("/")
        self._dialect = dialect
        self._credential = credential
        self._shared = shared
        self._spacing = write_spacing
        self._pace = pace or Pace()
        self._warned = False
        self._wire = Wire(http, dialect, shared.ledger, self._pace)

    async def get(
        self,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        etag: str | None = None,
        deadline: float | None = None,
        allow: frozenset[int] = _NONE,
        missing: type[TrackerError] = TicketNotFound,
    ) -> Answer:
        """Read, always asking the platform: a 304 gives the cached body and costs no quota.

        Only what the dialect lists as `reusable` is ever cached. `etag` is what the caller itself holds: if it still
        stands while the cache has forgotten the body, `data` is None and `unchanged` is true. Statuses in `allow` are
        answers; 404 and 410 otherwise raise `missing`.
        """
        url = self._url(path, params)
        shorten = self._dialect.reusable(url.path)
        loaded = await if_possible(self._shared.etags.load(self._credential.name, str(url))) if shorten else None
        cached = Cached(*loaded) if loaded else None
        call = replace(self._call("GET", url, deadline), etag=cached.etag if cached else etag)
        reply = await self._send(call, allow=allow, missing=missing)
        if reply.status == 304:
            body, link = (cached.body, cached.link) if cached else (b"", "")
            link = reply.headers.get("link", link)
            data = self._parsed(call, Reply(200, {"content-type": "application/json"}, body, reply.url))
            moved = reply.url != str(url)
            return Answer(200, reply.headers, data, reply.url, call.etag, link, unchanged=True, redirected=moved)
        answer = self._answer(call, reply, missing)
        if answer.status == 200 and answer.etag and shorten:
            short = shorten(answer.data)
            name, kept = self._credential.name, json.dumps(short).encode()
            saving = self._shared.etags.save(name, str(url), etag=answer.etag, body=kept, link=answer.link)
            answer = replace(answer, data=short)
            await if_possible(saving)
        return answer

    async def write(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        content_type: str = "application/json",
        deadline: float | None = None,
        repeatable: bool = False,
        bucket: str = "core",
        allow: frozenset[int] = _NONE,
        missing: type[TrackerError] = TicketNotFound,
    ) -> Answer:
        """Send one write, never with a conditional header; what may have been applied raises OutcomeUnknown.

        Only a write declared `repeatable` is sent again after that. One that certainly never left, or that a rate
        limit turned away, is sent again in any case, within the deadline.
        """
        content = None if body is None else json.dumps(body).encode()
        url = self._url(path, None)
        call = replace(
            self._call(method, url, deadline),
            content=content,
            repeatable=repeatable,
            bucket=bucket,
            content_type=content_type,
        )
        return self._answer(call, await self._send(call, allow=allow, missing=missing), missing)

    async def pages(
        self,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        next_page: NextPage = link_header,
        deadline: float | None = None,
        allow: frozenset[int] = _NONE,
        missing: type[TrackerError] = TicketNotFound,
    ) -> AsyncIterator[Answer]:
        """Every page of a list, each revalidated by its ETag; ends after the last page, or with an error."""
        page: Page | None = Page(path, params or {})
        seen: set[str] = set()
        while page is not None:
            url = str(self._url(page.url, page.params))
            if url in seen or len(seen) >= _MOST_PAGES:
                raise BadAnswer(f"{self._dialect.name}: the pages of {excerpt(path)} do not end")
            seen.add(url)
            answer = await self.get(page.url, params=page.params, deadline=deadline, allow=allow, missing=missing)
            yield answer
            page = next_page(page, answer)

    # --- one call, until there is an answer or an error -------------------------------------------------------

    async def _send(self, call: Call, *, allow: frozenset[int], missing: type[TrackerError]) -> Reply:
        failures, limited, renewed = 0, 0, False
        while True:
            await self._turn(call)
            auth = await self._auth(call)
            try:
                reply = await self._wire.exchange(call, auth, self._credential.name)
            except Broken as broken:
                failures += 1
                unknown = broken.sent and call.write
                text = f"{broken}; it may have been carried out" if unknown else str(broken)
                error: TrackerError = OutcomeUnknown(text) if unknown else TrackerUnavailable(text)
                again = call.repeatable or not broken.sent
                await self._back_off(call, error, failures, again=again)
                continue
            message = self._message(reply)
            limit = self._dialect.limit(reply.status, reply.headers, message)
            await if_possible(self._note(call, reply, limit))
            if limit is not None:
                limited += 1
                if limited >= self._pace.tries:
                    hold = await self._hold(call, spacing=0.0, patience=0.0)
                    raise RateLimited(f"{call.summary}: {limit.reason}", retry_at=hold.until)
                continue
            signed_out = self._dialect.signed_out(reply.status, reply.headers, reply.body)
            if (reply.status == 401 or signed_out) and not renewed:
                renewed = True
                if await self._credential.renew(auth, server_time=http_date(reply.headers)):
                    continue
            if signed_out:
                raise Unauthorized(
                    f"{call.summary} was answered with a sign-in page ({reply.status}): the token is wrong"
                )
            if 200 <= reply.status < 300 or reply.status in allow or (call.etag and reply.status == 304):
                return reply
            error = error_for(reply, call.summary, message=message, missing=missing, write=call.write)
            if not isinstance(error, TrackerUnavailable):
                raise error
            failures += 1
            asked = retry_after(reply.headers)
            await self._back_off(call, error, failures, again=call.repeatable, asked=asked)

    async def _turn(self, call: Call) -> None:
        """Wait until the governor lets the request go; raises at once when that would be too late."""
        spacing = self._spacing if call.write else 0.0
        while True:
            patience = call.finish - self._pace.now()
            if patience <= 0:
                raise TrackerUnavailable(f"{call.summary} was not sent: its deadline has passed")
            hold = await self._hold(call, spacing=spacing, patience=patience)
            if hold.seconds <= 0:
                return
            if hold.seconds >= patience:
                raise RateLimited(f"{call.summary} was not sent: {hold.reason}", retry_at=hold.until)
            await self._pace.sleep(hold.seconds)
            spacing = 0.0  # the slot is ours; only a pause that began meanwhile can still hold us back

    async def _hold(self, call: Call, *, spacing: float, patience: float) -> Hold:
        name = self._credential.name
        try:
            async with asyncio.timeout(max(patience, 1.0)):
                held = await self._shared.governor.reserve(name, call.bucket, spacing=spacing, patience=patience)
                return Hold(*held)
        except TimeoutError:
            raise StoreUnavailable(f"{call.summary} was not sent: nobody said whether it may go") from None

    async def _auth(self, call: Call) -> Mapping[str, str]:
        for secret in self._credential.secrets():
            demand(secret)
        try:
            async with asyncio.timeout(max(0.0, call.finish - self._pace.now())):
                return await self._credential.headers()
        except TimeoutError:
            raise TrackerUnavailable(f"{call.summary} was not sent: no token in time") from None

    async def _back_off(
        self, call: Call, error: TrackerError, failures: int, *, again: bool, asked: float | None = None
    ) -> None:
        """Wait before another try, or raise `error` where none is left, allowed, or possible in time."""
        delay = self._pace.delay(failures) if asked is None else asked
        if not again or failures >= self._pace.tries or self._pace.now() + delay >= call.finish:
            raise error from None
        await self._pace.sleep(delay)

    async def _note(self, call: Call, reply: Reply, limit: Limit | None) -> None:
        """Tell the governor what the answer says about the pace that the platform wants."""
        governor, name = self._shared.governor, self._credential.name
        if not self._warned and (asked := asked_wait(reply.headers) or 0.0) > LONGEST_BACKOFF:
            self._warned = True
            log.warning(
                "asked to stay away for very long; asking again sooner",
                platform=self._dialect.name,
                asked_seconds=asked,
                waiting_seconds=LONGEST_BACKOFF,
            )
        quota = self._dialect.quota(reply.headers)
        if quota is not None:
            bucket, limit_, remaining, reset = quota
            reset = min(reset, (http_date(reply.headers) or reset) + LONGEST_BACKOFF)
            await governor.report(name, bucket, limit=limit_, remaining=remaining, reset=reset)
        if limit is not None:
            bucket = EVERYWHERE if limit.everywhere else call.bucket
            await governor.pause(name, bucket, seconds=limit.seconds, reason=limit.reason)
        elif reply.status < 400 and (wait := retry_after(reply.headers)):
            reason = f"{self._dialect.name} asked for a pause of {wait:g} s"
            await governor.pause(name, call.bucket, seconds=wait, reason=reason)

    # --- texts and URLs ---------------------------------------------------------------------------------------

    def _call(self, method: str, url: httpx.URL, deadline: float | None) -> Call:
        finish = self._pace.now() + self._pace.call if deadline is None else deadline
        summary = f"{self._dialect.name}: {method} {excerpt(url.path)}"
        return Call(method, url, finish, summary)

    def _url(self, path: str, params: Mapping[str, str] | None) -> httpx.URL:
        """An address under the API root; one that a page's answer names must be on the same host."""
        root = httpx.URL(self._root)
        try:
            url = httpx.URL(path if "://" in path else self._root + path)
        except httpx.InvalidURL:
            raise BadAnswer(f"{self._dialect.name}: not a URL: {excerpt(path)}") from None
        if (url.scheme, url.host, url.port) != (root.scheme, root.host, root.port):
            raise BadAnswer(f"{self._dialect.name}: refusing to follow a link to {excerpt(url.host)}")
        return url.copy_merge_params(params) if params else url

    def _answer(self, call: Call, reply: Reply, missing: type[TrackerError]) -> Answer:
        if reply.status >= 400 and not is_json(reply):
            # Allowed are the platform's own words only; a page with such a status is somebody else's.
            raise error_for(reply, call.summary, message=self._message(reply), missing=missing, write=call.write)
        etag, link = reply.headers.get("etag"), reply.headers.get("link", "")
        data, moved = self._parsed(call, reply), reply.url != str(call.url)
        return Answer(reply.status, reply.headers, data, reply.url, etag, link, redirected=moved)

    def _parsed(self, call: Call, reply: Reply) -> Any:
        try:
            return parsed(reply, self._credential.secrets())
        except BadAnswer as error:
            raise BadAnswer(f"{call.summary}: {error}") from None

    def _message(self, reply: Reply) -> str:
        """The platform's own words in an error, redacted and cut; the body's beginning where it has none."""
        if reply.status < 300:
            return ""
        secrets = self._credential.secrets()
        try:
            message = self._dialect.message(parsed(reply, secrets))
        except BadAnswer:
            message = reply.body.decode("utf-8", "replace")
        return excerpt(message, secrets)
