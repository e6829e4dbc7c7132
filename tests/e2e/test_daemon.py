"""Daemons as people run them: several processes, signals, and a world that goes away and comes back."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from agentsmith.boottime import boottime
from agentsmith.config import Config
from agentsmith.domain.stop import StopReason
from tests.e2e.daemons import DaemonProcess, Daemons
from tests.e2e.place import FOREIGN, WITHIN, Place
from tests.support.embedded import servers_of
from tests.support.redis_server import RedisServer, free_port
from tests.support.stores import Flush, PrivateServer, all_queued
from tests.support.wait import quickest, slowly, wait_until
from tests.support.world import TRIGGER

# Long enough to live through a restart of Redis on a busy machine; what is waited for still comes soon.
STEADY: Final = {"ttl": "30s", "renew_every": "1s", "margin": "2s", "claim_lock": "3s", "leader": "3s"}


@pytest.fixture
async def daemons(tmp_path: Path) -> AsyncIterator[Daemons]:
    async with Daemons(tmp_path) as daemons:
        yield daemons


@pytest.fixture
async def place(tmp_path: Path, redis_url: str, namespace: str) -> Place:
    place = Place(tmp_path, redis_url, namespace)
    async with place.store():
        return place


def shows(place: Place, status: str, key: str = "1") -> Callable[[], Any]:
    wanted = FOREIGN | {TRIGGER, f"agent-smith:{status}"}
    return slowly(lambda: place.labels(key) == wanted)


def troubles(*daemons: DaemonProcess) -> list[dict[str, Any]]:
    return [line for daemon in daemons for line in daemon.lines() if line["level"] in ("warning", "error")]


async def test_roles_in_processes_of_their_own_do_the_whole_job(place: Place, daemons: Daemons) -> None:
    config = place.config()
    split = [await daemons.start(config, "receiver", fresh=True)]
    split += [await daemons.start(config, role) for role in ("poller", "housekeeping")]
    consumer = await daemons.start(config, "consumer")
    for daemon in (*split, consumer):
        await daemon.said("up")
    # The first run dies with its consumer: somebody has to notice, to bring the ticket back, and to run it.
    place.hold()
    await place.open_tickets(2)
    await place.works(runs=2)
    consumer.send(signal.SIGKILL)
    place.let_go()
    split.append(await daemons.start(config, "consumer"))
    await place.done("1", "2")
    assert sorted(begun.attempt for begun in place.begun()) == [1, 1, 2, 2]
    assert place.count("overlap") == 0
    for daemon in split:
        daemon.send(signal.SIGTERM)
    assert [await daemon.ended() for daemon in split] == [0, 0, 0, 0]
    assert not [line for line in troubles(*split) if line["level"] == "error"]


async def test_P5_the_ticket_of_a_killed_consumer_is_back_within_fifteen_seconds(
    place: Place, daemons: Daemons
) -> None:
    # With the times that people have: the lease would live for two minutes, but the guard gives it back.
    defaults = Config()
    config = place.config(
        **{name: getattr(defaults, name).model_dump(mode="json") for name in ("lease", "housekeeping", "consumer")}
    )
    await daemons.start(config, "poller", "housekeeping")

    async def brought_back() -> float:
        before = len(place.begun())
        consumer = await daemons.start(config, "consumer")
        place.hold()
        (key,) = await place.open_tickets()
        await place.works(runs=len({begun.run for begun in place.begun()[:before]}) + 1)
        place.let_go()
        consumer.send(signal.SIGKILL)
        killed = boottime()
        back = slowly(lambda: "agent-smith:enqueued" in place.labels(key))
        await wait_until(back, what="the ticket to be queued again", within=WITHIN)
        took = boottime() - killed
        async with place.store() as store:
            assert await store.queue.position(place.ticket_id(key)) == 0
        consumer = await daemons.start(config, "consumer")
        await place.done(*place.all_labels())
        consumer.send(signal.SIGKILL)
        await consumer.ended()
        assert [begun.attempt for begun in place.begun()[before:]] == [1, 2]
        return took

    assert await quickest(brought_back, than=15) < 15


async def test_P5_the_ticket_of_a_lost_host_is_back_after_its_lease_and_two_looks(
    place: Place, daemons: Daemons
) -> None:
    config = place.config()
    consumer = await daemons.start(config, "consumer")
    await daemons.start(config, "poller", "housekeeping")
    place.hold()
    await place.open_tickets()
    await place.works()
    lease = place.loaded().lease
    # The host goes as a whole: all stand still before the first is gone, so nobody is left to release the lease.
    consumer.send(signal.SIGSTOP)
    await consumer.stopped()
    lost = boottime()
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in daemons.left_behind():
            with suppress(ProcessLookupError):
                os.kill(pid, number)
    consumer.send(signal.SIGKILL)
    place.let_go()
    back = slowly(lambda: "agent-smith:enqueued" in place.labels())
    await wait_until(back, what="the ticket to be queued again", within=WITHIN)
    # No sooner than its last renewal and the second look allow; the sum of the parts is the bound, checked below.
    assert boottime() - lost > lease.ttl - lease.renew_every + lease.renew_every / 2 - lease.margin
    await daemons.start(config, "consumer")
    await place.done()
    assert [begun.attempt for begun in place.begun()] == [1, 2]
    assert "died in attempt 1; it was queued again" in place.comments()[0]


def test_P5_by_default_a_lost_host_is_noticed_within_three_and_a_half_minutes() -> None:
    config = Config()
    # A renewal just before the loss, a sweep that just missed the end of the lease, the second look, and its sweep.
    worst = config.lease.ttl + config.lease.renew_every + 2 * config.housekeeping.sweep_every
    assert worst + config.claim.retry_backoff <= 210


async def test_a_consumer_that_stands_still_for_less_than_its_lease_keeps_its_run(
    place: Place, daemons: Daemons
) -> None:
    # What a busy event loop, a slow disk or a short suspend look like from outside: no sign of life, a lease that runs.
    steady = {**STEADY, "renew_every": "500ms"}
    config = place.config(lease=steady)
    consumer = await daemons.start(config, "consumer")
    keeper = await daemons.start(config, "poller", "housekeeping")
    place.hold()
    await place.open_tickets()
    await place.works()
    consumer.send(signal.SIGSTOP)
    await consumer.stopped()
    async with place.store() as store:

        async def silent() -> bool:
            return consumer.pid not in {process.pid for process in await store.presence.alive()}

        await wait_until(silent, what="its liveness to lapse", within=WITHIN)
        cycle = await store.presence.last_cycle("housekeeping")
        assert cycle is not None

        async def swept_since() -> bool:
            latest = await store.presence.last_cycle("housekeeping")
            return latest is not None and latest.at > cycle.at + 1.0

        await wait_until(swept_since, what="housekeeping to look at it several times", within=WITHIN)
    consumer.send(signal.SIGCONT)
    place.finish()
    await place.done()
    assert [begun.attempt for begun in place.begun()] == [1]
    assert not keeper.lines("recovered")


async def test_sigterm_lets_a_run_finish(place: Place, daemons: Daemons) -> None:
    daemon = await daemons.start(place.config(consumer={"drain_timeout": "1m"}))
    place.hold()
    await place.open_tickets()
    await place.works()
    daemon.send(signal.SIGTERM)
    await daemon.said("draining")
    place.finish()
    assert await daemon.ended() == 0
    assert place.labels() == FOREIGN | {TRIGGER, "agent-smith:done"}
    assert len(place.begun()) == 1


async def test_sigterm_gives_a_run_back_that_takes_too_long(place: Place, daemons: Daemons) -> None:
    daemon = await daemons.start(place.config(consumer={"drain_timeout": "100ms"}))
    place.hold()
    await place.open_tickets()
    await place.works()
    daemon.send(signal.SIGTERM)
    assert await daemon.ended() == 0
    assert place.nobody_works()
    assert place.labels() == FOREIGN | {TRIGGER, "agent-smith:enqueued"}
    async with place.store() as store:
        assert len(await all_queued(store)) == 1
        assert not await store.runs.running()
        assert not await store.presence.alive()
    place.finish()
    await daemons.start(place.config(), "consumer")
    await place.done()
    assert [begun.attempt for begun in place.begun()] == [1, 1], "what was given back does not count"


async def test_a_role_that_dies_ends_the_process_with_the_cause(place: Place, daemons: Daemons) -> None:
    daemon = await daemons.start(place.config())
    place.hold()
    await place.open_tickets()
    await place.works()
    async with place.store() as store:
        # Not even a Redis that is away: the list of later signals has become something else.
        await store.redis.set(store.keys.inbox_later, "no list", px=600_000)
        assert await daemon.ended() == 1
        assert "WRONGTYPE" in daemon.log_file.read_text()
        # The work was not left to itself, and somebody else takes it up.
        assert place.nobody_works()
        await store.redis.delete(store.keys.inbox_later)
    place.finish()
    await daemons.start(place.config())
    await place.done()
    assert place.count("overlap") == 0


async def test_an_unreachable_tracker_stops_nothing(place: Place, daemons: Daemons) -> None:
    away = {"platform": "github", "repository": "acme/web", "token": "t0ken-of-a-test"}
    away |= {"base_url": f"http://127.0.0.1:{free_port()}", "poll_interval": "200ms"}
    config = place.config(trackers={"local": {"platform": "local", "poll_interval": "200ms"}, "web": away})
    daemon = await daemons.start(config)
    await place.open_tickets()
    await place.done()
    failed = await daemon.said("polling failed, trying again")
    assert failed["tracker"] == "web"
    # Now the other one goes, too.
    hidden = place.tickets.with_suffix(".hidden")
    place.tickets.rename(hidden)
    await wait_until(
        lambda: len(daemon.lines("polling failed, trying again")) == 2, what="it to be missed", within=WITHIN
    )
    hidden.rename(place.tickets)
    await daemon.said("polling works again")
    await place.open_tickets()
    await place.done("1", "2")
    assert len(daemon.lines("polling failed, trying again")) == 2, "an outage is told once"
    daemon.send(signal.SIGTERM)
    assert await daemon.ended() == 0


async def test_a_second_daemon_shares_the_embedded_redis_and_takes_it_over(tmp_path: Path, daemons: Daemons) -> None:
    place = Place(tmp_path, None)
    config = place.config(lease=STEADY)
    first = await daemons.start(config)
    await first.said("up")
    second = await daemons.start(config)
    await second.said("embedded redis joined")
    await second.said("up")
    assert len(servers_of(tmp_path / "data")) == 1
    place.hold()
    keys = await place.open_tickets(4)
    await place.works(runs=4)  # two slots each: both have some
    first.send(signal.SIGKILL)  # and with it the server
    await second.said("embedded redis lost its keeper, taking over")
    place.finish()
    await place.done(*keys)
    assert place.count("overlap") == 0
    assert len(servers_of(tmp_path / "data")) == 1
    second.send(signal.SIGTERM)
    assert await second.ended() == 0
    assert not servers_of(tmp_path / "data")


async def test_killed_with_its_embedded_redis_and_started_again_it_finishes_everything(
    tmp_path: Path, daemons: Daemons
) -> None:
    place = Place(tmp_path, None)
    place.hold()
    keys = await place.open_tickets(5)
    daemon = await daemons.start(place.config())
    await place.works(runs=2)  # the others are queued or not even claimed
    daemon.send(signal.SIGKILL)
    await daemon.ended()
    await wait_until(slowly(lambda: not servers_of(tmp_path / "data")), what="the server to end too", within=WITHIN)
    place.finish()
    await daemons.start(place.config())
    await place.done(*keys)
    assert place.count("overlap") == 0
    assert len(place.begun()) == 7, "the two that ran ran again, the others once"


async def test_a_restart_of_redis_in_mid_run_loses_nothing(
    tmp_path: Path, daemons: Daemons, private_server: PrivateServer
) -> None:
    server = private_server("--appendonly", "yes", "--appendfsync", "always")
    place = Place(tmp_path, server.url)
    daemon = await daemons.start(place.config(lease=STEADY))
    place.hold()
    keys = await place.open_tickets(4)
    await place.works(runs=2)
    for outage in (1, 2):
        server.kill()
        await wait_until(lambda n=outage: said(daemon, "away") == n, what="it to be missed", within=WITHIN)  # type: ignore[misc]
        server.start()
        await wait_until(lambda n=outage: said(daemon, "back") == n, what="it to be found", within=WITHIN)  # type: ignore[misc]
    place.finish()
    await place.done(*keys)
    assert len(place.begun()) == 4, "nothing ran twice"
    assert (said(daemon, "away"), said(daemon, "back")) == (2, 2), "one line, not a flood"


def said(daemon: DaemonProcess, word: str) -> int:
    events = {"away": "redis is away, trying again until it is back", "back": "redis is back"}
    return len(daemon.lines(events[word]))


async def test_redis_away_for_longer_than_a_lease_ends_the_run_and_runs_it_again(
    tmp_path: Path, daemons: Daemons, private_server: PrivateServer
) -> None:
    server = private_server("--appendonly", "yes", "--appendfsync", "always")
    place = Place(tmp_path, server.url)
    daemon = await daemons.start(place.config())
    place.hold()
    await place.open_tickets()
    await place.works()
    server.kill()
    before = place.events()
    await wait_until(place.nobody_works, what="the run to be ended inside its lease (P1)", within=WITHIN)
    await daemon.said("the lease is lost, stopping the run")
    assert place.events() == before, "nothing is written without a lease (P6)"
    place.let_go()
    server.start()
    await place.done()
    assert place.count("overlap") == 0
    assert [begun.attempt for begun in place.begun()] == [1, 2]
    assert said(daemon, "away") == 1, "one line, not a flood"


async def test_sigterm_while_redis_is_away_does_not_hang(
    tmp_path: Path, daemons: Daemons, private_server: PrivateServer
) -> None:
    server = private_server("--appendonly", "yes", "--appendfsync", "always")
    place = Place(tmp_path, server.url)
    daemon = await daemons.start(place.config())
    place.hold()
    await place.open_tickets()
    await place.works()
    server.kill()
    daemon.send(signal.SIGTERM)
    await daemon.ended(within=WITHIN)
    assert place.nobody_works()
    server.start()
    place.finish()
    await daemons.start(place.config())
    await place.done()
    assert place.count("overlap") == 0


async def test_a_flush_in_mid_work_loses_nothing(
    place: Place, daemons: Daemons, redis_server: RedisServer, flush: Flush
) -> None:
    pair = [await daemons.start(place.config(lease=STEADY)) for _ in range(2)]
    place.hold()
    keys = await place.open_tickets(8)
    await place.works(runs=4)
    await wait_until(slowly(lambda: queued(redis_server, place) == 4), what="the others to be queued", within=WITHIN)
    await flush()
    for daemon in pair:
        await daemon.said("redis lost its memory, putting back what we hold")
    place.finish()
    await place.done(*keys)
    assert len(place.begun()) == 8, "what ran was neither lost nor begun again"
    assert place.count("overlap") == 0


def queued(server: RedisServer, place: Place) -> int:
    return int(server.command("LLEN", f"{place.namespace}:queue:jobs"))


async def test_cancel_ends_all_processes_of_a_run_within_two_seconds_and_the_grace(
    place: Place, daemons: Daemons
) -> None:
    grace = 0.5
    # The interval is the default; the helper of the work does not mind SIGTERM, so it takes the whole grace.
    times = {"kill_grace": f"{grace:.1f}s", "stop_poll": "500ms"}
    daemon = await daemons.start(place.config(consumer=times, lease=STEADY))
    place.hold()

    async def cancelled() -> float:
        (key,) = await place.open_tickets()
        await place.works(runs=int(key))
        async with place.store() as store:
            asked = boottime()
            await store.runs.request_stop(place.ticket_id(key), StopReason.cancelled_by("mona"))
            await wait_until(place.nobody_works, what="every process to be gone", within=WITHIN)
            took = boottime() - asked
            await wait_until(shows(place, "failed", key), what="the label to say failed", within=WITHIN)
            assert await store.runs.stop_requested(place.ticket_id(key)) is None
        assert "cancelled by mona" in place.comments(key)[0]
        return took

    assert await quickest(cancelled, than=2 + grace) < 2 + grace
    assert not [line for line in troubles(daemon) if line["level"] == "error"]


async def test_health_and_readiness_tell_the_process_from_its_surroundings(
    tmp_path: Path, daemons: Daemons, private_server: PrivateServer
) -> None:
    server = private_server("--appendonly", "yes")
    daemon = await daemons.start(Place(tmp_path, server.url).config())
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{await daemon.port()}") as http:

        async def answers(path: str, code: int) -> bool:
            return (await http.get(path)).status_code == code

        assert await answers("/healthz", 200)
        assert await answers("/readyz", 200)
        server.kill()
        await wait_until(lambda: answers("/readyz", 503), what="not to be ready", within=WITHIN)
        assert "Redis" in (await http.get("/readyz")).text
        assert await answers("/healthz", 200)
        server.start()
        await wait_until(lambda: answers("/readyz", 200), what="to be ready again", within=WITHIN)
        server.freeze()  # takes connections and answers nothing
        assert await answers("/readyz", 503)
        server.thaw()
        await wait_until(lambda: answers("/readyz", 200), what="to be ready again", within=WITHIN)


async def test_webhooks_are_refused_for_whom_they_cannot_be_verified(place: Place, daemons: Daemons) -> None:
    daemon = await daemons.start(place.config(), "receiver")
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{await daemon.port()}") as http:
        assert (await http.post("/webhooks/nobody", json={"ticket": 1})).status_code == 404
        assert (await http.post("/webhooks/local", json={"ticket": 1})).status_code == 401
        assert (await http.get("/webhooks/local")).status_code == 405
