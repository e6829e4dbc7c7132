"""`agentsmith doctor`: looks at everything that has to be right before work can flow, and says what to do about it.

It starts nothing and writes nothing to a tracker: what a credential may write shows only in its role there.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

import typer
from rich.text import Text

from agentsmith import privacy
from agentsmith.cli import failing, output, reach, session
from agentsmith.cli.checks import Check, State
from agentsmith.cli.doctor_webhooks import examine_webhooks
from agentsmith.config import Config, find_file
from agentsmith.config.env_file import readable_by_others
from agentsmith.config.steps import NEEDS_CODE
from agentsmith.daemon.build import Role
from agentsmith.daemon.open import open_forges, open_trackers
from agentsmith.domain.errors import (
    AgentSmithError,
    ConfigError,
    NotPermitted,
    Refused,
    StoreUnavailable,
    TicketNotFound,
    TrackerError,
    Unauthorized,
)
from agentsmith.domain.forge import EmptyRepository, RepositoryNotFound
from agentsmith.domain.ticket import Actor
from agentsmith.domain.tracker import Access, GuessesAccess, Tracker
from agentsmith.git.command import OLDEST as OLDEST_GIT
from agentsmith.store import Store
from agentsmith.store.connection import SENTINEL_SCHEME
from agentsmith.store.server.binary import ServerUnavailable, find_binary
from agentsmith.tickets import refusals

_PATIENCE: Final = 15.0
_LITTLE_ROOM: Final = 1024**3
_NO_ROOM: Final = 16 * 1024**2
_ABOUT_PEOPLE: Final = (refusals.Doing.ASKING, refusals.Doing.ASKING_CIRCLES)
_SKEW: Final = 5.0
"""Seconds by which our clock and that of Redis may differ before due times are noticeably off."""


def doctor(file: Path | None, *, as_json: bool) -> bool:
    """Look at everything; False when something is wrong."""
    try:
        config = session.begin(file, secrets="all")
    except ConfigError as error:
        if not as_json:
            raise
        remedy = "correct it; agentsmith config check looks at nothing else"
        found = [Check("configuration", State.WRONG, line, remedy) for line in str(error).splitlines()]
        output.json_result({"ok": False, "checks": [asdict(check) for check in found]})
        output.error(str(error))
        raise typer.Exit(failing.BAD_INPUT) from None
    checks = asyncio.run(_examined(config, find_file(file), as_json=as_json))
    fine = all(check.state is not State.WRONG for check in checks)
    if as_json:
        output.json_result({"ok": fine, "checks": [asdict(check) for check in checks]})
    else:
        wrong = sum(check.state is State.WRONG for check in checks)
        output.say()
        output.say("Nothing is wrong." if fine else f"Wrong: {wrong}. What to do stands below each.")
    return fine


async def _examined(config: Config, file: Path | None, *, as_json: bool) -> list[Check]:
    found = []
    async for check in examine(config, file):
        found.append(check)
        if not as_json:
            _show(check)
    return found


def _show(check: Check) -> None:
    style = {State.OK: "green", State.NOTE: "yellow", State.WRONG: "bold red"}[check.state]
    output.show(Text.assemble((f"{check.state.value:<6}", style), f"{check.check:<18} {output.clean(check.saw)}"))
    if check.remedy:
        output.show(Text(f"{'':24} {output.clean(check.remedy)}", style="dim" if check.state is State.OK else ""))


async def examine(config: Config, file: Path | None) -> AsyncIterator[Check]:
    """Every check, as soon as it is made."""
    yield Check("configuration", State.OK, f"{file}: fine" if file else "the defaults; there is no file")
    for check in (*_env_file(config.env_file), *_data_dir(config.data_dir), *_commands(config)):
        yield check
    async for check in _redis(config):
        yield check
    async for check in _trackers(config):
        yield check
    async for check in _code(config):
        yield check
    async for check in examine_webhooks(config):
        yield check


def _env_file(file: Path | None) -> Iterator[Check]:
    if file is None:
        return
    if readable_by_others(file):
        saw = f"{file}: every user of this machine can read the secrets in it"
        yield Check("env_file", State.NOTE, saw, f"chmod 600 {shlex.quote(str(file))}")
    else:
        yield Check("env_file", State.OK, str(file))


def _data_dir(folder: Path) -> Iterator[Check]:
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        yield Check("data directory", State.WRONG, f"{there} is no folder", "set data_dir to a folder of yours")
        return
    if not os.access(there, os.W_OK | os.X_OK):
        remedy = "let this user write there, or set data_dir to a folder where it may"
        yield Check("data directory", State.WRONG, f"{there} may not be written", remedy)
        return
    free = shutil.disk_usage(there).free
    saw = f"{folder}, {free / 1024**3:.1f} GiB free" if there == folder else f"{folder} will be made"
    if free < _NO_ROOM:
        remedy = "make room there: nothing can run until then; lower workspaces.keep_size and run.keep_size"
        yield Check("data directory", State.WRONG, f"{there}: the disk is full, {free} bytes are free", remedy)
    elif free < _LITTLE_ROOM:
        yield Check("data directory", State.NOTE, saw, "make room, or lower workspaces.keep_size and run.keep_size")
    else:
        yield Check("data directory", State.OK, saw)


def _commands(config: Config) -> Iterator[Check]:
    """Programs that the pipelines which labels start will need."""
    used = [config.pipelines[name] for name in dict.fromkeys(t.pipeline for t in config.triggers)]
    steps = [step for pipeline in used for step in pipeline.steps]
    yield _git(needed=any(step.kind in NEEDS_CODE for step in steps))
    named = [getattr(step.settings, "agent", None) or config.run.agent for step in steps if step.kind == "agent"]
    for name in dict.fromkeys(named):
        program = config.agents[name].command[0]
        where = shutil.which(program)
        if where is None:
            remedy = f"install {program}, put it on the PATH of agentsmith, or set agents.{name}.command"
            yield Check(f"agent {name}", State.WRONG, f"there is no program {program}", remedy)
        else:
            yield Check(f"agent {name}", State.OK, where)


def _git(*, needed: bool) -> Check:
    problem = State.WRONG if needed else State.NOTE
    oldest = ".".join(map(str, OLDEST_GIT))
    purpose = "" if needed else "; no pipeline that a label starts needs it yet"
    try:
        done = subprocess.run(
            ["git", "--version"],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PATIENCE,
            check=False,
            env=privacy.bare(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return Check("git", problem, "there is no git" + purpose, f"install git {oldest} or newer")
    version = re.match(r"git version (\d+)\.(\d+)", done.stdout)
    if version is None or (int(version[1]), int(version[2])) < OLDEST_GIT:
        return Check("git", problem, (done.stdout.strip() or "it says nothing") + purpose, f"install {oldest} or newer")
    return Check("git", State.OK, done.stdout.strip())


async def _redis(config: Config) -> AsyncIterator[Check]:
    ours = config.redis.url is None
    try:
        if ours:
            named = Path(config.redis.server) if config.redis.server else None
            await asyncio.to_thread(find_binary, named)
        async with asyncio.timeout(_PATIENCE), reach.store_if_up(config) as opened:
            if opened is None:
                yield Check("redis", State.OK, "our own; it starts with agentsmith up")
                yield _no_daemon()
                return
            await opened.store.prove()
            yield Check("redis", State.OK, f"{opened.version}, {reach.shown_address(config) or 'our own'}")
            sentinel = opened.url.startswith(f"{SENTINEL_SCHEME}:")
            for check in [
                *await _memory(opened.store, ours=ours),
                *await _replicas(opened.store, sentinel=sentinel),
                await _staff(opened.store),
                *await _refused(opened.store, config),
            ]:
                yield check
    except (StoreUnavailable, ServerUnavailable, TimeoutError) as error:
        # Its message says what to do.
        yield Check("redis", State.WRONG, str(error) or f"no answer within {_PATIENCE:.0f} s")


async def _memory(store: Store, *, ours: bool) -> list[Check]:
    found = []
    if not ours and not await store.keeps_a_log():
        remedy = "set appendonly yes and appendfsync always; labels bring tickets back, but attempts count anew"
        found.append(Check("redis memory", State.NOTE, "it keeps no append-only file: a restart forgets", remedy))
    skew = await store.clock() - time.time()
    if abs(skew) > _SKEW:
        saw = f"its clock and ours differ by {abs(skew):.0f} s"
        found.append(Check("clock", State.NOTE, saw, "set both by NTP; due times go by them"))
    return found


async def _replicas(store: Store, *, sentinel: bool) -> list[Check]:
    """Whether an old primary can go on taking writes after a failover, which would let a ticket run twice."""
    replicas, refuses_alone = await store.replication()
    if not sentinel and not replicas:
        return []
    follow = f"{replicas} {'replica follows' if replicas == 1 else 'replicas follow'}"
    if not refuses_alone:
        remedy = "set min-replicas-to-write 1 and min-replicas-max-lag 10 on all of its servers, with two replicas"
        return [Check("redis replicas", State.NOTE, f"{follow}; an old primary would go on taking writes", remedy)]
    if replicas < 2:
        remedy = "add one: with min-replicas-to-write set, nothing goes on while the only replica is away"
        return [Check("redis replicas", State.NOTE, f"{follow}; min-replicas-to-write is set", remedy)]
    return [Check("redis replicas", State.OK, f"{follow}; min-replicas-to-write is set")]


async def _staff(store: Store) -> Check:
    processes = await store.presence.alive()
    missing = [role.value for role in Role if not any(role.value in process.roles for process in processes)]
    if not processes:
        return _no_daemon()
    if missing:
        remedy = f"start one: agentsmith up {' '.join(f'--role {role}' for role in missing)}"
        return Check("daemon", State.NOTE, f"up, but nobody is {', '.join(missing)}", remedy)
    return Check("daemon", State.OK, f"{len(processes)} up, every role is taken")


async def _refused(store: Store, config: Config) -> list[Check]:
    """What the daemon was not let do; a question of ours may well be answered all the same."""
    return [
        Check(
            f"tracker {it.tracker}",
            _unasked(config, it.tracker) if it.doing in _ABOUT_PEOPLE else State.WRONG,
            f"refuses {it.doing}: {it.said}",
            it.remedy,
        )
        for it in await store.refusals.standing()
        if it.tracker in config.trackers
    ]


def _no_daemon() -> Check:
    return Check("daemon", State.NOTE, "none is up, so nothing will happen", "start one: agentsmith up")


async def _trackers(config: Config) -> AsyncIterator[Check]:
    async with open_trackers(config) as trackers:
        asked = [asyncio.create_task(_tracker(tracker, config)) for tracker in trackers.values()]
        for task in asked:
            yield await task


async def _tracker(tracker: Tracker, config: Config) -> Check:
    name = f"tracker {tracker.name}"
    try:
        async with asyncio.timeout(_PATIENCE):
            me = await tracker.me()
            for trigger in config.triggers_for(tracker.name)[:1]:
                async for _ in tracker.find(trigger.label):
                    break
            access = await _access(tracker, me)
    except Unauthorized as error:
        return Check(name, State.WRONG, str(error), refusals.remedy(tracker, signed_in=False))
    except NotPermitted as error:
        return Check(name, State.WRONG, str(error), refusals.remedy(tracker))
    except (Refused, TicketNotFound) as error:
        remedy = f"let the account of trackers.{tracker.name}.token read the project's tickets and members"
        return Check(name, State.WRONG, str(error), remedy)
    except (TrackerError, TimeoutError) as error:
        saw = str(error) or f"no answer within {_PATIENCE:.0f} s"
        return Check(name, State.WRONG, saw, f"is the network up, and trackers.{tracker.name} right? Else try later")
    except AgentSmithError as error:  # a damaged file of the built-in tracker, say; its message says what to do
        return Check(name, State.WRONG, str(error))
    saw = f"{tracker.project}, as {me.name}"
    if isinstance(access, NotPermitted):
        remedy = refusals.remedy(tracker, refusals.Doing.ASKING)
        return Check(name, _unasked(config, tracker.name), f"{saw}, but what people may is not told: {access}", remedy)
    if me.bot or access >= Access.TRIAGE:
        return Check(name, State.OK, f"{saw}, with {access.name.lower()} access" if access else saw)
    if isinstance(tracker, GuessesAccess) and access:
        return Check(name, State.OK, f"{saw}; what it may write shows when it does: no role says it")
    state = State.NOTE if access else State.WRONG
    remedy = f"if labels do not come, give {me.name} a role that may set labels and write comments"
    return Check(name, state, f"{saw}, whose role here is only {access.name.lower()}", remedy)


async def _access(tracker: Tracker, me: Actor) -> Access | NotPermitted:
    """What our account may; the refusal, where the platform tells that only to accounts that may more."""
    try:
        return await tracker.access_of(me)
    except NotPermitted as error:
        return error


def _unasked(config: Config, tracker: str) -> State:
    """How bad it is that nobody tells what people may: it is asked of nobody whom `allow` lets in whatever they may."""
    allow = config.allow_for(tracker)
    return State.NOTE if allow.users or not allow.access else State.WRONG


async def _code(config: Config) -> AsyncIterator[Check]:
    """Repositories, as far as a label can start something that needs one."""
    async with open_forges(config) as forges:
        for name in config.trackers:
            started = [config.pipelines[trigger.pipeline] for trigger in config.triggers_for(name)]
            if not any(step.kind in NEEDS_CODE for pipeline in started for step in pipeline.steps):
                continue
            if (forge := forges.get(name)) is None:
                remedy = f"describe the repository under `repositories`, and name it in trackers.{name}.code"
                yield Check(f"code of {name}", State.WRONG, "a label starts work on code, and there is none", remedy)
                continue
            try:
                async with asyncio.timeout(_PATIENCE):
                    branch = await forge.default_branch()
                yield Check(f"code of {name}", State.OK, f"{forge.clone_url}, branch {branch}")
            except (Unauthorized, Refused, RepositoryNotFound) as error:
                remedy = "let the token read and write the repository's contents and pull requests"
                yield Check(f"code of {name}", State.WRONG, str(error), remedy)
            except EmptyRepository as error:
                yield Check(f"code of {name}", State.WRONG, str(error), "push a first commit")
            except (TrackerError, TimeoutError) as error:
                saw = str(error) or f"no answer within {_PATIENCE:.0f} s"
                yield Check(f"code of {name}", State.WRONG, saw, "is the network up, and the address right?")
