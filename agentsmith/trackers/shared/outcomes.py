"""From failures to outcomes of a move: the same on every platform, because the errors are."""

from __future__ import annotations

import time
from typing import Final

from agentsmith.domain.errors import (
    NotPermitted,
    RateLimited,
    Refused,
    TicketNotFound,
    TrackerError,
    Unauthorized,
)
from agentsmith.domain.tracker import Forbidden, Gone, Limited, MoveOutcome, Unknown

_UNNAMED_WAIT: Final = 60.0
"""Seconds to stay away where a limit named no time."""


class IgnoredWrite(NotPermitted):
    """The platform answered with success and did not do it: the credential may not write labels."""


def outcome_of(error: TrackerError) -> MoveOutcome:
    """What a failure means for a move; whatever is not certain is Unknown."""
    text = str(error)
    match error:
        case TicketNotFound():
            return Gone(text)
        case RateLimited():
            return Limited(error.retry_at or time.time() + _UNNAMED_WAIT, text)
        case NotPermitted() | Unauthorized():
            return Forbidden(text, lacking=True, signed_in=isinstance(error, NotPermitted))
        case Refused():
            return Forbidden(text)
    return Unknown(text)
