"""Making requests: a new piece of work under a name that no other has, on the text as it is now."""

from __future__ import annotations

import secrets
import time
import uuid

from agentsmith.domain.request import PinnedText, PipelineRequest
from agentsmith.domain.ticket import Ticket


def new_run_id() -> str:
    """A name for a run that no other run has; it stands in logs, comments and folder names."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:8]}"


def new_request(ticket: Ticket, pipeline: str, *, run: str, fence: int, attempt: int, wake: str) -> PipelineRequest:
    """The request that runs `pipeline` on the ticket's text as it is now."""
    return PipelineRequest(
        ticket=ticket.id,
        tracker=ticket.tracker,
        key=ticket.key,
        pipeline=pipeline,
        run=run,
        fence=fence,
        attempt=attempt,
        delivery=0,
        pinned=PinnedText.of(ticket.title, ticket.body),
        enqueued_at=time.time(),
        wake_reason=wake or None,
        # W3C Trace Context, so that a worker's spans can be told to belong to this claim.
        trace=f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01",
    )
