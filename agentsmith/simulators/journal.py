"""The request log: what came in, what went out, and whether it cost quota. Credentials never enter it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SECRET_FIELDS = frozenset({"secret", "token", "password", "private_key", "basicAuthPassword"})
SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization", "private-token"})


@dataclass(slots=True)
class Recorded:
    """One exchange. `path` is as routed (decoded, without the base path), `raw_path` as it was sent."""

    method: str
    path: str
    raw_path: str
    query: str
    headers: dict[str, str]
    raw_body: bytes
    """As sent, apart from secret fields, which are masked."""
    at: float
    caller: str | None = None
    status: int | None = None
    """None: the connection was dropped, or the answer is still to come."""
    counted: bool = False
    """Whether it cost primary quota."""
    faults: list[str] = field(default_factory=list)
    """The kinds of the faults that struck it."""
    answer_headers: dict[str, str] = field(default_factory=dict)
    answer_body: bytes = b""

    @property
    def body(self) -> Any:
        """The request's body: parsed where it is JSON, text otherwise, None where there was none."""
        if not self.raw_body:
            return None
        text = self.raw_body.decode("utf-8", "replace")
        try:
            return json.loads(text)
        except ValueError:
            return text

    def to_json(self) -> dict[str, Any]:
        """What the control endpoint lists; the answer's body stays out."""
        return {
            "method": self.method,
            "path": self.path,
            "raw_path": self.raw_path,
            "query": self.query,
            "headers": self.headers,
            "body": self.body,
            "at": self.at,
            "caller": self.caller,
            "status": self.status,
            "counted": self.counted,
            "faults": self.faults,
        }


def public_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers with credentials cut down to their scheme."""
    return {name: _scheme(value) if name in SECRET_HEADERS else value for name, value in headers.items()}


def _scheme(value: str) -> str:
    scheme, space, _ = value.partition(" ")
    return f"{scheme} ***" if space else "***"


def public_body(body: bytes) -> bytes:
    """The body with the values of secret fields masked; untouched where it has none."""
    if not any(name.encode() in body for name in SECRET_FIELDS):
        return body
    try:
        parsed = json.loads(body)
    except ValueError:
        return body
    masked = _masked(parsed)
    return body if masked == parsed else json.dumps(masked).encode()


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: "***" if k in SECRET_FIELDS and isinstance(v, str) else _masked(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_masked(v) for v in value]
    return value


class Journal(list[Recorded]):
    """A list that stays within bounds: the oldest entries go, and older answers lose their bodies."""

    def __init__(self, limit: int = 100_000, bodies: int = 2_000) -> None:
        super().__init__()
        self._limit, self._bodies = limit, bodies

    def append(self, entry: Recorded) -> None:
        """Add an entry and let go of what is too old."""
        super().append(entry)
        if len(self) > self._bodies:
            self[-self._bodies - 1].answer_body = b""
        if len(self) > self._limit:
            del self[0]
