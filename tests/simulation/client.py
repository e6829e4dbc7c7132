"""redis-py on a simulated server: its own commands and answers, with a wire of ours in place of a socket."""

from __future__ import annotations

import functools
from typing import Any, Protocol

from redis.asyncio import Redis
from redis.exceptions import RedisError

from agentsmith.store.error_replies import refusal


class Wire(Protocol):
    """Carries commands to a server and brings the answers back."""

    async def ask(self, words: tuple[bytes, ...]) -> Any:
        """Answers what the server replied, or raises what redis-py would raise."""


class SimulatedRedis(Redis):
    """A client as `connect` makes it, on a wire."""

    def __init__(self, wire: Wire) -> None:
        # Not redis-py's own: it prepares connections, and reads files to find out its version, once per client.
        self.connection = None
        self.response_callbacks = _callbacks()
        self._wire = wire

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        words = tuple(map(_encoded, args))
        try:
            answer = _decoded(await self._wire.ask(words))
        except RedisError as error:
            raise refusal(error) or error from None
        options.pop("keys", None)
        options.pop("NEVER_DECODE", None)
        parse = self.response_callbacks.get(args[0])
        return answer if parse is None else parse(answer, **options)

    async def __aenter__(self) -> SimulatedRedis:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """There is nothing to let go of."""


@functools.cache
def _callbacks() -> Any:
    return Redis(decode_responses=True, protocol=2).response_callbacks


def _encoded(part: Any) -> bytes:
    kind = type(part)
    if kind is str:
        return part.encode("utf-8", "surrogateescape")  # type: ignore[no-any-return]
    if kind is bytes:
        return part  # type: ignore[no-any-return]
    return (part if isinstance(part, str) else repr(part)).encode("utf-8", "surrogateescape")


def _decoded(answer: Any) -> Any:
    if isinstance(answer, bytes):
        return answer.decode("utf-8", "surrogateescape")
    if type(answer) is list:
        return [_decoded(part) for part in answer]
    return answer
