"""Steps come from the product and from installed packages; the documented example is one of those."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import cast

import pytest

from agentsmith.config import Step, StepKind
from agentsmith.config import steps as kinds
from agentsmith.domain.errors import ConfigError
from agentsmith.domain.lifecycle import Status
from agentsmith.pipelines.context import Desk, Pen, StepContext, TicketWriter, WritePermit
from agentsmith.store import Store
from tests.support.config_platforms import load_text
from tests.support.installing import install
from tests.support.world import open_world, sh

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "step-plugin"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    kinds.offered.cache_clear()
    yield
    kinds.offered.cache_clear()


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(EXAMPLE, tmp_path / "installed", monkeypatch)


async def room(answer: bytes = b"200 OK") -> tuple[asyncio.Server, str, list[bytes]]:
    """Somebody who listens, and what was said to them."""
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-l"))
        heard.append(await reader.readexactly(length))
        writer.write(b"HTTP/1.1 " + answer + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    return server, f"http://127.0.0.1:{port}/hook", heard


@pytest.mark.usefixtures("installed")
async def test_the_documented_step_runs_in_a_pipeline(tmp_path: Path, store: Store, redis_url: str) -> None:
    server, url, heard = await room()
    told = Step.read({"notify": url, "if": "failure", "with": {"text": "{{ ticket.key }} failed"}})
    async with server, open_world(tmp_path, store, redis_url, sh("exit 3", "build"), told) as world:
        key = await world.open_ticket()
        await world.claim(key)
        await world.run_queue()
        assert await world.statuses(key) == {Status.FAILED}
        [comment] = await world.comments(key)
    assert json.loads(heard[0])["text"] == f"{key} failed"
    assert "✅ `notify`" in comment


def test_steps_of_earlier_releases_find_what_they_write_with() -> None:
    context, permit, writer = (
        StepContext.__new__(StepContext),
        cast(WritePermit, object()),
        cast(TicketWriter, object()),
    )
    context.permit, context.ticket_writer = permit, writer
    assert (context.pen, context.desk) == (permit, writer)
    assert (Pen, Desk) == (WritePermit, TicketWriter)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("notify", "`notify` needs a url; write `- notify: …`"),
        ("notify: {url: x, txt: y}", "unknown key; did you mean `text`? Known: url, text"),
        ("notfy: x", "did you mean `notify`?"),
    ],
)
def test_what_it_is_told_is_checked_when_the_configuration_is_read(tmp_path: Path, step: str, why: str) -> None:
    with pytest.raises(ConfigError) as told:
        load_text(tmp_path, f"pipelines: {{p: {{steps: [{step}]}}}}")
    assert why in str(told.value)


def test_without_the_package_the_step_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown step `notify`"):
        load_text(tmp_path, "pipelines: {p: {steps: [notify: x]}}")


def test_something_else_behind_an_entry_point_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint(name="broken", value="os:getcwd", group=kinds.ENTRY_POINTS)
    monkeypatch.setattr(kinds, "entry_points", lambda group: [point] if group == kinds.ENTRY_POINTS else [])
    with pytest.raises(ConfigError, match=r"'broken' \(os:getcwd\) must name an"):
        kinds.offered()


def test_a_built_in_kind_cannot_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    async def mine(*_: object) -> None:
        return None

    class Point:
        name, value = "run", "mine:STEP"

        def load(self) -> StepKind:
            return StepKind(kinds.PushSettings, mine)

    monkeypatch.setattr(kinds, "entry_points", lambda group: [Point()] if group == kinds.ENTRY_POINTS else [])
    assert kinds.known_kinds()["run"] is kinds.RunSettings
