"""The one comment during a run: brought up to date now and then, never on a short run, and honest about its text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentsmith.config import Consumer as ConsumerSettings
from agentsmith.config import Duration, Grace, Pipeline
from agentsmith.config import Run as RunSettings
from agentsmith.domain.errors import RateLimited
from agentsmith.domain.intent import Intent
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.memo import Memo
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Sticky
from agentsmith.store import Store
from agentsmith.tickets.lock import holding
from agentsmith.tickets.publish import Published
from tests.support.stores import an_edge
from tests.support.wait import wait_until
from tests.support.world import World, open_world, world_config

OpenWorld = Callable[..., AbstractAsyncContextManager[World]]
Serve = Callable[[World], Awaitable[None]]


@pytest.fixture
def opened(tmp_path: Path, store: Store, redis_url: str) -> OpenWorld:
    def make(*steps: object, **run: Any) -> AbstractAsyncContextManager[World]:
        config = world_config(
            tmp_path / "data",
            pipelines={"work": Pipeline.model_validate({"steps": list(steps)})},
            consumer=ConsumerSettings(kill_grace=Grace(0.5), drain_timeout=Grace(0)),
            run=RunSettings(**run),
        )
        return open_world(tmp_path, store, redis_url, config=config)

    return make


@pytest.fixture
async def serving() -> AsyncIterator[Serve]:
    tasks: list[tuple[World, asyncio.Task[None]]] = []

    async def serve(world: World) -> None:
        tasks.append((world, asyncio.create_task(world.consumer.serve())))

    yield serve
    for world, task in tasks:
        await world.consumer.drain(timeout=0)
        await task


def written(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that our comment was given, in order."""
    tracker, texts = world.trackers["local"], []
    real = tracker.write_sticky

    async def write(ticket: Ticket, text: str, memo: Memo, *, known: Sticky | None, deadline: float) -> Sticky:
        texts.append(text)
        return await real(ticket, text, memo, known=known, deadline=deadline)

    monkeypatch.setattr(tracker, "write_sticky", write)
    return texts


async def test_a_short_run_writes_its_comment_three_times(opened: OpenWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claimed, started, ended: the number that the request budgets of all platforms rest on."""
    async with opened({"run": "echo '::progress a'; echo '::progress b'"}, {"run": "true"}) as world:
        texts = written(world, monkeypatch)
        key = await world.open_ticket()
        await world.claim(key)
        await world.run_queue()
        assert await world.statuses(key) == {Status.DONE}
    assert len(texts) == 3
    assert "It is next in the queue." in texts[0]
    assert "⬜" in texts[1]
    assert texts[2].count("✅") == 2


async def test_a_long_run_tells_how_it_stands(
    opened: OpenWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serving: Serve
) -> None:
    script = f"echo '::progress reading'; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"
    async with opened(
        {"run": "true", "name": "first"}, {"run": script, "name": "second"}, comment_every=Duration(0.1)
    ) as w:
        texts = written(w, monkeypatch)
        key = await w.open_ticket()
        await w.claim(key)
        await serving(w)
        await wait_until(lambda: any("`reading`" in text for text in texts), what="the progress to be told")
        live = next(text for text in texts if "`reading`" in text)
        assert "is being worked on" in live
        assert "✅ `first`" in live
        assert "▶️ `second` — `reading`" in live
        assert live.count("Run `") == 1
        (tmp_path / "go").touch()
        await _until(w, key, Status.DONE)


async def test_however_much_a_worker_says_edits_are_rare(opened: OpenWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "for i in $(seq 200); do echo ::progress step $i; sleep 0.005; done"
    async with opened({"run": script}, comment_every=Duration(0.4)) as world:
        texts = written(world, monkeypatch)
        key = await world.open_ticket()
        await world.claim(key)
        started = asyncio.get_running_loop().time()
        await world.run_queue()
        took = asyncio.get_running_loop().time() - started
    assert len(texts) <= 3 + took / 0.4


async def test_a_platform_that_has_had_enough_does_not_stop_the_run(
    opened: OpenWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serving: Serve
) -> None:
    # There is always something new to tell, whenever the platform begins to refuse it.
    script = f'i=0; while [ ! -e {tmp_path}/go ]; do i=$((i+1)); echo "::progress $i"; sleep 0.05; done'
    async with opened({"run": script}, comment_every=Duration(0.05)) as world:
        key = await world.open_ticket()
        await world.claim(key)
        tracker, refused = world.trackers["local"], []
        real = tracker.get

        async def limited(key: str) -> Ticket:
            if world.consumer.running and (tmp_path / "data" / "runs").exists() and not (tmp_path / "go").exists():
                refused.append(key)
                raise RateLimited("too many requests")
            return await real(key)

        await serving(world)
        await _until(world, key, Status.IN_PROGRESS)
        await wait_until(lambda: any((tmp_path / "data" / "runs").glob("*/output.log")), what="the step to run")
        monkeypatch.setattr(tracker, "get", limited)
        await wait_until(lambda: len(refused) >= 2, what="the comment to be refused twice")
        (tmp_path / "go").touch()
        await _until(world, key, Status.DONE)


async def test_people_learn_that_they_changed_the_text_under_a_run(
    opened: OpenWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serving: Serve
) -> None:
    script = (
        f"touch {tmp_path}/started; while [ ! -e {tmp_path}/go ]; do echo '::progress '$(date +%N); sleep 0.05; done"
    )
    async with opened({"run": script}, comment_every=Duration(0.1)) as world:
        texts = written(world, monkeypatch)
        key = await world.open_ticket(body="as it was")
        await world.claim(key)
        await serving(world)
        await wait_until((tmp_path / "started").exists, what="the step to run")
        assert not any("text was changed" in text for text in texts)
        tracker = world.trackers["local"]
        real = tracker.get

        async def edited(key: str) -> Ticket:
            return replace(await real(key), body="as somebody wants it now")

        monkeypatch.setattr(tracker, "get", edited)
        await wait_until(lambda: any("text was changed" in text for text in texts), what="the note about the text")
        (tmp_path / "go").touch()
        await _until(world, key, Status.DONE)
        assert "text was changed" in texts[-1]
        assert "agentsmith retry" in texts[-1]


async def test_a_text_that_changed_before_the_start_is_told_at_the_start(
    opened: OpenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened({"run": "true"}) as world:
        key = await world.open_ticket(body="as it was")
        await world.claim(key)
        texts = written(world, monkeypatch)
        tracker = world.trackers["local"]
        real_get, real_move = tracker.get, tracker.move

        async def edited(key: str) -> Ticket:
            return replace(await real_get(key), body="otherwise")

        async def move(ticket: Ticket, move: Any) -> Any:
            outcome: Any = await real_move(ticket, move)
            return replace(outcome, ticket=replace(outcome.ticket, body="otherwise"))

        monkeypatch.setattr(tracker, "get", edited)
        monkeypatch.setattr(tracker, "move", move)
        await world.run_queue()
    assert all("text was changed" in text for text in texts)


async def test_the_comment_links_to_where_people_see_runs(opened: OpenWorld) -> None:
    async with opened({"run": "exit 1"}, link="https://runs.example/{run}") as world:
        key = await world.open_ticket()
        await world.claim(key)
        await world.run_queue()
        [comment] = await world.comments(key)
    run = comment.split("Run `")[1].split("`")[0]
    assert f"(https://runs.example/{run})" in comment
    assert "agentsmith logs" not in comment


async def test_without_a_link_the_comment_names_the_command(opened: OpenWorld) -> None:
    async with opened({"run": "exit 1"}) as world:
        key = await world.open_ticket()
        await world.claim(key)
        await world.run_queue()
        [comment] = await world.comments(key)
    run = comment.split("Run `")[1].split("`")[0]
    assert f"`agentsmith logs {run}`" in comment
    assert "agentsmith retry" in comment


async def test_a_withdrawal_that_comes_late_does_not_touch_the_comment_of_what_has_ended(opened: OpenWorld) -> None:
    async with opened({"run": "true"}) as world:
        key = await world.open_ticket()
        await world.claim(key)
        await world.run_queue()
        before, store, ticket = await world.comments(key), world.store, world.ticket_id(key)
        async with holding(store, "local", ticket) as lock:
            late = Intent(
                ticket, "local", key, 0, an_edge(Status.IN_PROGRESS, None), "r", "withdrawn", "its label is gone"
            )
            begun = await store.intents.decide(ticket, late, lock_key=lock.key, token=lock.token, look_in=0)
            told = await world.parts.publisher.publish(replace(late, fence=begun.fence), lock=lock)
        assert told == Published(Status.DONE)
        assert await world.statuses(key) == {Status.DONE}
        assert await world.comments(key) == before


async def _until(world: World, key: str, status: Status) -> None:
    async def there() -> bool:
        return await world.statuses(key) == {status}

    await wait_until(there, what=f"the label {status.value}")
