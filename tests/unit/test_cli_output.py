"""What commands show: plain when piped, folded on a terminal, and never more than text."""

from __future__ import annotations

import asyncio
import io
import json

import pytest
from rich.console import Console
from rich.text import Text

from agentsmith import redaction
from agentsmith.cli import output
from agentsmith.cli.status_view import view
from tests.support.wait import wait_until

ROWS = [("local/tickets#1", "short"), ("local/tickets#22", "a title that is rather long for a narrow terminal")]


LEADER = {
    "role": "poller",
    "holder": "host-12-abc",
    "for_seconds": 7200.0,
    "last_cycle_seconds_ago": 12.0,
    "last_cycle_did": "web: 3 found",
}


def seen(reachable: bool = True) -> dict[str, object]:
    """What `status --json` could answer."""
    filters = [{"tracker": "local", "status": "done", "filter": "agentsmith ticket list --label agent-smith:done"}]
    queued = {"ticket": "local/tickets#7", "pipeline": "hello", "for_seconds": 3.2, "title": "[red]loud[/red]\x1b[2J"}
    if not reachable:
        return {"redis": {"reachable": False, "where": "our own", "problem": None}, "triggers": [], "filters": filters}
    return {
        "redis": {"reachable": True, "version": "Valkey 9.1.2", "where": "our own", "settling": False, "problem": None},
        "queued": 30,
        "queue": [{**queued, "position": number} for number in range(1, 31)],
        "running": [
            {
                "ticket": "local/tickets#1",
                "for_seconds": 400.0,
                "run": "r1",
                "consumer": "host-12-abc",
                "alive": False,
                "pipeline": "hello",
                "step": "greet",
                "step_seconds": 2.5,
                "title": "A\x1b[2J" + "x" * 200,
            }
        ],
        "waiting": [{"ticket": "local/tickets#3", "until": "2030-01-01T00:00:00.000+00:00"}],
        "asking": [
            {"ticket": "local/tickets#8", "for_seconds": 7200.0, "question": "Which\n\x1b[2Jone?", "why": None},
            {"ticket": "local/tickets#9", "for_seconds": 1.0, "question": None, "why": "it was not claimed: too often"},
            {"ticket": "local/tickets#10", "for_seconds": 1.0, "question": None, "why": None},
        ],
        "leaders": [LEADER],
        "processes": [
            {
                "host": "host",
                "pid": 12,
                "roles": ["consumer", "poller"],
                "slots": 2,
                "version": "1.0",
                "problem": "",
                "trouble": "",
            }
        ],
        "dead_letters": 2,
        "unpublished": [{"ticket": "local/tickets#4", "to": None, "outcome": "withdrawn"}],
        "signals": 0,
        "refused": [
            {
                "tracker": "web",
                "doing": "setting labels",
                "since": "2030",
                "said": "no\x1b[2J",
                "remedy": "give it more",
            }
        ],
        "triggers": [{"label": "agent-smith", "pipeline": "hello"}],
        "filters": filters,
    }


def rendered(width: int, *, fancy: bool) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, markup=False, highlight=False, force_terminal=fancy, color_system=None)
    for part in view(seen(), fancy=fancy):
        console.print(part, soft_wrap=not fancy)
    return stream.getvalue()


def test_text_of_strangers_moves_no_cursor() -> None:
    assert output.clean("a\x1b[2Jb\rc\nd\u202e") == "a�[2Jb�c�d�"
    assert output.clean("a\tb\nc\x07", lines=True) == "a\tb\nc�"


def test_piped_columns_are_aligned_and_whole() -> None:
    lines = list(output.aligned(("Ticket", "Title"), ROWS))
    assert lines[0] == "Ticket            Title"
    assert [line.index(title) for line, (_, title) in zip(lines[1:], ROWS, strict=True)] == [18, 18]


def test_piped_columns_need_no_head() -> None:
    assert list(output.aligned((), [("a", "b"), (Text("ccc"), "d")])) == ["a    b", "ccc  d"]
    assert list(output.aligned((), [])) == []


def test_results_are_plain_when_piped(capsys: pytest.CaptureFixture[str]) -> None:
    output.rows(("Ticket", "Title"), [("1", Text("done", style="green"))])
    output.title("Heading")
    assert capsys.readouterr().out == "Ticket  Title\n1       done\n\nHeading\n"


@pytest.mark.parametrize("width", [40, 80, 120])
def test_on_a_terminal_nothing_is_wider_than_it(width: int) -> None:
    shown = rendered(width, fancy=True)
    assert max(map(len, shown.splitlines())) <= width
    assert "\x1b" not in shown.replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\x1b[31m", "")


def test_status_says_everything_in_plain_lines() -> None:
    shown = rendered(40, fancy=False)
    assert "Redis  Valkey 9.1.2, our own\n" in shown
    assert "  1   local/tickets#7  hello     3.2 s  [red]loud[/red]�[2J\n" in shown
    assert "… and 10 more" in shown
    assert f"  local/tickets#1  7 min  r1   host-12-abc  no     hello     greet, 2.5 s  A�[2J{'x' * 54}…\n" in shown
    assert "local/tickets#3  20" in shown
    assert "Waiting for a person: 3\n" in shown
    assert "  local/tickets#8   2 h    Which �[2Jone?\n" in shown
    assert "  local/tickets#9   1.0 s  it was not claimed: too often\n" in shown
    assert "  local/tickets#10  1.0 s  see its comment\n" in shown
    assert "Dead letters: 2; see them with: agentsmith dead-letters list" in shown
    assert "web refuses setting labels since 2030: no�[2J\n  give it more\n" in shown
    assert "local/tickets#4 → no label (withdrawn)" in shown
    assert "  host  12   consumer, poller  2      1.0\n" in shown
    assert "  poller  host-12-abc  2 h  12 s ago: web: 3 found\n" in shown
    assert "  done    agentsmith ticket list --label agent-smith:done\n" in shown


def test_status_with_nothing_up_says_what_to_do() -> None:
    stream = io.StringIO()
    for part in view(dict(seen(reachable=False)), fancy=False):
        Console(file=stream, width=200).print(part)
    assert "Nothing is up" in stream.getvalue()
    assert "agentsmith up" in stream.getvalue()


def test_an_error_shows_no_secret_and_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    redaction.register_secret("s3cr3t-value")
    output.error("refused: s3cr3t-value at redis://me:hush@host/0 [bold]\x1b[1m")
    shown = capsys.readouterr().err
    assert shown == "error: refused: *** at redis://***@host/0 [bold]�[1m\n"


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0.0 s"), (0.25, "0.2 s"), (59, "59 s"), (150, "2 min"), (8000, "2 h"), (2e5, "2 d")]
)
def test_spans_read_as_people_say_them(seconds: float, text: str) -> None:
    assert output.ago(seconds) == text


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    output.json_result({"title": "grün"})
    assert json.loads(capsys.readouterr().out) == {"title": "grün"}


def test_progress_is_told_only_after_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    progress = output.WaitingNote("waiting")
    progress.tick()
    assert capsys.readouterr().err == ""
    progress._since -= 2
    progress.tick()
    progress.tick()
    assert capsys.readouterr().err == "waiting …\n"


@pytest.mark.parametrize(("terminal", "told"), [(True, "waiting for Redis …\n"), (False, "")])
async def test_a_wait_is_explained_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool, told: str
) -> None:
    monkeypatch.setattr(output, "_AFTER", 0.01)
    monkeypatch.setattr(output, "fancy", lambda _: terminal)
    go = asyncio.Event()
    waiting = asyncio.create_task(output.patiently(_answer(go), "waiting for Redis"))
    await wait_until(lambda: capsys.readouterr().err == told if told else True, what="the explanation")
    go.set()
    assert await waiting == 42


async def _answer(go: asyncio.Event) -> int:
    await go.wait()
    return 42
