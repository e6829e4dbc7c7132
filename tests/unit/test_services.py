"""Services start in the order of their list and end stage by stage; the documentation shows the same list."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any, cast

import pytest

from agentsmith.daemon.build import Role
from agentsmith.daemon.services import SERVICES, Node, Service, Stage, StartedServices, services_of

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
NODE = cast(Node, None)
ALL = frozenset(Role)


class Story:
    """Services that note what happens to them."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def service(
        self, name: str, stage: Stage, *, asked: bool = False, left: bool = False, slow: bool = False
    ) -> Service:
        """One that is cancelled, or `asked` to end; a `slow` one takes its time; some have something `left` to do."""
        over = asyncio.Event()

        async def run() -> None:
            self.told.append(f"{name} starts")
            try:
                await over.wait()
            finally:
                for _ in range(10 if slow else 0):
                    await asyncio.sleep(0)
                self.told.append(f"{name} ends")

        async def stop(_: Node) -> None:
            over.set()

        async def ended(_: Node) -> None:
            self.told.append(f"after {name}")

        return Service(name, ALL, stage, lambda _: run(), stop if asked else None, ended if left else None)


async def test_services_start_in_the_order_of_the_list_and_end_stage_by_stage() -> None:
    story = Story()
    services = [
        story.service("redis", Stage.REDIS),
        story.service("presence", Stage.PRESENCE, left=True),
        story.service("strays", Stage.PRESENCE, slow=True),
        story.service("poller", Stage.FINDING, slow=True),
        story.service("receiver", Stage.RECEIVING, asked=True, slow=True),
        story.service("consumer", Stage.RUNNING, asked=True, slow=True),
    ]
    started = StartedServices(services, NODE, asyncio.create_task)
    await asyncio.sleep(0)
    assert story.told == [f"{service.name} starts" for service in services]
    story.told.clear()
    await started.stop()
    assert story.told == [
        "receiver ends",
        "poller ends",
        "consumer ends",
        "presence ends",
        "strays ends",
        "after presence",
        "redis ends",
    ]


async def test_what_has_nothing_to_do_here_is_neither_started_nor_waited_for() -> None:
    started = StartedServices([Service("web", ALL, Stage.RECEIVING, lambda _: None)], NODE, asyncio.create_task)
    await started.stop()


async def test_a_service_that_ended_by_itself_keeps_nobody_waiting() -> None:
    async def once() -> None:
        pass

    story = Story()
    services = [Service("once", ALL, Stage.FINDING, lambda _: once()), story.service("redis", Stage.REDIS)]
    started = StartedServices(services, NODE, asyncio.create_task)
    await asyncio.sleep(0)
    await started.stop()
    assert story.told == ["redis starts", "redis ends"]


async def test_a_service_that_fails_ends_the_others_with_its_cause() -> None:
    async def fail() -> None:
        raise RuntimeError("it broke")

    story = Story()
    services = [story.service("redis", Stage.REDIS), Service("broken", ALL, Stage.FINDING, lambda _: fail())]
    with pytest.raises(ExceptionGroup) as failed:
        async with asyncio.TaskGroup() as group:
            StartedServices(services, NODE, group.create_task)
    assert isinstance(failed.value.exceptions[0], RuntimeError)
    assert story.told == ["redis starts", "redis ends"]


def test_every_role_brings_what_it_needs_once() -> None:
    def names(roles: set[Role]) -> list[str]:
        return [service.name for service in services_of(frozenset(roles))]

    assert names(set()) == []
    assert {"redis", "presence", "configuration"} < set(names({Role.HOUSEKEEPING}))
    assert names({Role.RECEIVER, Role.POLLER}).count("signals") == 1
    assert names(set(Role)) == [service.name for service in SERVICES]
    assert len(set(names(set(Role)))) == len(SERVICES)


def test_the_stop_order_is_documented() -> None:
    rows = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in OPERATIONS.read_text().splitlines()
        if re.match(r"\| [1-5] \|", line)
    ]
    shown = [(row[0], row[1].strip("`"), _roles(row[2]), row[4].startswith("cancelled")) for row in rows]
    listed = sorted(SERVICES, key=lambda service: service.stage)
    assert shown == [(str(int(s.stage)), s.name, s.roles, s.stop is None) for s in listed]


def _roles(text: str) -> frozenset[Any]:
    return ALL if text == "all" else frozenset(Role(name.strip("` ")) for name in text.split(","))
