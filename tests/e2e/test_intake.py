"""Every way in at once, and leaders that die or sleep: each ticket is claimed once, and by nobody who was deposed.

The tickets are on a simulated GitHub, so that webhooks, polls and the reconciler all see the same ones over HTTP. Where
only the race for the claim matters, runs note their line without a process, as in `test_races.py`.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from agentsmith.domain.signal import Signal
from agentsmith.simulators import Running, serve
from agentsmith.simulators.github import GitHubSimulator
from tests.e2e.daemons import DaemonProcess, Daemons
from tests.e2e.faulty_daemon import Plan
from tests.e2e.place import WITHIN, Place
from tests.support.stores import all_queued
from tests.support.wait import slowly, wait_until
from tests.support.world import TRIGGER

REPOSITORY: Final = "acme/web"
TOKEN: Final = "github_pat_11INTAKE0000_intakeintakeintake"
SECRET: Final = "intake"
TICKETS: Final = int(os.environ.get("AGENTSMITH_INTAKE_TICKETS", "40"))
"""A thousand of them are `make intake`: every ticket is some fifteen requests and ten deliveries over HTTP."""
BACKGROUND: Final = "2s" if TICKETS <= 100 else "5s"


@asynccontextmanager
async def github() -> AsyncIterator[tuple[GitHubSimulator, Running]]:
    simulator = GitHubSimulator(rate_limit=10_000_000, delivery_timeout=60)
    simulator.add_repository(REPOSITORY)
    simulator.add_token(TOKEN, login="smith-bot", permission="admin")
    simulator.set_permission(REPOSITORY, "mona", "write")
    async with serve(simulator) as running:
        yield simulator, running


def tracker(running: Running, **more: Any) -> dict[str, Any]:
    return {
        "web": {
            "platform": "github",
            "repository": REPOSITORY,
            "token": TOKEN,
            "base_url": running.api_url,
            "webhook_secret": SECRET,
            **more,
        }
    }


SLOW: Final[dict[str, Any]] = {
    # Not sped up: nothing here waits for a lease to lapse, and the machine is busy on purpose.
    "lease": {"ttl": "2m", "renew_every": "30s", "margin": "20s", "claim_lock": "30s", "leader": "30s"},
}


@pytest.mark.timeout(900)
async def test_webhook_poll_reconciler_and_a_second_replica_make_one_run_of_each_ticket(
    tmp_path: Path, redis_url: str, namespace: str
) -> None:
    ran = tmp_path / "ran"
    place = Place(tmp_path, redis_url, namespace, step={"run": "true"})
    async with github() as (simulator, running), place.store() as store, Daemons(tmp_path) as daemons:
        config = place.config(
            **SLOW,
            # Often enough to meet every webhook's look; each list is as long as there are tickets.
            housekeeping={"sweep_every": "2s", "stale_every": "5s", "reconcile_every": BACKGROUND, "heal_every": "5m"},
            trackers=tracker(running, poll_interval=BACKGROUND),
            consumer={"slots": 8},
        )
        numbers = [simulator.open_issue(REPOSITORY, actor="mona", webhook=False) for _ in range(TICKETS)]
        both = [await daemons.start(config, plan=Plan(str(tmp_path), pretend=str(ran))) for _ in range(2)]
        for daemon in both:
            url = f"http://127.0.0.1:{await daemon.port()}/webhooks/web"
            simulator.register_webhook(REPOSITORY, url, secret=SECRET, events=["issues"])
        for number in numbers:
            simulator.add_label(REPOSITORY, number, TRIGGER, "mona")
            if number % 20 == 0:
                await asyncio.sleep(0)  # lets the simulator answer meanwhile

        def runs() -> list[str]:
            return ran.read_text().splitlines() if ran.exists() else []

        await wait_until(slowly(lambda: len(runs()) >= TICKETS), what=f"{TICKETS} runs", within=800)

        def done() -> bool:
            return all("agent-smith:done" in simulator.labels(REPOSITORY, number) for number in numbers)

        await wait_until(slowly(done), what="every ticket to be done", within=120)
        # The polls, the reconciler and late webhooks have one more chance to do harm.
        polled = len([r for r in simulator.requests if r.path.endswith("/issues")])
        await wait_until(
            slowly(lambda: len([r for r in simulator.requests if r.path.endswith("/issues")]) > polled + 3),
            what="some more polls",
            within=120,
        )
        for daemon in both:
            daemon.send(signal.SIGTERM)
        assert [await daemon.ended() for daemon in both] == [0, 0]
        assert Counter(line.split()[0] for line in runs()) == {str(number): 1 for number in numbers}
        assert {line.split()[2] for line in runs()} == {"1"}
        for number in numbers:
            assert {*simulator.labels(REPOSITORY, number)} == {TRIGGER, "agent-smith:done"}
            assert len(simulator.comments(REPOSITORY, number)) == 1
        assert not await store.runs.running()
        assert not await all_queued(store)
        causes = Counter(line["cause"].split()[0] for daemon in both for line in daemon.lines("deferred"))
        shares = [len([line for line in d.lines("transition") if line["to"] == "enqueued"]) for d in both]
        assert min(shares) > 0, f"one of them did everything: no race: {shares}, {causes}"


@pytest.mark.timeout(180)
async def test_a_label_set_again_during_a_run_is_one_more_run(tmp_path: Path, redis_url: str, namespace: str) -> None:
    place = Place(tmp_path, redis_url, namespace)
    async with github() as (simulator, running), Daemons(tmp_path) as daemons:
        # So that only webhooks tell of anything.
        daemon = await daemons.start(place.config(**SLOW, trackers=tracker(running, poll_interval="1h")))
        url = f"http://127.0.0.1:{await daemon.port()}/webhooks/web"
        simulator.register_webhook(REPOSITORY, url, secret=SECRET, events=["issues"])
        place.hold()
        number = simulator.open_issue(REPOSITORY, actor="mona")
        simulator.add_label(REPOSITORY, number, TRIGGER, "mona")
        await place.works()

        def comment() -> str:
            return "".join(str(one["body"]) for one in simulator.comments(REPOSITORY, number))

        simulator.remove_label(REPOSITORY, number, TRIGGER, "mona")
        simulator.add_label(REPOSITORY, number, TRIGGER, "mona")
        await wait_until(slowly(lambda: "once more" in comment()), what="the comment to tell of it", within=WITHIN)
        place.finish()
        await wait_until(slowly(lambda: place.count("end") == 2), what="a second run", within=WITHIN)
        wanted = {TRIGGER, "agent-smith:done"}
        shown = slowly(lambda: {*simulator.labels(REPOSITORY, number)} == wanted)
        await wait_until(shown, what="it to be done", within=WITHIN)
        assert (place.count("begin"), place.count("overlap")) == (2, 0)


# --- leaders ----------------------------------------------------------------------------------------------------------


async def leader_of(store: Any, role: str = "poller") -> str:
    found = await store.presence.leader(role)
    return found.holder if found is not None else ""


async def led_by_another(store: Any, former: str) -> bool:
    return await leader_of(store) not in ("", former)


def named(daemons: list[DaemonProcess], holder: str) -> DaemonProcess:
    [found] = [daemon for daemon in daemons if f"-{daemon.pid}-" in holder]
    return found


async def two_pollers(daemons: Daemons, config: Path) -> list[DaemonProcess]:
    return [await daemons.start(config, "poller", "consumer") for _ in range(2)]


@pytest.mark.timeout(120)
async def test_when_the_leading_poller_is_killed_another_finds_what_it_did_not(
    tmp_path: Path, redis_url: str, namespace: str
) -> None:
    place = Place(tmp_path, redis_url, namespace)
    config = place.config(trackers={"local": {"platform": "local", "poll_interval": "50ms"}})
    async with place.store() as store, Daemons(tmp_path) as daemons:
        both = await two_pollers(daemons, config)
        await wait_until(lambda: led_by_another(store, ""), what="a leader")
        first = await leader_of(store)
        named(both, first).send(signal.SIGKILL)
        [key] = await place.open_tickets()
        await wait_until(lambda: led_by_another(store, first), what="another leader", within=30)
        await place.done(key)
        assert place.count("begin") == 1


@pytest.mark.timeout(120)
async def test_no_claim_by_a_poller_that_slept_over_the_end_of_its_leadership(
    tmp_path: Path, redis_url: str, namespace: str
) -> None:
    """Stopped in the middle of a poll, between finding a ticket and signalling it, and woken when another leads."""
    place = Place(tmp_path, redis_url, namespace)
    config = place.config(
        trackers={"local": {"platform": "local", "poll_interval": "50ms"}},
        # Long enough for a ticket to be opened while one of them sleeps, before the other takes over.
        lease={"leader": "3s", "margin": "200ms"},
        consumer={"kill_grace": "100ms"},
    )
    async with place.store() as store, Daemons(tmp_path) as daemons:
        sleeper = await daemons.start(config, "poller", plan=Plan(str(tmp_path), pause_poll=True))
        await wait_until(lambda: led_by_another(store, ""), what="a leader")
        first = await leader_of(store)
        other = await daemons.start(config, "poller", "consumer")
        [key] = await place.open_tickets()
        # It found the ticket, and stops itself with the signal in its hand.
        await sleeper.stopped(within=30)
        await wait_until(lambda: led_by_another(store, first), what="the other to lead", within=30)
        await place.done(key)
        claims = len(other.lines("transition"))
        assert claims > 0
        # Whatever it wanted to say, nobody listens any more.
        sleeper.send(signal.SIGCONT)
        await sleeper.said("no longer leading")
        assert not sleeper.lines("transition"), "a deposed poller claimed something"
        assert place.count("begin") == 1
        assert await leader_of(store) != first
        inbox = [Signal.from_json(text) for text in await store.redis.lrange(store.keys.inbox, 0, -1)]
        assert not inbox
