"""What all simulators share: routing, the request log, fault switches, and the rule about unknown routes.

A simulator keeps its state in memory and changes it in plain synchronous methods, so every request is one
atomic step. A platform gives `endpoints`, `admit` (who may enter), `finish` (headers on every answer) and
`clear_state`; the frame does the rest. A request that no endpoint knows is answered with 500 and kept in
`unknown_requests`: a test that ends with one there has found a client that says what we do not understand.
"""

from __future__ import annotations

import inspect
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from starlette.datastructures import Headers, QueryParams
from starlette.responses import JSONResponse, Response
from starlette.routing import compile_path

from agentsmith.simulators.clock import Clock
from agentsmith.simulators.faults import REQUEST_KINDS, WEBHOOK_KINDS, Fault, FaultBox
from agentsmith.simulators.git.bare import GitHome
from agentsmith.simulators.git.smart_http import GitAsked, GitVisit
from agentsmith.simulators.journal import Journal, Recorded
from agentsmith.simulators.outbox import Outbox

Operation = TypeVar("Operation", bound=Callable[..., Any])


@dataclass(slots=True)
class Call:
    """One request as a handler sees it. `path` is decoded and stands without the base path."""

    method: str
    path: str
    raw_path: str
    query: QueryParams
    query_string: str
    headers: Headers
    body: bytes
    base_url: str
    """The API root as the client addressed it; links in answers start with it."""
    outside: bool = False
    """Whether the path does not begin with the API root."""
    params: dict[str, Any] = field(default_factory=dict)
    caller: Any = None
    """Whoever `admit` recognised."""
    caller_name: str | None = None
    counted: bool = False
    """Whether the call cost quota; the platform says so."""
    free: bool = False
    """Set where a call must not cost quota."""
    behind: int = 0
    """How many versions ago a read should look: the `stale_read` fault."""
    quirks: dict[str, Fault] = field(default_factory=dict)
    """The platform's own faults that struck this call."""


class Refusal(Exception):
    """A handler's way to answer with something else than success."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status_code)
        self.response = response


class Unsupported(Exception):
    """A handler met something the real service may know but this simulator does not: counts as unknown."""

    def __init__(self, what: str, response: Response | None = None) -> None:
        super().__init__(what)
        self.response = response


Handler = Callable[[Call], Response]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One route: method, path in Starlette's notation, and who answers."""

    method: str
    path: str
    handler: Handler
    outside: bool = False
    """Whether the path stands beside the API root, not under it."""


def operation(method: Operation) -> Operation:
    """Mark a method as something a person can do; `POST /_control/act/{name}` calls it too."""
    method.__is_operation__ = True  # type: ignore[attr-defined]
    return method


class Simulator(ABC):
    """A platform in memory. Not thread-safe: call it from the loop that serves it."""

    name: ClassVar[str]
    quirk_kinds: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """The platform's own kinds of faults, with the method and path (regular expressions) they are about."""

    def __init__(self, *, clock: Clock | None = None, api_root: str = "", delivery_timeout: float = 10.0) -> None:
        self.clock = clock or Clock()
        self.api_root = api_root
        self.url = "http://simulator.invalid"
        """Where it is served; `serve` sets it, and webhook payloads carry it."""
        self.faults = FaultBox(REQUEST_KINDS | WEBHOOK_KINDS | set(self.quirk_kinds), self.quirk_kinds)
        self.outbox = Outbox(self.clock, self.faults, timeout=delivery_timeout)
        self.git = GitHome()
        self.requests = Journal()
        self.unknown_requests: list[Recorded] = []
        self.crashes: list[str] = []
        """Tracebacks of handlers that failed: always a mistake of the simulator."""

    @cached_property
    def _routes(self) -> list[tuple[Endpoint, Any]]:
        return [(endpoint, compile_path(endpoint.path)) for endpoint in self.endpoints()]

    @abstractmethod
    def endpoints(self) -> Sequence[Endpoint]:
        """Every route of the platform; the first that matches wins."""

    @abstractmethod
    def admit(self, call: Call) -> Response | None:
        """Check credential, headers and limits, and set `call.caller`; an answer here ends the call."""

    @abstractmethod
    def finish(self, call: Call, response: Response) -> Response:
        """Add what every answer carries, e.g. ETag and limit headers; also decides `call.counted`."""

    @abstractmethod
    def clear_state(self) -> None:
        """Go back to an empty platform."""

    def git_door(self, call: Call, asked: GitAsked) -> GitVisit | Response:  # noqa: ARG002 - for platforms with code
        """Let a git client in, or refuse it; sets `call.caller_name`. Platforms without code know no such place."""
        return Response("Not Found", 404, media_type="text/plain")

    def canonical_path(self, path: str) -> str:
        """The path under which an alias is routed and logged."""
        return path

    @property
    def api_url(self) -> str:
        """What a client is configured with."""
        return self.url + self.api_root

    def inject(self, fault: Fault) -> Fault:
        """Arm a fault; keep the result to `release()` it or to look at `struck`."""
        return self.faults.inject(fault)

    def remove_fault(self, name: str) -> bool:
        """Disarm one fault."""
        return self.faults.remove(name)

    def clear_faults(self) -> None:
        """Disarm all faults."""
        self.faults.clear()

    def release_webhooks(self) -> None:
        """Let late and swapped webhooks leave."""
        self.outbox.release()

    def counted_requests(self) -> list[Recorded]:
        """The requests that cost quota."""
        return [r for r in self.requests if r.counted]

    def forget_requests(self) -> None:
        """Empty the request log; unknown requests stay known."""
        self.requests.clear()

    def reset(self) -> None:
        """Everything back to the beginning, clock and faults included; the address stays."""
        self.faults.clear()
        self.outbox.reset()
        self.requests.clear()
        self.unknown_requests.clear()
        self.crashes.clear()
        self.clock.reset()
        self.clear_state()
        self.git.clear()

    def assert_understood(self) -> None:
        """Fail if any request was unknown or any handler crashed; for the end of a test."""
        problems = [f"unknown request: {r.method} {r.raw_path}?{r.query}" for r in self.unknown_requests]
        if problems or self.crashes:
            raise AssertionError("\n".join([*problems, *self.crashes]))

    def operations(self) -> dict[str, Callable[..., Any]]:
        """What people can do here, by name."""
        members = inspect.getmembers(self, callable)
        return {name: member for name, member in members if hasattr(member, "__is_operation__")}

    def match(self, call: Call) -> Handler | None:
        """Find the handler for a call and fill in `call.params`."""
        for endpoint, (pattern, _, convertors) in self._routes:
            if (endpoint.method, endpoint.outside) != (call.method, call.outside):
                continue
            if found := pattern.match(call.path):
                call.params = {k: convertors[k].convert(v) for k, v in found.groupdict().items()}
                return endpoint.handler
        return None

    def answer(self, call: Call, handler: Handler, entry: Recorded) -> Response:
        """Run one call through admission, its handler and the finish; never raises."""
        try:
            response = self.admit(call) or handler(call)
        except Refusal as refusal:
            response = refusal.response
        except Unsupported as unsupported:
            unknown = self.unknown(entry, str(unsupported))
            response = unsupported.response or unknown
        except Exception:
            self.crashes.append(traceback.format_exc())
            return JSONResponse({"message": "the simulator failed", "trace": self.crashes[-1]}, status_code=500)
        return self.finish(call, response)

    def unknown(self, entry: Recorded, why: str) -> Response:
        """Answer for what nobody understands, and remember it."""
        self.unknown_requests.append(entry)
        return JSONResponse({"message": f"the simulator does not know this: {why}"}, status_code=500)


def table(*groups: Iterable[tuple[str, str, Handler]]) -> list[Endpoint]:
    """Endpoints from groups of (method, path, handler)."""
    return [Endpoint(*row) for group in groups for row in group]
