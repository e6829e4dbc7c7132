"""What can go wrong on the wire to any platform: the fault, the error it must become, and the outcome of a move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentsmith.domain.errors import BadAnswer, RateLimited, Refused, TrackerError, TrackerUnavailable, Unauthorized
from agentsmith.domain.tracker import Forbidden, Limited, Unknown

FAULTS: Mapping[str, tuple[Mapping[str, Any], type[TrackerError], type]] = {
    "500": ({"kind": "status", "status": 500}, TrackerUnavailable, Unknown),
    "502 html": ({"kind": "html_instead_of_json", "status": 502}, TrackerUnavailable, Unknown),
    "200 html": ({"kind": "html_instead_of_json", "status": 200}, BadAnswer, Unknown),
    "403 html": ({"kind": "html_instead_of_json", "status": 403}, Refused, Forbidden),
    "404 html": ({"kind": "html_instead_of_json", "status": 404}, BadAnswer, Unknown),
    "refused": ({"kind": "refuse"}, TrackerUnavailable, Unknown),
    "cut off": ({"kind": "reset_mid_body"}, TrackerUnavailable, Unknown),
    "lost": ({"kind": "applied_then_lost"}, TrackerUnavailable, Unknown),
    "half": ({"kind": "malformed_json"}, BadAnswer, Unknown),
    "not utf-8": ({"kind": "invalid_utf8"}, BadAnswer, Unknown),
    "huge": ({"kind": "huge", "size": 3_000_000}, BadAnswer, Unknown),
    "another shape": ({"kind": "status", "status": 200, "body": {"message": "surprise"}}, BadAnswer, Unknown),
    "a number": ({"kind": "status", "status": 200, "body": 42}, BadAnswer, Unknown),
    "expired": ({"kind": "bad_credentials"}, Unauthorized, Forbidden),
}
OUTCOMES: Mapping[type[TrackerError], type] = {
    TrackerUnavailable: Unknown,
    BadAnswer: Unknown,
    Refused: Forbidden,
    Unauthorized: Forbidden,
    RateLimited: Limited,
}
