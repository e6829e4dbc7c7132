"""An example of a step of one's own: tell a chat room, or anything else that takes JSON, how a run stands.

steps:
  - run: make test
  - notify: ${CHAT_HOOK}
    if: failure
    with: {text: "{{ ticket.key }} failed: {{ ticket.url }}"}
"""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import ClassVar

from agentsmith.config import StepKind, StepSettings
from agentsmith.pipelines.context import StepContext
from agentsmith.pipelines.outcome import StepEnd, Verdict, done, failed
from agentsmith.pipelines.templates import BadTemplate, render
from agentsmith.pipelines.words import values


class NotifySettings(StepSettings):
    """What `notify` may be told. Unknown keys and wrong values are found when the configuration is read."""

    short: ClassVar[str | None] = "url"
    url: str
    text: str = "{{ ticket.key }}: {{ steps | join(', ') }}"


async def notify(context: StepContext, settings: NotifySettings) -> StepEnd:
    """Post the text; a room that cannot be reached is a reason to try again later, not to fail."""
    try:
        text = render(settings.text, values(context))
    except BadTemplate as error:
        return StepEnd(Verdict.BAD_CONFIGURATION, f"The template of the text cannot be used: {error}")
    body = json.dumps({"text": text, "run": context.request.run}).encode()
    request = urllib.request.Request(settings.url, body, {"Content-Type": "application/json"})  # noqa: S310
    await context.permit.begin_write()  # whatever leaves the machine asks first whether this run still may
    try:
        await asyncio.to_thread(lambda: urllib.request.urlopen(request, timeout=min(30, context.left)).close())  # noqa: S310
    except urllib.error.HTTPError as error:
        return failed(f"The room answered {error.code}.")
    except OSError as error:
        return StepEnd(Verdict.TRY_LATER, f"The room cannot be reached: {error}")
    return done("The room was told.")


STEP = StepKind(NotifySettings, notify)
