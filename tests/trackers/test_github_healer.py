"""The healer: deliveries that failed are sent again by GitHub, signed, and not for ever."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest

from agentsmith.domain.errors import Refused
from agentsmith.domain.webhook import Incoming, TicketEvent
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.github.webhook import GitHubWebhooks
from tests.support.receiver import Receiver, receiving
from tests.support.simulated_github import REPOSITORY, SimulatedGitHub, simulated_github
from tests.support.wait import wait_until

SECRET = "shared"


@pytest.fixture
async def github() -> AsyncIterator[SimulatedGitHub]:
    async with simulated_github() as made:
        made.simulator.set_permission(REPOSITORY, "smith-bot", "admin")
        yield made


@pytest.fixture
async def receiver(github: SimulatedGitHub) -> AsyncIterator[Receiver]:
    async with receiving() as made:
        url = made.url.replace("/hook", "/webhooks/web")
        github.simulator.register_webhook(REPOSITORY, url, secret=SECRET, events=["issues", "issue_comment"])
        yield made


async def arrived(receiver: Receiver, count: int) -> None:
    await wait_until(lambda: len(receiver.requests) >= count, what=f"{count} deliveries")


def failures(github: SimulatedGitHub) -> int:
    return sum(1 for d in github.simulator.outbox.log if d.delivered_at and not 200 <= d.status_code < 300)


def _failed(github: SimulatedGitHub, count: int) -> bool:
    return failures(github) >= count


async def test_what_failed_is_sent_again_under_its_name_and_signed(github: SimulatedGitHub, receiver: Receiver) -> None:
    receiver.status = 503
    number = github.issue("bug")
    github.simulator.add_label(REPOSITORY, int(number), "agent-smith", "mona")
    # `opened`, and one delivery for each label
    await wait_until(lambda: failures(github) == 3, what="everything to fail")
    receiver.status = 202
    tracker = github.tracker()
    assert await tracker.redeliver_failed("web", None) == 3
    await arrived(receiver, 6)
    names = [request.headers["x-github-delivery"] for request in receiver.requests]
    assert sorted(names[:3]) == sorted(names[3:])
    reader = GitHubWebhooks(Site(REPOSITORY), (SECRET,))
    for request in receiver.requests[3:]:
        assert isinstance(reader.read(Incoming(request.headers, request.body), now=0), TicketEvent)
    assert await tracker.redeliver_failed("web", None) == 0, "what arrived is not asked for again"


async def test_what_keeps_failing_is_left_to_polling(github: SimulatedGitHub, receiver: Receiver) -> None:
    receiver.status = 401
    github.issue()
    await wait_until(lambda: failures(github) == 1, what="the delivery to fail")
    tracker, asked = github.tracker(), []
    for count in (2, 3, 3, 3):
        asked.append(await tracker.redeliver_failed("web", None))
        await wait_until(partial(_failed, github, count), what="the next to fail")
    assert asked == [1, 1, 0, 0]


async def test_other_hooks_and_other_events_are_not_ours(github: SimulatedGitHub) -> None:
    async with receiving() as other:
        other.status = 500
        github.simulator.register_webhook(REPOSITORY, other.url, secret=SECRET, events=["issues"], ping=True)
        github.issue()
        await wait_until(lambda: failures(github) == 2, what="both to fail")
        assert await github.tracker().redeliver_failed("web", None) == 0
        assert await github.tracker().redeliver_failed("web", "https://agentsmith.example") == 0


async def test_whoever_may_not_see_hooks_is_refused(github: SimulatedGitHub, receiver: Receiver) -> None:
    github.simulator.set_permission(REPOSITORY, "smith-bot", "write")
    with pytest.raises(Refused):
        await github.tracker().redeliver_failed("web", None)
