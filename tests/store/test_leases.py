"""Locks and leadership: one owner, changes only by compare, and trust that ends before Redis lets go."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentsmith.boottime import boottime
from agentsmith.store import Store, leases
from agentsmith.store.connection import AWAY
from agentsmith.store.leases import Lease, Trust
from tests.support.stores import TIMES, Flush, MakeStore, PrivateServer, a_process, begin, locked, ticket_id
from tests.support.wait import wait_until

TICKET = ticket_id(1)


class Clocks:
    """Boot-time clock and wall clock, moved by hand."""

    def __init__(self, boot: float = 1000.0, wall: float = 5000.0) -> None:
        self.boot, self.wall = boot, wall

    def pass_(self, seconds: float) -> None:
        """Time passes on both."""
        self.boot += seconds
        self.wall += seconds

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(leases, "boottime", lambda: self.boot)
        monkeypatch.setattr(time, "time", lambda: self.wall)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    made = Clocks()
    made.install(monkeypatch)
    return made


# The trust window.


def test_trust_ends_a_margin_before_the_lease(clocks: Clocks) -> None:
    trust = Trust(ttl=120, margin=20)
    assert trust.until == 1100
    clocks.pass_(99.999)
    assert trust.holds
    clocks.pass_(0.001)
    assert not trust.holds


def test_trust_counts_from_before_the_renewal_was_sent(clocks: Clocks) -> None:
    trust = Trust(ttl=120, margin=20)
    clocks.pass_(50)
    sent = clocks.boot
    clocks.pass_(30)  # the answer takes its time
    trust.renewed(sent_at=sent)
    assert trust.until == pytest.approx(sent + 100)
    clocks.wall -= 10_000  # neither clock alone may forget how long the answer took
    assert trust.until == pytest.approx(sent + 100)
    clocks.pass_(69)
    assert trust.holds
    clocks.pass_(1)
    assert not trust.holds


def test_an_answer_that_comes_after_the_window_gives_no_trust(clocks: Clocks) -> None:
    trust = Trust(ttl=120, margin=20)
    sent = clocks.boot
    clocks.pass_(101)
    trust.renewed(sent_at=sent)
    assert not trust.holds


def test_a_sleeping_machine_wakes_without_trust(clocks: Clocks) -> None:
    trust = Trust(ttl=120, margin=20)
    clocks.boot += 3600  # whatever the wall clock was set to meanwhile
    assert not trust.holds
    assert trust.until < clocks.boot


def test_a_wall_clock_that_jumps_ahead_ends_the_trust_early(clocks: Clocks) -> None:
    trust = Trust(ttl=120, margin=20)
    clocks.wall += 90
    assert trust.holds
    assert trust.until == pytest.approx(clocks.boot + 10)
    clocks.wall += 10
    assert not trust.holds


def test_a_wall_clock_that_is_set_back_lengthens_nothing(clocks: Clocks) -> None:
    trust = Trust(ttl=120, margin=20)
    clocks.wall -= 10_000
    assert trust.until == 1100
    clocks.boot += 100
    assert not trust.holds


def test_trust_that_was_ended_is_over(clocks: Clocks) -> None:
    trust = Trust(ttl=120, margin=20)
    trust.end()
    assert not trust.holds
    assert trust.until < clocks.boot
    trust.renewed(sent_at=clocks.boot)
    assert trust.holds


@given(
    ttl=st.floats(1, 1000),
    share=st.floats(0.01, 0.9),
    events=st.lists(st.tuples(st.floats(0, 500), st.floats(-500, 500)), max_size=20),
)
def test_no_clock_can_lengthen_the_window(ttl: float, share: float, events: list[tuple[float, float]]) -> None:
    clocks, margin = Clocks(), ttl * share
    with pytest.MonkeyPatch.context() as patch:
        clocks.install(patch)
        trust = Trust(ttl=ttl, margin=margin)
        end = clocks.boot + ttl - margin
        for seconds, jump in events:
            clocks.pass_(seconds)
            clocks.wall += jump
            assert trust.until <= end + 1e-6
            assert not trust.holds or clocks.boot < end


# The key behind it.


async def test_one_owner_at_a_time(store: Store, make_store: MakeStore) -> None:
    mine, theirs = store.leadership("poller", "me"), make_store().leadership("poller", "you")
    assert not mine.trust.holds, "no trust before the key is ours"
    assert await mine.take()
    assert mine.trust.holds
    assert not await theirs.take()
    assert not theirs.trust.holds
    assert await mine.take(), "taking again what is ours"
    await mine.release()
    assert not mine.trust.holds
    assert await theirs.take()


async def test_of_many_at_once_one_gets_it(make_store: MakeStore) -> None:
    contenders = [make_store().leadership("poller", f"p{n}") for n in range(20)]
    assert sum(await asyncio.gather(*(lease.take() for lease in contenders))) == 1


async def test_renewal_prolongs_the_key_and_the_trust(store: Store, raw: Any) -> None:
    lease = store.leadership("poller", "me")
    await lease.take()
    until = lease.trust.until
    await raw.pexpire(lease.key, 1000)
    assert await lease.renew()
    assert await raw.pttl(lease.key) > 1000
    assert lease.trust.until > until


async def test_a_late_renewal_or_release_does_not_harm_a_newer_owner(store: Store, raw: Any) -> None:
    old, new = store.leadership("poller", "old"), store.leadership("poller", "new")
    await old.take()
    await raw.delete(old.key)  # it lapsed
    assert await new.take()
    assert old.trust.holds
    assert not await old.renew()
    assert not old.trust.holds, "now it knows"
    await old.release()
    assert await raw.get(new.key) == new.token
    assert await new.renew()


async def test_every_term_has_a_higher_fence_also_after_a_flush(store: Store, flush: Flush) -> None:
    lease, fences = store.leadership("poller", "me"), []
    for forgets in (False, True, False):
        assert await lease.take()
        fences.append(lease.fence)
        assert await lease.take(), "the same term, if the answer to the first call was lost"
        assert lease.fence == fences[-1]
        await lease.release()
        if forgets:
            await flush()
    assert fences == sorted(set(fences))


async def test_a_late_word_of_an_earlier_term_does_not_harm_our_own_newer_one(store: Store, raw: Any) -> None:
    early, later = store.leadership("poller", "me"), store.leadership("poller", "me")
    await early.take()
    await raw.delete(early.key)
    assert await later.take()
    assert not await early.renew()
    await early.release()
    assert await later.renew()


async def test_a_lapsed_key_is_not_renewed(store: Store, raw: Any) -> None:
    lease = store.leadership("poller", "me")
    await lease.take()
    await raw.delete(lease.key)
    assert not await lease.renew()
    assert await raw.exists(lease.key) == 0


async def test_a_key_lapses_by_itself_after_the_trust_in_it(make_store: MakeStore) -> None:
    store = make_store(leader=0.12)
    mine, theirs = store.leadership("poller", "me"), store.leadership("poller", "you")
    assert await mine.take()
    assert mine.trust.until - boottime() <= 0.12 - 0.02

    async def taken_over() -> bool:
        return await theirs.take()

    await wait_until(taken_over, what="somebody else takes the lapsed key")
    assert not mine.trust.holds


async def test_a_fenced_lock_is_held_busy_or_fenced(store: Store) -> None:
    run, _ = await begin(store)
    key = store.keys.fence(TICKET)
    mine, theirs = (store.ticket_lock("local", TICKET, token) for token in ("me", "you"))
    assert await mine.take_fenced(key, run.fence - 1) == "fenced"
    assert not mine.trust.holds
    assert await mine.take_fenced(key, run.fence) == "held"
    assert mine.trust.holds
    assert await mine.take_fenced(key, run.fence) == "held", "the same again after a lost answer"
    assert await theirs.take_fenced(key, run.fence) == "busy"
    assert not theirs.trust.holds
    await mine.release()
    assert await theirs.take_fenced(key, run.fence + 1) == "held"


async def test_a_fenced_lock_needs_no_known_fence(store: Store) -> None:
    lock = store.ticket_lock("local", TICKET, "me")
    assert await lock.take_fenced(store.keys.fence(TICKET), 1) == "held"


async def test_the_lock_of_a_ticket_is_not_that_of_another(store: Store) -> None:
    await locked(store, 1)
    assert await store.ticket_lock("local", ticket_id(2), "you").take()
    assert await store.ticket_lock("jira", ticket_id(1), "you").take()
    assert not await store.ticket_lock("local", ticket_id(1), "you").take()


async def test_a_frozen_redis_ends_the_trust_before_the_key_can_pass_on(private_server: PrivateServer) -> None:
    server = private_server()
    async with Store(server.url, times=TIMES) as store, Store(server.url, times=TIMES) as other:
        await other.presence.tick(a_process(), ttl=60, running={})  # connected before the server stands still
        mine = Lease(store.redis, store.keys.leader("poller"), "me", ttl=0.3, margin=0.15)
        theirs = Lease(other.redis, mine.key, "you", ttl=0.3, margin=0.15)
        assert await mine.take()
        server.freeze()
        renewing, taking = asyncio.create_task(mine.renew()), asyncio.create_task(theirs.take())
        await wait_until(lambda: not mine.trust.holds, what="the trust ends while nothing is answered")
        assert not renewing.done()
        assert not taking.done()
        server.thaw()
        # Either the renewal came first and was too late to be trusted for long, or the key had lapsed.
        renewed, passed = await renewing, await taking
        assert not (renewed and passed)
        assert not (passed and mine.trust.holds)


async def test_a_renewal_that_redis_answers_too_late_is_not_trusted(private_server: PrivateServer) -> None:
    server = private_server()
    async with Store(server.url, times=TIMES) as store:
        lease = Lease(store.redis, store.keys.leader("poller"), "me", ttl=0.3, margin=0.15)
        assert await lease.take()
        server.command("CLIENT", "PAUSE", "600000", "WRITE")
        renewing = asyncio.create_task(lease.renew())
        await asyncio.sleep(0)  # it is under way
        answered = boottime() + 0.16
        await wait_until(lambda: boottime() > answered, what="the answer to be too late")
        server.command("CLIENT", "UNPAUSE")
        renewed = await renewing
        assert not lease.trust.holds
        assert not renewed or lease.trust.until < boottime()


async def test_no_answer_at_all_is_an_outage_not_a_loss(private_server: PrivateServer) -> None:
    server = private_server()
    async with Store(server.url, times=TIMES) as store:
        lease = store.leadership("poller", "me")
        assert await lease.take()
        server.kill()
        with pytest.raises(AWAY):
            await lease.renew()
        assert lease.trust.holds, "it stands until its window closes"
