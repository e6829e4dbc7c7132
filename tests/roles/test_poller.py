"""The poller: signals what deserves a look, once, and takes no outage for an empty list."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest.mock import ANY

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from agentsmith import metrics
from agentsmith.config import TrackerSettings
from agentsmith.domain.errors import Refused, TrackerUnavailable
from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.signal import Signal
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.domain.tracker import Tracker
from agentsmith.domain.vetting import History
from agentsmith.intake.poller import Calm, Polled, Poller
from agentsmith.store import Acquired, Store
from agentsmith.trackers.local.settings import LocalSettings
from tests.support.stores import Flush, MakeStore, Settled
from tests.support.wait import wait_until
from tests.support.world import TRIGGER, World, open_world


@pytest.fixture
async def world(tmp_path: Path, store: Store, redis_url: str) -> AsyncIterator[World]:
    async with open_world(tmp_path, store, redis_url) as world:
        yield world


def poller(world: World, every: float = 60.0) -> Poller:
    return Poller(world.store, world.trackers, world.parts.triggers, dict.fromkeys(world.trackers, every))


async def signalled(world: World) -> list[str]:
    inbox = await world.store.redis.lrange(world.store.keys.inbox, 0, -1)
    return [Signal.from_json(payload).key for payload in inbox]


async def test_only_pending_tickets_with_a_trigger_are_signalled(world: World) -> None:
    wanted = await world.open_ticket()
    await world.open_ticket("agent-smith:done")
    await world.desk.new(title="no trigger", labels=("bug",), actor="mona")
    closed = await world.open_ticket()
    await world.desk.close(closed, actor="mona")
    assert await poller(world).poll(world.trackers["local"]) == Polled(found=2, signalled=1)
    assert await signalled(world) == [wanted]


async def test_a_ticket_that_waits_in_the_inbox_is_not_signalled_again(world: World) -> None:
    await world.open_ticket()
    assert (await poller(world).poll(world.trackers["local"])).signalled == 1
    assert (await poller(world).poll(world.trackers["local"])).signalled == 0


async def test_a_rejected_ticket_is_not_asked_about_until_it_changes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await world.open_ticket()

    async def nobody(_: Ticket, __: str) -> History:
        return History()

    monkeypatch.setattr(world.trackers["local"], "history", nobody)
    polling = poller(world)
    await polling.poll(world.trackers["local"])
    await world.drain_signals()
    assert (await polling.poll(world.trackers["local"])).signalled == 0
    await world.desk.comment(key, "now it changed", actor="mona")
    assert (await polling.poll(world.trackers["local"])).signalled == 1


async def test_a_queued_ticket_without_its_trigger_is_signalled(world: World) -> None:
    key = await world.open_ticket()
    await world.claim(key)
    assert (await poller(world).poll(world.trackers["local"])).signalled == 0
    await world.desk.unlabel(key, TRIGGER, actor="mona")
    assert (await poller(world).poll(world.trackers["local"])).signalled == 1


async def test_P9_an_outage_raises(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(_: str) -> AsyncIterator[Ticket]:
        raise TrackerUnavailable("connection refused")
        yield

    monkeypatch.setattr(world.trackers["local"], "find", away)
    with pytest.raises(TrackerUnavailable):
        await poller(world).poll(world.trackers["local"])


class Away:
    """A tracker that never answers a search."""

    name, platform = "away", "local"

    def __init__(self, real: Tracker) -> None:
        self.labels = real.labels
        self.asked = 0

    async def find(self, *_: str) -> AsyncIterator[Ticket]:
        self.asked += 1
        raise TrackerUnavailable("connection refused")
        yield


async def test_one_failing_tracker_never_delays_another(world: World) -> None:
    away = Away(world.trackers["local"])
    world.trackers["away"] = away  # type: ignore[assignment]  # only what polling asks of it
    work = asyncio.create_task(poller(world, every=0.02).work())
    try:
        await wait_until(lambda: away.asked > 0, what="the broken tracker to be asked")
        key = await world.open_ticket()
        await wait_until(lambda: _is_signalled(world, key), what="the other tracker to be polled")
        assert not work.done()
    finally:
        work.cancel()
        await asyncio.wait({work})


async def _is_signalled(world: World, key: str) -> bool:
    return key in await signalled(world)


# --- the pause between looks ------------------------------------------------------------------------------------


def seen(*revisions: str, signalled: int = 0, in_hand: int = 0) -> Polled:
    looks = {TicketId(f"local/tickets#{n}"): revision for n, revision in enumerate(revisions)}
    return Polled(len(looks), signalled, looks, in_hand)


def test_the_looks_drift_apart_while_nothing_changes_up_to_a_bound() -> None:
    calm = Calm(every=60.0, slowest=240.0)
    pauses = [calm.after(seen("1", "1")) for _ in range(7)]
    assert pauses == [60.0, 90.0, 135.0, 202.5, 240.0, 240.0, 240.0]


@pytest.mark.parametrize(
    "news",
    [
        seen("1", "2"),
        seen("1"),
        seen("1", "1", "1"),
        seen("1", "1", signalled=1),
        seen("1", "1", in_hand=1),
    ],
    ids=["edited", "gone", "new", "signalled", "in hand"],
)
def test_anything_new_brings_the_usual_pace_back(news: Polled) -> None:
    calm = Calm(every=60.0, slowest=240.0)
    for _ in range(5):
        calm.after(seen("1", "1"))
    assert calm.after(news) == 60.0
    assert calm.after(seen("1", "1", in_hand=1)) == 60.0


def test_where_a_look_costs_nothing_the_pace_stays() -> None:
    calm = Calm(every=2.0, slowest=2.0)
    assert {calm.after(seen("1")) for _ in range(5)} == {2.0}


async def test_a_calm_tracker_is_asked_more_rarely_and_a_busy_one_is_not(world: World) -> None:
    class Still(Away):
        """A tracker on which nothing ever happens."""

        async def find(self, *_: str) -> AsyncIterator[Ticket]:
            self.asked += 1
            return
            yield

    still = Still(world.trackers["local"])
    lively = Still(world.trackers["local"])
    lively.name = "lively"
    world.trackers |= {"away": still, "lively": lively}  # type: ignore[dict-item]  # only what polling asks of it
    polling = poller(world, every=0.02)
    polling.slowest = {"away": 60.0}
    work = asyncio.create_task(polling.work())
    try:
        await wait_until(lambda: lively.asked > 60, what="many looks at a tracker whose pace may not drift")
        # 0.02 s, and half as much again each time: after 1.2 s that is the eighth or ninth look.
        assert 3 <= still.asked < 20
    finally:
        work.cancel()
        await asyncio.wait({work})


@pytest.mark.parametrize(
    ("settings", "seconds", "text"),
    [
        ({}, 240, "every 1m, or 4m while nothing changes"),
        ({"poll_interval": "30s"}, 120, "every 30s, or 2m while nothing changes"),
        ({"idle_poll_interval": "1h"}, 3600, "every 1m, or 1h while nothing changes"),
        ({"idle_poll_interval": "1s"}, 60, "every 1m"),
    ],
)
def test_how_far_the_looks_may_drift_is_configured(settings: dict[str, str], seconds: float, text: str) -> None:
    made = TrackerSettings.model_validate({"platform": "x", **settings})
    assert (made.slowest_poll, made.rhythm) == (seconds, text)
    assert LocalSettings().slowest_poll == LocalSettings().poll_interval


def test_the_drift_too_can_be_slowed_only_so_far() -> None:
    with pytest.raises(ValueError, match="not switched off"):
        TrackerSettings.model_validate({"platform": "x", "idle_poll_interval": "2d"})


# --- what no webhook announced ----------------------------------------------------------------------------------------


class Aged:
    """The local tracker with every ticket changed some time ago."""

    def __init__(self, real: Tracker, seconds: float) -> None:
        self._real, self._seconds = real, seconds
        self.name, self.platform, self.labels = real.name, real.platform, real.labels

    async def find(self, *labels: str) -> AsyncIterator[Ticket]:
        async for ticket in self._real.find(*labels):
            assert ticket.updated_at is not None
            yield replace(ticket, updated_at=ticket.updated_at - timedelta(seconds=self._seconds))


def unannounced() -> float:
    return metrics.REGISTRY.get_sample_value("agentsmith_poll_unannounced_total", {"tracker": "local"}) or 0.0


@pytest.mark.parametrize(
    ("age", "heard", "told", "counted"),
    [
        (100.0, True, False, 1),  # webhooks are on, and none came
        (100.0, True, True, 0),  # one came
        (2.0, True, False, 0),  # it may be on its way
        (100.0, False, False, 0),  # there are no webhooks
    ],
)
async def test_a_poll_says_when_it_finds_what_no_webhook_announced(
    world: World, age: float, heard: bool, told: bool, counted: int
) -> None:
    key = await world.open_ticket()
    if told:
        await world.store.signals.hand_over(world.signal(key), delivery="d-1")
        await world.store.redis.delete(world.store.keys.inbox, world.store.keys.inbox_index)
    tracker = Aged(world.trackers["local"], age)
    polling = Poller(
        world.store,
        {"local": tracker},  # type: ignore[dict-item]  # only what polling asks of it
        world.parts.triggers,
        {"local": 60.0},
        announced=frozenset({"local"} if heard else ()),
    )
    before = unannounced()
    with capture_logs() as logged:
        polled = await polling.poll(tracker)  # type: ignore[arg-type]  # only what polling asks of it
    assert polled.signalled == 1
    assert unannounced() - before == counted
    warned = [line for line in logged if "no webhook announced" in line["event"]]
    assert [line["tickets"] for line in warned] == ([[world.ticket_id(key)]] if counted else [])


async def test_a_webhook_about_an_older_change_announces_nothing(world: World, raw: Redis) -> None:
    key = await world.open_ticket()
    store = world.store
    await store.signals.hand_over(world.signal(key), delivery="d-1")
    await store.redis.delete(store.keys.inbox, store.keys.inbox_index)
    long_ago = (time.time() - 3600) * 1000
    await raw.set(store.keys.announced(world.ticket_id(key)), str(round(long_ago)), px=60_000)
    tracker = Aged(world.trackers["local"], 100)
    polling = Poller(
        store,
        {"local": tracker},  # type: ignore[dict-item]  # only what polling asks of it
        world.parts.triggers,
        {"local": 60.0},
        announced=frozenset({"local"}),
    )
    before = unannounced()
    await polling.poll(tracker)  # type: ignore[arg-type]  # only what polling asks of it
    assert unannounced() - before == 1


# --- a leader that is one no more -------------------------------------------------------------------------------------


async def test_a_deposed_poller_signals_nothing(world: World, make_store: MakeStore) -> None:
    await world.open_ticket()
    lease = world.store.leadership("poller", "first")
    assert await lease.take()
    polling = Poller(world.store, world.trackers, world.parts.triggers, {"local": 60.0}, leading=lease)
    await world.store.redis.delete(lease.key)  # its time ran out while it slept
    other = make_store().leadership("poller", "second")
    assert await other.take()
    assert await polling.poll(world.trackers["local"]) == Polled(1, 0, ANY, 0)
    assert await signalled(world) == []
    await other.release()
    assert await lease.take()
    assert (await polling.poll(world.trackers["local"])).signalled == 1


async def test_an_earlier_term_of_our_own_is_over_too(world: World) -> None:
    await world.open_ticket()
    earlier, now = world.store.leadership("poller", "me"), world.store.leadership("poller", "me")
    assert await earlier.take()
    await world.store.redis.delete(earlier.key)
    assert await now.take()
    polling = Poller(world.store, world.trackers, world.parts.triggers, {"local": 60.0}, leading=earlier)
    assert (await polling.poll(world.trackers["local"])).signalled == 0


async def test_other_rules_deserve_another_look(world: World, tmp_path: Path) -> None:
    key = (await world.desk.new(title="t", labels=(TRIGGER, "agent-smith:pending", "also"), actor="mona")).key
    config = world.config
    both = (*config.triggers, config.triggers[0].model_copy(update={"label": "also", "pipeline": "other"}))
    world.parts.book.replace(config.model_copy(update={"triggers": both}))
    polling = poller(world)
    await polling.poll(world.trackers["local"])
    await world.drain_signals()
    assert (await polling.poll(world.trackers["local"])).signalled == 0, "it asks for two pipelines, and was told so"
    world.parts.book.replace(config)
    assert (await polling.poll(world.trackers["local"])).signalled == 1
    assert await signalled(world) == [key]


async def test_a_run_without_its_trigger_is_told_to_stop_also_after_redis_forgot_it(
    world: World, flush: Flush, settled: Settled
) -> None:
    key = await world.open_ticket()
    await world.claim(key)
    payload = await world.store.queue.take(world.process.name, wait=1)
    assert payload is not None
    request = PipelineRequest.from_json(payload)
    taken = await world.store.runs.acquire(request, payload, consumer=world.process.name, ttl=60, max_deliveries=3)
    assert isinstance(taken, Acquired)
    await flush()
    await settled()
    # A live run puts its lease back when it renews.
    assert await world.store.runs.renew(taken.lease, ttl=60) == "restored"
    await world.desk.unlabel(key, TRIGGER, actor="mona")
    assert (await poller(world).poll(world.trackers["local"])).signalled == 1
    await world.drain_signals()
    stop = await world.store.runs.stop_requested(world.ticket_id(key))
    assert stop is not None
    assert "the trigger was removed" in stop


# --- the healer -------------------------------------------------------------------------------------------------------


class Healing(Aged):
    """A tracker whose platform keeps failed deliveries."""

    def __init__(self, real: Tracker, *, fails: Exception | None = None) -> None:
        super().__init__(real, 0)
        self.asked: list[tuple[str, str | None]] = []
        self.fails = fails

    async def redeliver_failed(self, tracker: str, public_url: str | None) -> int:
        self.asked.append((tracker, public_url))
        if self.fails is not None:
            raise self.fails
        return 2


@pytest.mark.parametrize(
    ("fails", "again"),
    [(None, True), (TrackerUnavailable("away"), True), (Refused("the token may not"), False)],
)
async def test_the_leader_has_failed_deliveries_sent_again(world: World, fails: Exception | None, again: bool) -> None:
    tracker = Healing(world.trackers["local"], fails=fails)
    polling = Poller(
        world.store,
        {"local": tracker},  # type: ignore[dict-item]  # only what polling asks of it
        world.parts.triggers,
        {"local": 0.01},
        announced=frozenset({"local"}),
        heal_every=0.01,
        public_url="https://agentsmith.example",
    )
    healed = metrics.HEALED.labels("local")._value.get()
    work = asyncio.create_task(polling.work())
    try:
        await wait_until(lambda: len(tracker.asked) >= (3 if again else 1), what="healing")
        await wait_until(lambda: _found_something(world), what="polling to go on beside it")
        if not again:
            asked = len(tracker.asked)
            await wait_until(lambda: _found_something(world), what="polling to go on")
            assert len(tracker.asked) == asked == 1
    finally:
        work.cancel()
        await asyncio.wait({work})
    assert tracker.asked[0] == ("local", "https://agentsmith.example")
    assert (metrics.HEALED.labels("local")._value.get() - healed >= 2) == (fails is None)


async def _found_something(world: World) -> bool:
    key = await world.open_ticket()
    await wait_until(lambda: _is_signalled(world, key), what="a ticket to be found")
    return True
