"""The raw limit of the receiver: Starlette on uvicorn that reads JSON and pushes it onto a Redis list, and no more.

It verifies nothing and does not notice what it sees twice. Run as `python -m agentsmith.bench.bare REDIS_URL`, it
prints its port and serves until it is ended.
"""

from __future__ import annotations

import asyncio
import sys

import uvicorn
from redis.asyncio import Redis
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentsmith.web.server import listen


async def _serve(url: str) -> None:
    redis = Redis.from_url(url)

    async def receive(request: Request) -> Response:
        data = await request.json()
        await redis.rpush("raw-deliveries", str(data["issue"]["number"]))
        return JSONResponse({"answer": "taken"}, status_code=202)

    app = Starlette(routes=[Route("/webhooks/{tracker}", receive, methods=["POST"])])
    listener = listen("127.0.0.1", 0)
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off")
    await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
