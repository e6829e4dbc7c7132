"""What a running daemon makes of shadows, changed files, open doors and commands in comments; real processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from agentsmith.cli import app
from agentsmith.cli.status import gather
from agentsmith.domain.gates import Gate
from agentsmith.simulators import serve
from agentsmith.simulators.playground import Playground
from agentsmith.simulators.playgrounds import PLAYGROUNDS
from tests.e2e.daemons import Daemons
from tests.e2e.place import FOREIGN, WITHIN, Place
from tests.support.cli import quiet_logs
from tests.support.senders import SENDERS
from tests.support.stores import all_queued
from tests.support.wait import slowly, wait_until
from tests.support.world import TRIGGER

DONE: Final = "agent-smith:done"
ASKED_BY_POST: Final = ("/wiql", "/workitemsbatch", "/search/jql", "/issue/bulkfetch", "/permissions/check", "/graphql")
"""How the paths end of what is asked by POST and changes nothing."""


@pytest.fixture
async def daemons(tmp_path: Path) -> AsyncIterator[Daemons]:
    async with Daemons(tmp_path) as daemons:
        yield daemons


@pytest.fixture
def place(tmp_path: Path, redis_url: str, namespace: str) -> Place:
    return Place(tmp_path, redis_url, namespace, step={"run": "true"})


# --- up --shadow ------------------------------------------------------------------------------------------------------


async def test_a_shadow_decides_on_every_platform_and_writes_on_none(place: Place, daemons: Daemons) -> None:
    """The request logs of the platforms are the witness; polls and webhooks both lead to a decision."""
    stages: dict[str, Playground] = {name: made() for name, made in PLAYGROUNDS.items()}
    async with contextlib.AsyncExitStack() as served, place.store() as store:
        for stage in stages.values():
            await served.enter_async_context(serve(stage.simulator))
        wanted = {name: stage.tickets.open("Wanted") for name, stage in stages.items()}
        over = {name: stage.tickets.open("Over", labels=(DONE,)) for name, stage in stages.items()}
        for name, stage in stages.items():
            stage.tickets.add_label(wanted[name], TRIGGER)
            stage.tickets.add_label(over[name], TRIGGER)
        config = place.config(trackers={name: {**s.tracker(), "poll_interval": "1s"} for name, s in stages.items()})
        before = {name: shown(stage, wanted[name], over[name]) for name, stage in stages.items()}
        daemon = await daemons.start(config, shadow=True)

        def decided(tickets: int) -> bool:
            return len({line["ticket"] for line in daemon.lines("shadow")}) >= tickets

        await wait_until(slowly(lambda: decided(len(stages))), what="a decision about each", within=60)
        port = await daemon.port()
        for name, stage in stages.items():
            stage.send_webhooks(f"http://127.0.0.1:{port}/webhooks/{name}")
        late = {name: stage.tickets.open("Late") for name, stage in stages.items()}
        for name, stage in stages.items():
            stage.tickets.add_label(late[name], TRIGGER)
        await wait_until(slowly(lambda: decided(2 * len(stages))), what="a decision about the late ones", within=60)
        for name, stage in stages.items():
            writes = [
                f"{r.method} {r.path}"
                for r in stage.simulator.requests
                if r.method not in ("GET", "HEAD") and not r.path.endswith(ASKED_BY_POST)
            ]
            assert writes == [], name
            assert any(r.method == "GET" for r in stage.simulator.requests), "it did look"
            assert shown(stage, wanted[name], over[name]) == before[name]
            assert (stage.tickets.labels(late[name]), stage.tickets.texts(late[name])) == ([TRIGGER], [])
        assert [line["level"] for line in daemon.lines() if line["event"].startswith("this is a shadow")] == ["warning"]
        # It keeps its thoughts apart: beside it a daemon finds everything untouched.
        assert not await store.presence.alive()
        assert not await all_queued(store)
        assert await store.signals.count() == 0
        daemon.send(signal.SIGTERM)
        assert await daemon.ended() == 0
        assert not daemon.lines("transition")


def shown(stage: Playground, *keys: str) -> list[Any]:
    return [(sorted(stage.tickets.labels(key)), stage.tickets.texts(key)) for key in keys]


# --- the configuration file -------------------------------------------------------------------------------------------


def rewrite(file: Path, **changes: Any) -> None:
    """As an editor does: a new file in place of the old one."""
    fresh = file.with_suffix(".new")
    fresh.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **changes}))
    fresh.replace(file)


async def test_a_changed_file_counts_at_once_and_a_broken_one_changes_nothing(place: Place, daemons: Daemons) -> None:
    config = place.config()
    known = place.loaded()
    daemon = await daemons.start(config)
    await daemon.port()
    rules = yaml.safe_load(config.read_text())["triggers"]

    # Somebody saves the file: it is noticed without being told.
    rewrite(config, triggers=[*rules, {"label": "second", "pipeline": "work"}])
    await daemon.said("the configuration was read again")
    key = await place.open_ticket("second")
    await place.shows(key, "second", DONE)

    # Somebody breaks it. SIGHUP reads it at once; the last good rules stay in force, and everybody can see why.
    rewrite(config, triggers=[{"label": "third", "pipeline": "nowhere"}])
    daemon.send(signal.SIGHUP)
    wrong = await daemon.said("the configuration is wrong; the last good one stays in force")
    assert wrong["level"] == "error"
    assert "there is no pipeline `nowhere`" in wrong["problem"]

    async def shown(problem: str) -> bool:
        found = [process["problem"] or "" for process in (await gather(known))["processes"] or []]
        return len(found) == 1 and (problem in found[0] if problem else not found[0])

    await wait_until(lambda: shown("there is no pipeline `nowhere`"), what="status to show it", within=WITHIN)
    key = await place.open_ticket("second")
    await place.shows(key, "second", DONE)

    # Somebody mends it; only a restart would change the port, and that is said too.
    rewrite(config, triggers=[{"label": "third", "pipeline": "work"}], server={"port": 0, "host": "localhost"})
    daemon.send(signal.SIGHUP)
    await wait_until(lambda: shown("takes effect after a restart: server"), what="status to say so", within=WITHIN)
    key = await place.open_ticket("third")
    await place.shows(key, "third", DONE)
    rewrite(config, server={"port": 0})
    await wait_until(lambda: shown(""), what="status to be content", within=WITHIN)
    daemon.send(signal.SIGTERM)
    assert await daemon.ended() == 0


# --- who is let in ----------------------------------------------------------------------------------------------------


async def test_an_open_door_is_shouted_about_and_a_closed_one_named(place: Place, daemons: Daemons) -> None:
    sender = SENDERS["github"]
    # Nothing listens there: a tracker that is away neither stops nor delays the receiver.
    block = {"platform": "github", "repository": "acme/web", "token": "t", "base_url": "http://127.0.0.1:1"}
    config = place.config(
        trackers={
            "open": {**block, "insecure": True},
            "closed": {**block, "repository": "acme/closed"},
            "both": {**block, "repository": "acme/both", "insecure": True, "webhook_secret": "s3cret"},
        }
    )
    daemon = await daemons.start(config, "receiver")
    serving = await daemon.said("serving")
    loud = [line for line in daemon.lines() if line["event"].startswith("INSECURE")]
    assert [(line["tracker"], line["level"]) for line in loud] == [("open", "warning")]
    assert "FROM ANYBODY" in serving["trackers"]["open"]
    assert "no webhooks (there is no webhook_secret)" in serving["trackers"]["closed"]
    assert "webhooks at /webhooks/both" in serving["trackers"]["both"]
    headers, body = sender.delivery(sender.labelled())
    del headers["x-hub-signature-256"]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{serving['port']}") as http:
        answers = {
            name: (await http.post(f"/webhooks/{name}", content=body, headers=headers)).status_code
            for name in ("open", "closed", "both", "nobody")
        }
    assert answers == {"open": 202, "closed": 401, "both": 401, "nobody": 404}


# --- commands in comments ---------------------------------------------------------------------------------------------


async def command(*arguments: str, code: int = 0) -> None:
    """A command of the command line, in a thread of this process."""
    with quiet_logs():
        assert await asyncio.to_thread(app.run, arguments) == code


async def test_commands_in_comments_on_the_built_in_tracker(
    tmp_path: Path, redis_url: str, namespace: str, daemons: Daemons, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path, redis_url, namespace, step={"run": f"test -e {tmp_path / 'mended'}"})
    config = place.config()

    async def comment(key: str, text: str) -> None:
        await command("ticket", "comment", key, text, "--actor", "mona", "--config", str(config))

    async def answered(key: str, *texts: str) -> None:
        """Return once all of these stand in the ticket's comments."""
        said = slowly(lambda: all(any(text in body for body in place.comments(key)) for text in texts))
        await wait_until(said, what=f"{texts} on {key}, where there is {place.comments(key)}", within=WITHIN)

    other = await place.open_ticket()
    await comment(other, "/agent-smith why")
    assert "the command is obeyed as soon as one is" in capsys.readouterr().err
    await daemons.start(config)
    await answered(other, "neither queued nor running", "is unknown")
    key = await place.open_ticket(TRIGGER)
    await place.shows(key, TRIGGER, "agent-smith:failed")
    await comment(key, "/agent-smith why")
    await answered(key, "its label says failed", "one trigger matches: yes", "loop limit: yes")
    (tmp_path / "mended").touch()
    await comment(key, "/agent-smith retry\nI have mended it")
    await place.shows(key, TRIGGER, DONE)
    await answered(key, "it will run again")
    await comment(key, "/agent-smith cancel")
    await answered(key, "there is nothing to cancel")
    await comment(key, "/agent-smith dance")
    await answered(key, "one of: retry, answer, cancel, why")


async def test_cancel_in_a_comment_ends_a_run(tmp_path: Path, redis_url: str, namespace: str, daemons: Daemons) -> None:
    place = Place(tmp_path, redis_url, namespace)
    config = place.config()
    place.hold()
    await daemons.start(config)
    [key] = await place.open_tickets()
    await place.works()
    await command("ticket", "comment", key, "/agent-smith cancel", "--actor", "mona", "--config", str(config))
    await place.shows(key, TRIGGER, "agent-smith:failed", *FOREIGN)
    assert any("cancelled by mona" in body for body in place.comments(key))
    assert place.nobody_works()


# --- why --------------------------------------------------------------------------------------------------------------


async def test_a_loop_is_parked_and_everybody_is_told_the_same(
    place: Place, daemons: Daemons, capsys: pytest.CaptureFixture[str]
) -> None:
    config = str(place.config(claim={"loop_limit": {"claims": 1, "per": "1h"}}))
    daemon = await daemons.start(Path(config))
    port = await daemon.port()
    key = await place.open_ticket(TRIGGER)
    await place.shows(key, TRIGGER, DONE)
    limit = "claimed once within 1 h, claim.loop_limit is 1"
    await command("retry", key, "--actor", "mona", "--config", config, code=1)
    refused = capsys.readouterr().err
    assert f"it was not claimed: {limit}; find out what sets the trigger again" in refused
    await place.shows(key, TRIGGER, "agent-smith:waiting")
    [comment] = place.comments(key)
    assert limit in comment

    await command("why", key, "--json", "--config", config)
    told = json.loads(capsys.readouterr().out)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
        answer = await http.get(f"/api/v1/tickets/{key}/why")
    assert (answer.status_code, answer.json()) == (200, told), "the command and the API say the same"
    assert (told["now"], told["published"]) == ("neither queued nor running", "waiting")
    first = told["looks"][0]
    assert (first["outcome"], [gate["passed"] for gate in first["gates"]]) == ("Claimed", [True] * len(Gate))
    # A poll may have come behind it, and have seen the label only.
    shut = next(look["gates"][-1] for look in told["looks"] if look["gates"] and look["gates"][-1]["saw"] == limit)
    assert (shut["gate"], shut["passed"]) == ("loop limit", False)
    assert "raise claim.loop_limit, or retry after 20" in shut["remedy"]

    await command("why", key, "--config", config)
    shown = capsys.readouterr().out
    assert "label    agent-smith:waiting, as agentsmith wrote it last" in shown
    assert f": it was not claimed: {limit}" in shown
    assert [line for line in shown.splitlines() if line.startswith("before, ") and line.endswith("it was claimed")]
    assert [line for line in shown.splitlines() if line.startswith("-") and "capacity" in line], "it was not looked at"
