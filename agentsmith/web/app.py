"""The HTTP app: webhooks in, health out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from agentsmith.web.receiver import Receiver

Ready = Callable[[], Awaitable[str | None]]
"""None when everything that is needed answers, else what does not."""


def make_app(receiver: Receiver, *, ready: Ready) -> Starlette:
    """The app. `/healthz` says that the loop turns, `/readyz` that the daemon can do its work."""

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        missing = await ready()
        if missing is None:
            return PlainTextResponse("ready\n")
        return PlainTextResponse(f"not ready: {missing}\n", status_code=503)

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/webhooks/{tracker}", receiver.receive, methods=["POST"]),
            # Jira Data Center signs nothing: there a secret stands in the path.
            Route("/webhooks/{tracker}/{secret}", receiver.receive, methods=["POST"]),
        ]
    )
