"""The HTTP app: webhooks in; health, metrics and answers out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from agentsmith import metrics
from agentsmith.domain.errors import ConfigError
from agentsmith.domain.naming import find
from agentsmith.domain.tracker import Tracker
from agentsmith.store import AWAY, Store
from agentsmith.tickets import explain
from agentsmith.web.access import Doorkeeper
from agentsmith.web.receiver import Receiver

Ready = Callable[[], Awaitable[str | None]]
"""None when everything that is needed answers, else what does not."""
_WITHIN: Final = 2.0


@dataclass(frozen=True, slots=True)
class Answers:
    """What is read by programs: why a ticket did or did not run, and how much there is of everything."""

    store: Store
    trackers: Mapping[str, Tracker]
    door: Doorkeeper

    async def why(self, request: Request) -> Response:
        """The same as `agentsmith why --json`; the ticket is named like there."""
        if refusal := self.door.refusal(request):
            return refusal
        try:
            tracker, key = find(request.path_params["ticket"], self.trackers)
        except ConfigError as error:
            return JSONResponse({"answer": str(error)}, status_code=404)
        ticket = tracker.ticket_id(key)
        try:
            async with asyncio.timeout(_WITHIN):
                return JSONResponse(explain.as_data(ticket, await explain.known(self.store, ticket, tracker.name)))
        except (*AWAY, TimeoutError):
            return JSONResponse(explain.as_data(ticket, None), status_code=503)

    async def metrics(self, request: Request) -> Response:
        """For Prometheus."""
        if refusal := self.door.refusal(request):
            return refusal
        try:
            async with asyncio.timeout(_WITHIN):
                depths: dict[str, int] | None = await self.store.depths()
        except (*AWAY, TimeoutError):
            depths = None
        return Response(metrics.exposed(depths), media_type=CONTENT_TYPE_LATEST)


def make_app(receiver: Receiver, *, ready: Ready, answers: Answers | None = None) -> Starlette:
    """The app. `/healthz` says that the loop turns, `/readyz` that the daemon can do its work."""

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        missing = await ready()
        if missing is None:
            return PlainTextResponse("ready\n")
        return PlainTextResponse(f"not ready: {missing}\n", status_code=503)

    routes = [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/webhooks/{tracker}", receiver.receive, methods=["POST"]),
        # Jira Data Center signs nothing: there a secret stands in the path.
        Route("/webhooks/{tracker}/{secret}", receiver.receive, methods=["POST"]),
    ]
    if answers is not None:
        routes += [
            Route("/metrics", answers.metrics),
            Route("/api/v1/tickets/{ticket:path}/why", answers.why),
        ]
    return Starlette(routes=routes)
