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
from agentsmith.domain.errors import ConfigError, Refused, TrackerUnavailable
from agentsmith.domain.request import PipelineRequest
from agentsmith.domain.signal import Signal
from agentsmith.domain.stop import StopReason
from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.domain.tracker import Tracker
from agentsmith.domain.vetting import History
from agentsmith.intake.healer import Healer
from agentsmith.intake.poller import IdleBackoff, Polled, Poller
from agentsmith.store import Acquired, Store
from agentsmith.ticker import run_jobs
from agentsmith.trackers.local.settings import LocalSettings
from tests.support.stores import Flush, MakeStore, Settled
from tests.support.wait import wait_until
from tests.support.world import TRIGGER, World, open_world


@pytest.fixture
async def world(tmp_path: Path, store: Store, redis_url: str) -> AsyncIterator[World]:
    async with open_world(tmp_path, store, redis_url) as world:
        yield world


def poller(world: World, name: str = "local", every: float = 60.0, slowest: float = 0.0) -> Poller:
    return Poller(world.store, world.trackers[name], world.parts.triggers, every, slowest)


def polling(*pollers: Poller | Healer) -> asyncio.Task[None]:
    """The leader's work."""
    return asyncio.create_task(run_jobs(*(each.job() for each in pollers)))


async def signalled(world: World) -> list[str]:
    inbox = await world.store.redis.lrange(world.store.keys.inbox, 0, -1)
    return [Signal.from_json(payload).key for payload in inbox]


async def test_only_pending_tickets_with_a_trigger_are_signalled(world: World) -> None:
    wanted = await world.open_ticket()
    await world.open_ticket("agent-smith:done")
    await world.desk.new(title="no trigger", labels=("bug",), actor="mona")
    closed = await world.open_ticket()
    await world.desk.close(closed, actor="mona")
    assert await poller(world).poll() == Polled(found=2, signalled=1)
    assert await signalled(world) == [wanted]


async def test_a_ticket_that_waits_in_the_inbox_is_not_signalled_again(world: World) -> None:
    await world.open_ticket()
    assert (await poller(world).poll()).signalled == 1
    assert (await poller(world).poll()).signalled == 0


async def test_a_rejected_ticket_is_not_asked_about_until_it_changes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await world.open_ticket()

    async def nobody(_: Ticket, __: str) -> History:
        return History()

    monkeypatch.setattr(world.trackers["local"], "history", nobody)
    made = poller(world)
    await made.poll()
    await world.drain_signals()
    assert (await made.poll()).signalled == 0
    await world.desk.comment(key, "now it changed", actor="mona")
    assert (await made.poll()).signalled == 1


async def test_a_queued_ticket_without_its_trigger_is_signalled(world: World) -> None:
    key = await world.open_ticket()
    await world.claim(key)
    assert (await poller(world).poll()).signalled == 0
    await world.desk.unlabel(key, TRIGGER, actor="mona")
    assert (await poller(world).poll()).signalled == 1


async def test_P9_an_outage_raises(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(_: str) -> AsyncIterator[Ticket]:
        raise TrackerUnavailable("connection refused")
        yield

    monkeypatch.setattr(world.trackers["local"], "find", away)
    with pytest.raises(TrackerUnavailable):
        await poller(world).poll()


class Away:
    """A tracker that never answers a search."""

    name, platform = "away", "local"

    def __init__(self, real: Tracker, error: Exception | None = None) -> None:
        self.labels = real.labels
        self.asked, self.error = 0, error or TrackerUnavailable("connection refused")

    async def find(self, *_: str) -> AsyncIterator[Ticket]:
        self.asked += 1
        raise self.error
        yield


UNFORESEEN = [
    TrackerUnavailable("connection refused"),
    ConfigError("tickets.sqlite3 is a database of another program; name another file"),
    KeyError("a mistake of a plug-in's"),
]


@pytest.mark.parametrize("error", UNFORESEEN, ids=lambda error: type(error).__name__)
async def test_one_failing_tracker_never_delays_another(world: World, error: Exception) -> None:
    away = Away(world.trackers["local"], error)
    world.trackers["away"] = away  # type: ignore[assignment]  # only what polling asks of it
    work = polling(*(poller(world, name, every=0.02) for name in world.trackers))
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


# --- the pause between polls ------------------------------------------------------------------------------------


def seen(*revisions: str, signalled: int = 0, in_hand: int = 0) -> Polled:
    looks = {TicketId(f"local/tickets#{n}"): revision for n, revision in enumerate(revisions)}
    return Polled(len(looks), signalled, looks, in_hand)


def test_polls_become_rarer_while_nothing_changes_up_to_a_bound() -> None:
    backoff = IdleBackoff(every=60.0, slowest=240.0)
    pauses = [backoff.after(seen("1", "1")) for _ in range(7)]
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
    backoff = IdleBackoff(every=60.0, slowest=240.0)
    for _ in range(5):
        backoff.after(seen("1", "1"))
    assert backoff.after(news) == 60.0
    assert backoff.after(seen("1", "1", in_hand=1)) == 60.0


def test_where_a_look_costs_nothing_the_pace_stays() -> None:
    backoff = IdleBackoff(every=2.0, slowest=2.0)
    assert {backoff.after(seen("1")) for _ in range(5)} == {2.0}


async def test_an_idle_tracker_is_asked_more_rarely_and_a_busy_one_is_not(world: World) -> None:
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
    slowest = {"away": 60.0}
    work = polling(*(poller(world, name, 0.02, slowest.get(name, 0.0)) for name in world.trackers))
    try:
        await wait_until(lambda: lively.asked > 60, what="many polls of a tracker that may not be asked more rarely")
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
def test_how_rare_polls_may_become_is_configured(settings: dict[str, str], seconds: float, text: str) -> None:
    made = TrackerSettings.model_validate({"platform": "x", **settings})
    assert (made.slowest_poll, made.polled) == (seconds, text)
    assert LocalSettings().slowest_poll == LocalSettings().poll_interval


def test_idle_polls_too_can_be_slowed_only_so_far() -> None:
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
    made = Poller(
        world.store,
        tracker,  # type: ignore[arg-type]  # only what polling asks of it
        world.parts.triggers,
        60.0,
        announced=heard,
    )
    before = unannounced()
    with capture_logs() as logged:
        polled = await made.poll()
    assert polled.signalled == 1
    assert unannounced() - before == counted
    warned = [line for line in logged if "no webhook announced" in line["event"]]
    assert [line["tickets"] for line in warned] == ([[world.ticket_id(key)]] if counted else [])


async def test_what_no_webhook_announced_is_named_once_however_long_it_is_found(world: World) -> None:
    key = await world.open_ticket()
    tracker = Aged(world.trackers["local"], 100.0)
    made = Poller(
        world.store,
        tracker,  # type: ignore[arg-type]  # only what polling asks of it
        world.parts.triggers,
        60.0,
        announced=True,
    )
    before = unannounced()
    with capture_logs() as logged:
        await made.poll()
        await made.poll()
        assert unannounced() - before == 1
        await world.desk.edit(key, title="changed", actor="ann")
        await made.poll()
    assert unannounced() - before == 2
    warned = [line for line in logged if "no webhook announced" in line["event"]]
    assert [line["tickets"] for line in warned] == [[world.ticket_id(key)]] * 2


async def test_a_webhook_about_an_older_change_announces_nothing(world: World, raw: Redis) -> None:
    key = await world.open_ticket()
    store = world.store
    await store.signals.hand_over(world.signal(key), delivery="d-1")
    await store.redis.delete(store.keys.inbox, store.keys.inbox_index)
    long_ago = (time.time() - 3600) * 1000
    await raw.set(store.keys.announced(world.ticket_id(key)), str(round(long_ago)), px=60_000)
    tracker = Aged(world.trackers["local"], 100)
    made = Poller(
        store,
        tracker,  # type: ignore[arg-type]  # only what polling asks of it
        world.parts.triggers,
        60.0,
        announced=True,
    )
    before = unannounced()
    await made.poll()
    assert unannounced() - before == 1


# --- a leader that is one no more -------------------------------------------------------------------------------------


async def test_a_deposed_poller_signals_nothing(world: World, make_store: MakeStore) -> None:
    await world.open_ticket()
    lease = world.store.leadership("poller", "first")
    assert await lease.take()
    made = Poller(world.store, world.trackers["local"], world.parts.triggers, 60.0, leading=lease)
    await world.store.redis.delete(lease.key)  # its time ran out while it slept
    other = make_store().leadership("poller", "second")
    assert await other.take()
    assert await made.poll() == Polled(1, 0, ANY, 0)
    assert await signalled(world) == []
    await other.release()
    assert await lease.take()
    assert (await made.poll()).signalled == 1


async def test_an_earlier_term_of_our_own_is_over_too(world: World) -> None:
    await world.open_ticket()
    earlier, now = world.store.leadership("poller", "me"), world.store.leadership("poller", "me")
    assert await earlier.take()
    await world.store.redis.delete(earlier.key)
    assert await now.take()
    made = Poller(world.store, world.trackers["local"], world.parts.triggers, 60.0, leading=earlier)
    assert (await made.poll()).signalled == 0


async def test_other_rules_deserve_another_look(world: World, tmp_path: Path) -> None:
    key = (await world.desk.new(title="t", labels=(TRIGGER, "agent-smith:pending", "also"), actor="mona")).key
    config = world.config
    both = (*config.triggers, config.triggers[0].model_copy(update={"label": "also", "pipeline": "other"}))
    pipelines = {**config.pipelines, "other": config.pipelines["work"]}
    world.parts.rules.replace(config.model_copy(update={"triggers": both, "pipelines": pipelines}))
    made = poller(world)
    await made.poll()
    await world.drain_signals()
    assert (await made.poll()).signalled == 0, "it asks for two pipelines, and was told so"
    world.parts.rules.replace(config)
    assert (await made.poll()).signalled == 1
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
    assert (await poller(world).poll()).signalled == 1
    await world.drain_signals()
    stop = await world.store.runs.stop_requested(world.ticket_id(key))
    assert stop == StopReason.withdrawn(open_=True)


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
    healed = metrics.HEALED.labels("local")._value.get()
    work = polling(poller(world, every=0.01), Healer("local", tracker, 0.01, "https://agentsmith.example"))
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
