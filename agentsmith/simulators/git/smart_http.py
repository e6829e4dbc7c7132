"""Serving git over smart HTTP: `git http-backend` does the talking, we stream between it and the client.

Who may read or push is the platform's to say (`Simulator.git_door`). The frame's faults strike here too: `refuse`,
`status`, `slow`, `applied_then_lost` (a push that stands, but whose answer is lost) and `reset_mid_body`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers

from agentsmith.simulators.git.bare import BareRepository, git_environment

Piece = Callable[[bytes], Awaitable[None]]
Head = Callable[[int, list[tuple[bytes, bytes]]], Awaitable[None]]

_PLACE: Final = re.compile(r"(/.+?)/(info/refs|git-upload-pack|git-receive-pack)")
_CHUNK: Final = 65_536
_PASSED_ON: Final = {
    "content-type": "CONTENT_TYPE",
    "content-encoding": "HTTP_CONTENT_ENCODING",
    "git-protocol": "GIT_PROTOCOL",
}


@dataclass(frozen=True, slots=True)
class GitAsked:
    """What a git client wants: a place on the server, and to read from it or to push to it."""

    place: str
    """The path before git's own part, decoded: `/acme/web.git`."""
    action: str
    push: bool

    @classmethod
    def of(cls, method: str, path: str, query: Mapping[str, str]) -> GitAsked | None:
        """The wish behind a request; None for one that does not come from git."""
        found = _PLACE.fullmatch(path)
        if found is None:
            return None
        place, action = found.groups()
        if action == "info/refs":
            service = query.get("service")
            known = method == "GET" and service in ("git-upload-pack", "git-receive-pack")
            return cls(place, action, service == "git-receive-pack") if known else None
        return cls(place, action, action == "git-receive-pack") if method == "POST" else None


@dataclass(frozen=True, slots=True)
class GitVisit:
    """A client that was let in, and what to do once it has pushed."""

    repository: BareRepository
    caller: str | None
    pushed: Callable[[], None]


async def talk(
    visit: GitVisit,
    asked: GitAsked,
    *,
    query: str,
    headers: Headers,
    receive: Callable[[], Awaitable[bytes | None]],
    start: Head,
    send: Piece,
) -> int:
    """Let git answer one request, streaming both ways; answers the status.

    `receive` gives the next part of the request's body, b"" at its end and None when the client has hung up.
    """
    environment = git_environment(visit.repository.path.parent) | {
        "GIT_PROJECT_ROOT": str(visit.repository.path.parent),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": f"/{visit.repository.path.name}/{asked.action}",
        "REQUEST_METHOD": "GET" if asked.action == "info/refs" else "POST",
        "QUERY_STRING": query,
        "REMOTE_ADDR": "127.0.0.1",
        # git serves pushes to whoever the web server says has logged in.
        "REMOTE_USER": visit.caller or "",
    }
    environment |= {name: headers[header] for header, name in _PASSED_ON.items() if header in headers}
    process = await asyncio.create_subprocess_exec(
        "git",
        "http-backend",
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    feeding = asyncio.create_task(_feed(process, receive))
    try:
        status, answer_headers = await _head(process)
        await start(status, answer_headers)
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        while chunk := await process.stdout.read(_CHUNK):
            await send(chunk)
        await process.wait()
    finally:
        feeding.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await feeding
        if process.returncode is None:
            process.kill()
            await process.wait()
    if asked.action == "git-receive-pack":
        visit.pushed()
    return status


async def _feed(process: asyncio.subprocess.Process, receive: Callable[[], Awaitable[bytes | None]]) -> None:
    assert process.stdin is not None  # noqa: S101 - a pipe was asked for
    with contextlib.suppress(ConnectionError):
        while chunk := await receive():
            process.stdin.write(chunk)
            await process.stdin.drain()
        if chunk is None:
            process.kill()  # half a push must not be taken for a whole one
        process.stdin.close()


async def _head(process: asyncio.subprocess.Process) -> tuple[int, list[tuple[bytes, bytes]]]:
    """The status and the headers that the backend writes before its answer."""
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    status, headers = 200, []
    while line := (await process.stdout.readline()).strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"status":
            status = int(value.split()[0])
        else:
            headers.append((name.lower(), value.strip()))
    return (status, headers) if headers else (500, [(b"content-type", b"text/plain")])
