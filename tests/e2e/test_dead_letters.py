"""Dead letters on the command line: seen, understood, run again or forgotten."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentsmith.cli import app
from agentsmith.store import DeadLetter, Store
from tests.support.cli import Cli, run_here
from tests.support.json_answers import parsed
from tests.support.stores import TIMES, a_request


@pytest.fixture
def cli(tmp_path: Path, redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    cli.configure(f"redis: {{url: '{redis_url}', namespace: {namespace}}}\n")
    with run_here(cli, monkeypatch):
        yield cli


@pytest.fixture
def with_store(redis_url: str, namespace: str) -> Callable[[Callable[[Store], Awaitable[Any]]], Any]:
    """Does something with the store, outside of any command."""

    def do(work: Callable[[Store], Awaitable[Any]]) -> Any:
        async def inside() -> Any:
            async with Store(redis_url, times=TIMES, namespace=namespace) as store:
                return await work(store)

        return asyncio.run(inside())

    return do


UNREADABLE = DeadLetter('{"version": 99}', "version 99 is not understood; this release reads 1", 1.5)


def letter_for(key: str) -> DeadLetter:
    request = a_request(1, key=key, ticket=f"local/tickets#{key}", pipeline="hello")
    return DeadLetter(request.to_json(), "taken 3 times, and each time the consumer died", 1_700_000_000.25)


@pytest.fixture
def letters(cli: Cli, with_store: Any) -> list[DeadLetter]:
    """One for a ticket that has failed, and one that nobody can read."""
    key = asyncio.run(cli.new("Sad", "agent-smith", "agent-smith:failed"))
    made = [letter_for(key), UNREADABLE]

    async def add(store: Store) -> None:
        for letter in made:
            await store.redis.rpush(store.keys.dead_letters, letter.to_json())

    with_store(add)
    return made


def answer(capsys: pytest.CaptureFixture[str], *command: str, code: int = 0) -> Any:
    assert app.run((*command, "--json")) == code
    return parsed(command, capsys.readouterr().out, code=code)


def said(capsys: pytest.CaptureFixture[str], *command: str, code: int = 0) -> str:
    assert app.run(command) == code
    shown = capsys.readouterr()
    return shown.out + shown.err


def test_they_are_listed_and_counted(letters: list[DeadLetter], capsys: pytest.CaptureFixture[str]) -> None:
    listed = answer(capsys, "dead-letters", "list")
    assert [(x["id"], x["ticket"], x["reason"]) for x in listed] == [
        (letters[0].id, "local/tickets#1", letters[0].reason),
        (letters[1].id, None, letters[1].reason),
    ]
    assert answer(capsys, "status")["dead_letters"] == 2
    assert "Dead letters: 2; see them with: agentsmith dead-letters list" in said(capsys, "status")
    text = said(capsys, "dead-letters", "list").splitlines()
    assert text[0].split() == ["Id", "When", "Ticket", "Why"]
    assert text[1].startswith(f"{letters[0].id}  2023-11-14T22:13:20+00:00  local/tickets#1  taken 3 times")
    assert "unreadable" in text[2]


def test_one_is_shown_in_full(letters: list[DeadLetter], capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, "dead-letters", "show", letters[0].id[:6])
    assert "title     title" in shown
    assert "pipeline  hello" in shown
    assert f"agentsmith dead-letters retry {letters[0].id}" in shown
    assert answer(capsys, "dead-letters", "show", letters[0].id)["request"]["key"] == "1"
    assert '{"version": 99}' in said(capsys, "dead-letters", "show", letters[1].id)


def test_a_retry_signals_the_ticket_and_forgets_the_letter(
    letters: list[DeadLetter], capsys: pytest.CaptureFixture[str], with_store: Any
) -> None:
    assert answer(capsys, "dead-letters", "retry", letters[0].id, "--actor", "ann")["outcome"] == "sent"
    assert with_store(lambda store: store.queue.dead_letters()) == [letters[1]]
    (signal,) = with_store(lambda store: store.redis.lrange(store.keys.inbox, 0, -1))
    assert {"kind": "retry", "by": "ann", "key": "1"}.items() <= json.loads(signal).items()


def test_what_cannot_be_retried_is_kept_and_says_why(
    cli: Cli, letters: list[DeadLetter], capsys: pytest.CaptureFixture[str], with_store: Any
) -> None:
    refused = answer(capsys, "dead-letters", "retry", letters[1].id, code=1)
    assert refused["outcome"] == "unreadable"
    assert "version 99 is not understood" in refused["message"]

    async def untrigger() -> None:
        async with cli.desk() as desk:
            await desk.unlabel("1", "agent-smith", actor="ann")

    asyncio.run(untrigger())
    assert "no trigger label is on the ticket" in said(capsys, "dead-letters", "retry", letters[0].id, code=1)
    assert with_store(lambda store: store.queue.dead_letters()) == letters


def test_dropping_one_and_all(letters: list[DeadLetter], capsys: pytest.CaptureFixture[str], with_store: Any) -> None:
    assert answer(capsys, "dead-letters", "drop", letters[0].id) == {"dropped": [letters[0].id]}
    assert with_store(lambda store: store.queue.dead_letters()) == [letters[1]]
    assert said(capsys, "dead-letters", "drop", "--all") == "dropped 1; the tickets keep their labels\n"
    assert with_store(lambda store: store.queue.dead_letters()) == []
    assert said(capsys, "dead-letters", "list") == "there are no dead letters\n"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("show", "nonsense"), "no dead letter is called 'nonsense'; known: "),
        (("drop", "nonsense"), "no dead letter is called 'nonsense'; known: "),
        (("drop",), "name the letters to drop, or say --all"),
        (("drop", "x", "--all"), "name the letters to drop, or say --all"),
    ],
)
def test_a_wrong_name_is_bad_input(
    letters: list[DeadLetter], capsys: pytest.CaptureFixture[str], command: tuple[str, ...], message: str
) -> None:
    assert message in said(capsys, "dead-letters", *command, code=2)
