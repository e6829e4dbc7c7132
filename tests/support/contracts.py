"""A judge from outside: the platforms' published API descriptions, held against every request and answer.

The descriptions lie beside the repository and are no part of it. `ContractJudge("github")` skips the test, loudly,
where they are absent. A description does not know everything: redirects, 304 and errors that it does not list are let
through, successes are not, and what has no described path is counted in `undescribed`.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx
import pytest
from openapi_core import Config, OpenAPI
from openapi_core.datatypes import RequestParameters
from openapi_core.exceptions import OpenAPIError
from werkzeug.datastructures import Headers, ImmutableMultiDict

from agentsmith.simulators import Recorded

CONTRACTS = Path(__file__).resolve().parents[2] / ".." / "shared" / "contracts"
DOCUMENTS = {
    "github": ("github", "github-unmet"),
    "gitlab": ("gitlab",),
    "azure-devops": ("azure-wit", "azure-git", "azure-hooks", "azure-build", "azure-policy"),
    "jira": ("jira",),
}


def present() -> bool:
    """Whether there is anything to judge by."""
    return CONTRACTS.is_dir()


class ContractBroken(AssertionError):
    """A request or an answer is not what the platform published."""


@dataclass(slots=True)
class Exchange:
    """A request and its answer, wherever they were seen. `path` is percent-encoded, without the API root."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    status: int
    answer_headers: dict[str, str]
    answer_body: bytes


@dataclass(slots=True)
class _Request:
    """What openapi-core wants to know about a request."""

    method: str
    path: str
    body: bytes | None
    content_type: str
    parameters: RequestParameters
    host_url: str = "http://judge.example"


@dataclass(slots=True)
class _Response:
    """What openapi-core wants to know about an answer."""

    status_code: int
    data: bytes
    content_type: str
    headers: dict[str, str]


@dataclass(slots=True)
class _Operation:
    """One described method of one described path."""

    document: OpenAPI
    path: str
    pattern: re.Pattern[str]
    method: str
    statuses: frozenset[str]
    query: frozenset[str]
    literals: int


@dataclass(slots=True)
class ContractJudge:
    """Checks exchanges of one platform and counts what it judged."""

    platform: str
    api_root: str = ""
    judge_requests: bool = True
    """False where the client is somebody else's."""
    judged: int = 0
    undescribed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        _operations(self.platform)

    def check(self, request: httpx.Request, response: httpx.Response) -> bool:
        """Judge what an httpx client sent and got; False where the description says nothing about it."""
        parts = urlsplit(str(request.url))
        return self.check_exchange(
            Exchange(
                request.method,
                parts.path.removeprefix(self.api_root),
                parts.query,
                dict(request.headers),
                request.content,
                response.status_code,
                dict(response.headers),
                response.content,
            )
        )

    def check_recorded(self, entry: Recorded) -> bool:
        """Judge what a simulator logged; what was broken on purpose is not judged."""
        if entry.status is None or entry.faults:
            return False
        sent = entry.raw_path.removeprefix(self.api_root)
        # An alias is described under its canonical name only.
        path = sent if unquote(sent) == entry.path else entry.path
        return self.check_exchange(
            Exchange(
                entry.method,
                path,
                entry.query,
                entry.headers,
                entry.raw_body,
                entry.status,
                entry.answer_headers,
                entry.answer_body,
            )
        )

    def check_exchange(self, exchange: Exchange) -> bool:
        """Judge one exchange; ContractBroken names the offence, without any header's value."""
        operation = _find(self.platform, exchange)
        if operation is None:
            self.undescribed.append(f"{exchange.method} {exchange.path}")
            return False
        self.judged += 1
        where = f"{exchange.method} {exchange.path} -> {exchange.status}"
        # Whoever is told that a request was wrong may have sent a wrong one on purpose.
        if self.judge_requests and exchange.status not in (400, 422):
            self._check_request(operation, exchange, where)
        if str(exchange.status) in operation.statuses:
            self._check_response(operation, exchange, where)
        elif exchange.status < 300:
            raise ContractBroken(f"{where}: the description knows no such status for it")
        return True

    @staticmethod
    def _check_request(operation: _Operation, exchange: Exchange, where: str) -> None:
        names = {name for name, _ in parse_qsl(exchange.query, keep_blank_values=True)}
        if unknown := names - operation.query:
            raise ContractBroken(f"{where}: undescribed query parameters {sorted(unknown)}")
        try:
            operation.document.validate_request(_request(exchange))
        except OpenAPIError as error:
            raise ContractBroken(f"{where}: request: {_reason(error)}; body {exchange.body[:500]!r}") from error

    @staticmethod
    def _check_response(operation: _Operation, exchange: Exchange, where: str) -> None:
        content_type = exchange.answer_headers.get("content-type", "")
        response = _Response(exchange.status, exchange.answer_body, content_type, exchange.answer_headers)
        try:
            operation.document.validate_response(_request(exchange), response)
        except OpenAPIError as error:
            body = exchange.answer_body[:500]
            raise ContractBroken(f"{where}: answer: {_reason(error)}; body {body!r}") from error


def _request(exchange: Exchange) -> _Request:
    parameters = RequestParameters(
        query=ImmutableMultiDict(parse_qsl(exchange.query, keep_blank_values=True)),
        header=Headers(exchange.headers),
    )
    content_type = exchange.headers.get("content-type", "application/json").lower()
    return _Request(exchange.method.lower(), exchange.path, exchange.body or None, content_type, parameters)


def _reason(error: BaseException) -> str:
    """What is wrong and where; openapi-core hides that under the whole value."""
    offences = []
    current: BaseException | None = error
    while current is not None:
        for inner in getattr(current, "schema_errors", ()):
            offences.append(f"at {'/'.join(map(str, inner.absolute_path)) or 'top'}: {inner.message[:300]}")
        current = current.__cause__
    return "; ".join(offences) or f"{error} {error.__cause__ or ''}"[:500]


def _with_null(node: Any) -> Any:
    """The description with null added to enums of nullable fields: it forgets that, the service does not."""
    if isinstance(node, dict):
        node = {key: _with_null(value) for key, value in node.items()}
        if node.get("nullable") is True and isinstance(node.get("enum"), list) and None not in node["enum"]:
            node["enum"] = [*node["enum"], None]
        return node
    return [_with_null(item) for item in node] if isinstance(node, list) else node


def described(platform: str, method: str) -> list[str]:
    """The paths that the descriptions know for a method, with their parameters in braces."""
    return sorted({operation.path for operation in _operations(platform) if operation.method == method})


def _find(platform: str, exchange: Exchange) -> _Operation | None:
    found = [
        operation
        for operation in _operations(platform)
        if operation.method == exchange.method.lower() and operation.pattern.fullmatch(exchange.path)
    ]
    return max(found, key=lambda operation: operation.literals, default=None)


@functools.cache
def _operations(platform: str) -> list[_Operation]:
    """All described operations; reading a description takes a while, so it happens once."""
    if not present():
        pytest.skip(f"NOT JUDGED: the published API descriptions are not at {CONTRACTS}")
    found = []
    for name in DOCUMENTS[platform]:
        spec = _with_null(json.loads((CONTRACTS / f"{name}.json").read_text()))
        document = OpenAPI.from_dict(spec, config=_config())
        for path, operations in spec["paths"].items():
            pattern = re.compile(re.sub(r"\\\{[^}]*\\\}", "[^/]+", re.escape(path)))
            shared = operations.get("parameters", [])
            for method, operation in operations.items():
                if method not in ("get", "put", "post", "patch", "delete"):
                    continue
                parameters = [_resolved(spec, p) for p in [*shared, *operation.get("parameters", [])]]
                query = frozenset(p["name"] for p in parameters if p["in"] == "query")
                literals = len(re.sub(r"\{[^}]*\}", "", path))
                statuses = frozenset(operation["responses"])
                found.append(_Operation(document, path, pattern, method, statuses, query, literals))
    return found


def _config() -> Config:
    # Whether the descriptions themselves are well-formed is not ours to check at every start; it takes a second.
    patch: dict[str, Callable[[bytes], Any]] = {"application/json-patch+json": json.loads}
    return Config(spec_validator_cls=None, extra_media_type_deserializers=patch)


def _resolved(spec: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node:
        target: Any = spec
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node
