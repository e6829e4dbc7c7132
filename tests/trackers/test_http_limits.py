"""Limits: who waits, who is told to come back, and how refusals differ from limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import respx

from agentsmith.domain.errors import RateLimited, Refused, StoreUnavailable
from agentsmith.trackers.http import LocalGovernor, Shared, spending_for
from tests.support.http_rig import BASE, EPOCH, Clock, Login, Rig

PATH = "/repos/acme/web/issues"
URL = f"{BASE}{PATH}"
SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
OK = httpx.Response(200, json={})


def quota(remaining: int, *, reset: float = EPOCH + 900, resource: str = "core") -> dict[str, str]:
    """The headers of every answer."""
    return {
        "X-RateLimit-Limit": "5000",
        "X-RateLimit-Remaining": str(remaining),
        "X-RateLimit-Reset": str(int(reset)),
        "X-RateLimit-Resource": resource,
    }


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig(call=5000.0)
    yield rig
    await rig.aclose()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize("status", [403, 429])
@pytest.mark.parametrize("message", [SECONDARY, "slow down"])
@respx.mock
async def test_retry_after_is_waited_for_and_the_request_sent_again(rig: Rig, status: int, message: str) -> None:
    limited = httpx.Response(status, json={"message": message}, headers={"Retry-After": "17"})
    route = respx.post(URL)
    route.side_effect = [limited, OK]
    assert (await rig.client.write("POST", PATH, {})).status == 200
    assert rig.clock.slept == [17.0]
    assert route.call_count == 2


@respx.mock
async def test_retry_after_may_be_a_date(rig: Rig) -> None:
    headers = {"Retry-After": "Fri, 01 Jan 2100 00:00:00 GMT"}
    respx.get(URL).respond(429, json={}, headers=headers)
    with pytest.raises(RateLimited) as caught:
        await rig.client.get(PATH)
    assert caught.value.retry_at is not None
    assert rig.clock.slept == [3600.0]  # the longest that anybody is believed; then it is asked again
    assert caught.value.retry_at == pytest.approx(EPOCH + 7200)


@respx.mock
async def test_a_secondary_limit_without_a_time_doubles_from_a_minute(rig: Rig) -> None:
    limited = httpx.Response(403, json={"message": SECONDARY})
    respx.get(URL).side_effect = [limited, limited, limited, OK]
    await rig.client.get(PATH)
    assert rig.clock.slept == [60.0, 120.0, 240.0]


@respx.mock
async def test_a_limit_that_does_not_end_is_reported_with_the_time(rig: Rig) -> None:
    route = respx.get(URL).respond(429, json={})
    with pytest.raises(RateLimited) as caught:
        await rig.client.get(PATH)
    assert route.call_count == 4
    assert caught.value.retry_at == rig.clock.wall() + 480


@respx.mock
async def test_the_hourly_limit_holds_everybody_back_until_its_reset(rig: Rig) -> None:
    used_up = httpx.Response(403, json={"message": "API rate limit exceeded for user ID 1."}, headers=quota(0))
    respx.get(URL).side_effect = [used_up, OK]
    await rig.client.get(PATH)
    assert rig.clock.slept[0] == pytest.approx(900, abs=1)


@respx.mock
async def test_the_last_allowed_request_already_holds_the_next_one_back(rig: Rig) -> None:
    route = respx.get(URL).respond(200, json={}, headers=quota(0))
    await rig.client.get(PATH)
    with pytest.raises(RateLimited, match="quota of 5000 requests is used up") as caught:
        await rig.client.get(PATH, deadline=rig.clock.now() + 30)
    assert route.call_count == 1
    assert caught.value.retry_at == EPOCH + 900
    assert rig.clock.slept == []


@respx.mock
async def test_quotas_of_different_resources_do_not_touch_each_other(rig: Rig) -> None:
    respx.post(URL).respond(200, json={}, headers=quota(0, resource="graphql"))
    respx.get(URL).respond(200, json={}, headers=quota(4000))
    await rig.client.write("POST", PATH, {}, bucket="graphql")
    await rig.client.get(PATH)
    with pytest.raises(RateLimited):
        await rig.client.write("POST", PATH, {}, bucket="graphql", deadline=1.0)
    assert {q.bucket: q.remaining for q in rig.governor.quotas()["tester"]} == {"graphql": 0, "core": 4000}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, "Resource not accessible by integration"),
        (403, "Must have admin rights to Repository."),
        (403, "Repository was archived so is read-only."),
    ],
)
@pytest.mark.parametrize("left", [4999, 0])
@respx.mock
async def test_a_refusal_is_no_limit(rig: Rig, status: int, message: str, left: int) -> None:
    respx.post(URL).respond(status, json={"message": message}, headers=quota(left))
    with pytest.raises(Refused):
        await rig.client.write("POST", PATH, {})
    assert rig.clock.slept == []


@respx.mock
async def test_whoever_cannot_wait_is_told_at_once_and_nothing_is_sent(rig: Rig) -> None:
    route = respx.post(URL).respond(429, json={}, headers={"Retry-After": "30"})
    with pytest.raises(RateLimited) as caught:
        await rig.client.write("POST", PATH, {}, deadline=20.0)
    assert caught.value.retry_at == EPOCH + 30
    with pytest.raises(RateLimited, match="was not sent"):
        await rig.client.get(PATH, deadline=20.0)
    assert route.call_count == 1
    assert rig.clock.slept == []


@respx.mock
async def test_a_success_may_ask_for_a_pause_too(rig: Rig) -> None:
    respx.get(URL).side_effect = [httpx.Response(200, json={}, headers={"Retry-After": "9"}), OK]
    await rig.client.get(PATH)
    assert rig.clock.slept == []
    await rig.client.get(PATH)
    assert rig.clock.slept == [9.0]


@respx.mock
async def test_writes_are_spaced_and_reads_are_not() -> None:
    rig = Rig(spacing=1.0)
    respx.route(url=URL).respond(200, json={})
    for _ in range(3):
        await rig.client.write("POST", PATH, {})
        await rig.client.get(PATH)
    assert rig.clock.slept == [1.0, 1.0]
    rig.clock.at += 5
    await rig.client.write("POST", PATH, {})
    assert rig.clock.slept == [1.0, 1.0]
    await rig.aclose()


@respx.mock
async def test_replicas_that_share_a_governor_share_slots_and_pauses() -> None:
    one = Rig(spacing=1.0)
    two = Rig(spacing=1.0, shared=one.shared)
    two.clock.at = 0
    respx.route(url=URL).respond(200, json={})
    await one.client.write("POST", PATH, {})
    with pytest.raises(RateLimited, match="writes are kept 1 s apart"):
        await two.client.write("POST", PATH, {}, deadline=0.5)
    stranger = Rig(spacing=1.0, shared=one.shared, login=Login(name="other"))
    await stranger.client.write("POST", PATH, {}, deadline=0.5)
    for rig in (one, two, stranger):
        await rig.aclose()


@respx.mock
async def test_a_pause_that_begins_while_waiting_is_noticed() -> None:
    rig = Rig(spacing=1.0, call=50.0)
    respx.route(url=URL).respond(200, json={})
    await rig.client.write("POST", PATH, {})
    await rig.governor.pause("tester", "core", seconds=4.0, reason="told")
    rig.clock.slept.clear()
    await rig.client.write("POST", PATH, {})
    assert sum(rig.clock.slept) == 4.0
    await rig.aclose()


# --- the governor itself ----------------------------------------------------------------------------------------


async def test_slots_are_given_out_in_a_row_and_only_to_those_who_wait(clock: Clock) -> None:
    governor = LocalGovernor(clock.wall)
    waits = [(await governor.reserve("a", "core", spacing=1.0, patience=60))[0] for _ in range(4)]
    assert waits == [0, 1, 2, 3]
    assert (await governor.reserve("a", "core", spacing=1.0, patience=3.5))[0] == 4
    assert (await governor.reserve("a", "core", spacing=1.0, patience=60))[0] == 4
    assert (await governor.reserve("a", "core", spacing=0.0, patience=0))[0] == 0


async def test_many_at_once_never_share_a_slot(clock: Clock) -> None:
    governor = LocalGovernor(clock.wall)
    holds = await asyncio.gather(*(governor.reserve("a", "core", spacing=0.5, patience=1e9) for _ in range(50)))
    assert sorted(hold[0] for hold in holds) == [n * 0.5 for n in range(50)]


async def test_answers_that_overtake_each_other_do_not_raise_the_quota(clock: Clock) -> None:
    governor = LocalGovernor(clock.wall)
    for remaining, reset in ((10, 900), (12, 900), (5000, 100)):
        await governor.report("a", "core", limit=5000, remaining=remaining, reset=EPOCH + reset)
    assert governor.quotas()["a"][0].remaining == 10
    await governor.report("a", "core", limit=5000, remaining=40, reset=EPOCH + 901)
    assert governor.quotas()["a"][0].remaining == 10
    await governor.report("a", "core", limit=5000, remaining=0, reset=EPOCH + 300)
    assert (await governor.reserve("a", "core", spacing=0, patience=0))[0] == 300
    await governor.report("a", "core", limit=5000, remaining=4999, reset=EPOCH + 4500)
    assert governor.quotas()["a"][0].remaining == 4999


async def test_a_burst_that_hits_one_limit_together_is_one_strike(clock: Clock) -> None:
    governor = LocalGovernor(clock.wall)
    for _ in range(5):
        await governor.pause("a", "*", seconds=None, reason="secondary")
    first = await governor.reserve("a", "core", spacing=0, patience=0)
    assert first[0] <= 120
    clock.at += 200
    await governor.pause("a", "*", seconds=None, reason="secondary")
    assert (await governor.reserve("a", "core", spacing=0, patience=0))[0] == 120
    clock.at += 5000
    await governor.pause("a", "*", seconds=None, reason="secondary")
    assert (await governor.reserve("a", "graphql", spacing=0, patience=0))[0] == 60


async def test_a_shorter_pause_does_not_end_a_longer_one(clock: Clock) -> None:
    governor = LocalGovernor(clock.wall)
    await governor.pause("a", "core", seconds=50, reason="long")
    await governor.pause("a", "core", seconds=5, reason="short")
    assert await governor.reserve("a", "core", spacing=0, patience=0) == (50, EPOCH + 50, "long")
    assert (await governor.reserve("a", "other", spacing=0, patience=0))[0] == 0


# --- who spent what ---------------------------------------------------------------------------------------------


@respx.mock
async def test_requests_are_booked_by_purpose_and_unchanged_ones_are_free(rig: Rig) -> None:
    respx.get(URL).side_effect = [
        httpx.Response(200, json=[], headers={"ETag": '"1"'}),
        httpx.Response(304),
        httpx.ReadError("broken"),
        httpx.Response(304),
    ]
    respx.post(URL).mock(return_value=OK)
    with spending_for("poll"):
        await rig.client.get(PATH)
        await asyncio.create_task(rig.client.get(PATH))
        with spending_for("claim"):
            await rig.client.write("POST", PATH, {})
    await rig.client.get(PATH)
    booked = {(s.purpose, s.counted, s.free) for s in rig.ledger.spent()}
    assert booked == {("poll", 1, 1), ("claim", 1, 0), ("other", 1, 1)}
    assert {s.credential for s in rig.ledger.spent()} == {"tester"}


class Away:
    """A store that is gone: as governor, as cache and as ledger."""

    def __init__(self, governor: LocalGovernor) -> None:
        self.reserve = governor.reserve

    async def _gone(self, *_: Any, **__: Any) -> None:
        raise StoreUnavailable("gone")

    report = pause = load = save = record = _gone


@respx.mock
async def test_what_a_request_did_is_not_lost_over_its_bookkeeping(rig: Rig) -> None:
    away = Away(rig.governor)
    lone = Rig(shared=Shared(away, away, away))
    respx.route(url=URL).respond(200, json={"done": True}, headers={**quota(5), "ETag": '"1"', "Retry-After": "3"})
    assert (await lone.client.write("POST", PATH, {})).data == {"done": True}
    assert (await lone.client.get(PATH)).data == {"done": True}
    await lone.aclose()


@respx.mock
async def test_nothing_is_sent_when_nobody_can_say_whether_it_may_go(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def gone(*_: object, **__: object) -> None:
        raise StoreUnavailable("gone")

    route = respx.post(URL).respond(200, json={})
    monkeypatch.setattr(rig.governor, "reserve", gone)
    with pytest.raises(StoreUnavailable):
        await rig.client.write("POST", PATH, {})
    assert not route.called


def test_one_process_needs_nothing_given() -> None:
    assert Shared().governor is not Shared().governor
