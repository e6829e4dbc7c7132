"""What goes over the wire, field by field: a ticket's whole life on each platform, against a file that people can read.

After a change that is meant: `AGENTSMITH_WRITE_GOLDENS=1 pytest tests/conformance/test_goldens.py`, and read the diff.
The same requests, and the answers to them, are judged by the platform's published description where there is one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

import pytest

from agentsmith.domain.lifecycle import Status
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Applied, DefinesLabels, MoveOutcome, Words
from agentsmith.simulators import Recorded
from tests.conformance.simulated import SimulatedPlatform
from tests.conformance.steps import DONE, FAILED, FINISH, MEMO, START, TRIGGER, edge, found, soon

pytestmark = pytest.mark.needs("simulated")

Platform = SimulatedPlatform[Any]
FOLDER: Final = Path(__file__).parent / "goldens"
HEADERS: Final = (
    "accept",
    "authorization",
    "content-type",
    "if-none-match",
    "private-token",
    "x-github-api-version",
    "x-tfs-fedauthredirect",
)
TEXT: Final = "is waiting & <b>\n/close\n{code} `x`"


def _moved(outcome: MoveOutcome) -> Ticket:
    assert isinstance(outcome, Applied), outcome
    return outcome.ticket


async def _life(platform: Platform) -> AsyncIterator[tuple[str, Any]]:
    """Each thing that is asked of a tracker, by name, with what it answered."""
    tracker = platform.another(page_size=100)
    other = await platform.open_ticket("Another")
    key = await platform.open_ticket("Fix the door", "It **squeaks**.", (TRIGGER, "bug"), author="bob")
    await platform.block(key, by=other)
    if isinstance(tracker, DefinesLabels):
        yield "make the labels", await tracker.ensure_labels()
    yield "read it", await tracker.get(key)
    yield "find it", [t.key for t in await found(tracker, TRIGGER)]
    yield "find it by either of two labels", [t.key for t in await found(tracker, "agent-smith", TRIGGER)]
    yield "ask who set the label", await tracker.labelled_by(await tracker.get(key), TRIGGER)
    yield "ask what blocks it", [b.open for b in await tracker.blockers(await tracker.get(key))]
    claim = replace(edge(Status.PENDING, Status.ENQUEUED), say=Words(TEXT, MEMO))
    ticket = _moved(await tracker.move(await tracker.get(key), claim))
    yield "claim it", sorted(ticket.labels)
    sticky = await tracker.write_sticky(ticket, TEXT, MEMO, known=None, deadline=soon())
    yield "comment on it", sticky.text
    ticket = _moved(await tracker.move(await tracker.get(key), edge(*START)))
    yield "start it", sorted(ticket.labels)
    sticky = await tracker.write_sticky(ticket, "is done", MEMO, known=sticky, deadline=soon())
    yield "edit the comment", sticky.text
    ticket = _moved(await tracker.move(ticket, edge(*FINISH)))
    yield "finish it", sorted(ticket.labels)
    stranger = platform.another(page_size=100)
    read = await stranger.read_sticky(await stranger.get(key))
    yield "read the comment as another replica", read and read.text
    await platform.person_adds(key, FAILED)
    ticket = await tracker.tidy(await tracker.get(key), keep=Status.FAILED, deadline=soon())
    yield "tidy two statuses", sorted(ticket.labels)
    assert DONE not in await platform.labels(key)


def _told(request: Recorded) -> dict[str, Any]:
    """A request as the golden file shows it."""
    headers = {name: request.headers[name] for name in HEADERS if name in request.headers}
    if "if-none-match" in headers:
        headers["if-none-match"] = "ETAG"
    told: dict[str, Any] = {"request": f"{request.method} {request.raw_path}"}
    if request.query:
        told["query"] = dict(parse_qsl(request.query, keep_blank_values=True))
    told["headers"] = headers
    if request.body is not None:
        told["body"] = request.body
    return told | {"status": request.status}


def _shown(answer: Any) -> Any:
    """An answer as the golden file shows it."""
    if isinstance(answer, Ticket):
        names = ("id", "key", "title", "body", "url", "open", "author", "pull_request")
        return {name: getattr(answer, name) for name in names} | {"labels": sorted(answer.labels)}
    if hasattr(answer, "actor"):
        return {"actor": answer.actor.name, "bot": answer.actor.bot, "access": answer.access.name}
    return answer


async def test_the_life_of_a_ticket_is_told_as_written(platform: Platform, platform_name: str) -> None:
    platform.recorded()
    life, exchanges = [], []
    async for name, answer in _life(platform):
        requests = platform.recorded()
        exchanges += requests
        life.append({"to": name, "answer": _shown(answer), "requests": [_told(r) for r in requests]})
    text = json.dumps(life, indent=2, ensure_ascii=False) + "\n"
    text = text.replace(platform.simulator.url.partition("://")[2], "HOST")
    text = re.sub(r"\b[0-9a-f]{32}\b", "NONCE", text)
    file = FOLDER / f"{platform_name}.json"
    if os.environ.get("AGENTSMITH_WRITE_GOLDENS"):
        file.write_text(text)
    assert json.loads(text) == json.loads(file.read_text())
    judge = platform.judge()
    if judge is None:
        return
    for exchange in exchanges:
        judge.check_recorded(exchange)
    assert judge.judged >= 10
    assert {path.rpartition("/")[2] for path in judge.undescribed} <= platform.undescribed
