"""The HTTP app: health for whoever runs us. The receiver of webhooks is refused until a tracker can verify them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

Ready = Callable[[], Awaitable[str | None]]
"""None when everything that is needed answers, else what does not."""


def make_app(*, trackers: Collection[str], ready: Ready) -> Starlette:
    """The app. `/healthz` says that the loop turns, `/readyz` that the daemon can do its work."""

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        missing = await ready()
        if missing is None:
            return PlainTextResponse("ready\n")
        return PlainTextResponse(f"not ready: {missing}\n", status_code=503)

    async def webhook(request: Request) -> Response:
        name = request.path_params["tracker"]
        if name not in trackers:
            return JSONResponse({"error": f"there is no tracker {name!r}"}, status_code=404)
        # Fails closed: none of today's trackers can verify a delivery, and polling finds the ticket anyway.
        return JSONResponse({"error": "this tracker is polled and takes no webhooks"}, status_code=401)

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/webhooks/{tracker}", webhook, methods=["POST"]),
        ]
    )
