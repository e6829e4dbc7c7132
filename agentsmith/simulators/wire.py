"""Between the socket and a simulator: read the request, let faults strike, write or break off the answer."""

from __future__ import annotations

import asyncio
import contextlib
from typing import cast

import httpx
from starlette.applications import Starlette
from starlette.datastructures import Headers, QueryParams
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from agentsmith.simulators.control import control_plane
from agentsmith.simulators.faults import REQUEST_KINDS, Fault
from agentsmith.simulators.frame import Call, Simulator
from agentsmith.simulators.git.smart_http import GitAsked, talk
from agentsmith.simulators.journal import Recorded, public_body, public_headers

PROXY_PAGE = "<!DOCTYPE html>\n<html><head><title>Oops</title></head><body><p>Try again.</p></body></html>"


def application(simulator: Simulator) -> Starlette:
    """The ASGI application: the control plane and the platform. Works under `httpx.ASGITransport` too."""
    return Starlette(routes=[*control_plane(simulator), Mount("", app=Gate(simulator))])


class Line:
    """One client's connection for the length of one request."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope, self._receive, self._send = scope, receive, send
        self._whole = False

    async def read(self) -> bytes:
        """The whole request body."""
        body = b""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return body
            body += bytes(message.get("body", b""))
            if not message.get("more_body"):
                return body

    async def part(self) -> bytes | None:
        """The next part of the request body: b"" at its end, None when the client has hung up."""
        while not self._whole:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return None
            self._whole = not message.get("more_body")
            if body := bytes(message.get("body", b"")):
                return body
        return b""

    async def write(self, response: Response) -> None:
        """Send an answer as it is."""
        await response(self.scope, self._receive, self._send)

    async def write_part(self, response: Response) -> None:
        """Send the head and half of the body, promising all of it."""
        body = bytes(response.body)
        start = {
            "type": "http.response.start",
            "status": response.status_code,
            "headers": response.raw_headers,
        }
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True})

    async def write_huge(self, response: Response, size: int) -> None:
        """Send about `size` bytes of valid JSON in pieces, without telling how many will come."""
        chunk = b"x" * 65_536
        headers = [(b"content-type", b"application/json; charset=utf-8")]
        await self.start(response.status_code, headers)
        await self.piece(b'{"message":"')
        for _ in range(max(1, size // len(chunk))):
            await self.piece(chunk)
        await self.piece(b'"}', more=False)

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send the head of an answer whose body comes in pieces."""
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def piece(self, body: bytes, *, more: bool = True) -> None:
        """Send a piece of the body."""
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def drop(self) -> None:
        """Break the connection off without (more of) an answer."""
        transport = self.scope.get("state", {}).get("transport")
        if transport is None:
            # Under ASGITransport there is no socket to close; the client sees the same class of error.
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        if not transport.is_closing():
            cast(asyncio.Transport, transport).abort()
        await self.gone()

    async def gone(self) -> None:
        """Return when the client has hung up."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def hold(self, fault: Fault) -> None:
        """Wait as long as a `slow` fault says, but not for a client that has left."""
        if self.scope.get("state", {}).get("transport") is None:
            await fault.hold()
            return
        waits = [asyncio.ensure_future(fault.hold()), asyncio.ensure_future(self.gone())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*waits, return_exceptions=True)


class Gate:
    """The platform's side of the ASGI application."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, faults permitting."""
        line = Line(scope, receive, send)
        simulator = self.simulator
        asked = GitAsked.of(scope["method"], scope["path"], QueryParams(scope["query_string"]))
        # A pack may be large: it is handed on as it comes.
        call = _call(simulator, scope, b"" if asked else await line.read())
        entry = _entry(simulator, call)
        if asked is not None:
            await self._git(line, call, asked, entry)
            return
        handler = simulator.match(call)
        if handler is None:
            await self._reply(line, entry, simulator.unknown(entry, f"{call.method} {call.raw_path}"))
            return
        faults = simulator.faults.for_request(call.method, call.path)
        entry.faults = [f.kind for f in faults]
        by_kind = {f.kind: f for f in faults}
        call.quirks = {kind: fault for kind, fault in by_kind.items() if kind not in REQUEST_KINDS}
        if (stale := by_kind.get("stale_read")) and call.method in ("GET", "HEAD"):
            call.behind = stale.behind
        slow = by_kind.get("slow")
        if slow and not slow.after:
            await line.hold(slow)
        if "refuse" in by_kind:
            await line.drop()
            return
        response = _instead(by_kind)
        if response is None:
            meanwhile = by_kind.get("meanwhile")
            if meanwhile and meanwhile.action and not meanwhile.after:
                meanwhile.action()
            response = simulator.answer(call, handler, entry)
            entry.caller, entry.counted = call.caller_name, call.counted
            if meanwhile and meanwhile.action and meanwhile.after:
                meanwhile.action()
        if slow and slow.after:
            await line.hold(slow)
        await self._send_off(line, entry, response, by_kind)

    async def _git(self, line: Line, call: Call, asked: GitAsked, entry: Recorded) -> None:
        """Answer one request of a git client, faults permitting."""
        faults = self.simulator.faults.for_request(call.method, call.path)
        entry.faults = [f.kind for f in faults]
        by_kind = {f.kind: f for f in faults}
        call.quirks = {kind: fault for kind, fault in by_kind.items() if kind not in REQUEST_KINDS}
        if slow := by_kind.get("slow"):
            await line.hold(slow)
        if "refuse" in by_kind:
            await line.drop()
            return
        visit = _instead(by_kind) or self.simulator.git_door(call, asked)
        entry.caller = call.caller_name
        if isinstance(visit, Response):
            await line.read()
            await self._reply(line, entry, visit)
            return
        if meanwhile := by_kind.get("meanwhile"):
            assert meanwhile.action is not None  # noqa: S101 - such a fault has one
            meanwhile.action()
        lost, broken = "applied_then_lost" in by_kind, "reset_mid_body" in by_kind

        async def start(status: int, headers: list[tuple[bytes, bytes]]) -> None:
            entry.status, entry.answer_headers = status, {k.decode(): v.decode() for k, v in headers}
            if not lost:
                await line.start(status, headers)

        async def send(chunk: bytes) -> None:
            if not lost:
                await line.piece(chunk[: len(chunk) // 2] if broken else chunk)

        await talk(
            visit, asked, query=call.query_string, headers=call.headers, receive=line.part, start=start, send=send
        )
        if lost or broken:
            entry.status = None
            await line.drop()
        else:
            await line.piece(b"", more=False)

    async def _send_off(self, line: Line, entry: Recorded, response: Response, faults: dict[str, Fault]) -> None:
        if response.status_code == 204 and faults.keys() & _IN_THE_BODY:
            response = JSONResponse({})
        if "applied_then_lost" in faults:
            await line.drop()
        elif "reset_mid_body" in faults:
            await line.write_part(response)
            await line.drop()
        elif huge := faults.get("huge"):
            entry.status = response.status_code
            await line.write_huge(response, huge.size)
        else:
            await self._reply(line, entry, _spoilt(response, faults))

    @staticmethod
    async def _reply(line: Line, entry: Recorded, response: Response) -> None:
        entry.status = response.status_code
        entry.answer_headers = dict(response.headers)
        entry.answer_body = public_body(bytes(response.body))
        await line.write(response)


_IN_THE_BODY = frozenset({"reset_mid_body", "malformed_json", "invalid_utf8", "huge"})


def _call(simulator: Simulator, scope: Scope, body: bytes) -> Call:
    headers = Headers(scope=scope)
    path, root = scope["path"], simulator.api_root
    outside = bool(root) and not path.startswith(f"{root}/")
    query = scope["query_string"].decode("latin-1")
    origin = f"{scope['scheme']}://{headers.get('host', 'simulator.invalid')}"
    return Call(
        method=scope["method"],
        path=path if outside else simulator.canonical_path(path[len(root) :]),
        raw_path=scope.get("raw_path", path.encode()).decode("latin-1"),
        query=QueryParams(query),
        query_string=query,
        headers=headers,
        body=body,
        base_url=origin + root,
        outside=outside,
    )


def _entry(simulator: Simulator, call: Call) -> Recorded:
    entry = Recorded(
        method=call.method,
        path=call.path,
        raw_path=call.raw_path,
        query=call.query_string,
        headers=public_headers(call.headers),
        raw_body=public_body(call.body),
        at=simulator.clock.now(),
    )
    simulator.requests.append(entry)
    return entry


def _instead(faults: dict[str, Fault]) -> Response | None:
    """The answer that comes in place of the platform's own."""
    if html := faults.get("html_instead_of_json"):
        return HTMLResponse(PROXY_PAGE, status_code=html.status or 200, headers=html.headers)
    if fault := faults.get("status"):
        status = fault.status or 503
        if isinstance(fault.body, str):
            return Response(fault.body, status, fault.headers, media_type="text/plain")
        body = {"message": "Server Error"} if fault.body is None else fault.body
        return JSONResponse(body, status, fault.headers)
    return None


def _spoilt(response: Response, faults: dict[str, Fault]) -> Response:
    """The platform's answer with its body broken."""
    body = bytes(response.body)
    if "malformed_json" in faults:
        body = body[: len(body) // 2] or b"{"
    elif "invalid_utf8" in faults:
        body = body.replace(b'":"', b'":"\xff\xfe\xc3\x28', 1) if b'":"' in body else b'"\xff\xfe"'
    else:
        return response
    headers = {k: v for k, v in response.headers.items() if k != "content-length"}
    return Response(body, response.status_code, headers)
