"""Log lines: one per event, no secret in them, and nothing that a stranger's text could forge."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NoReturn
from urllib.parse import quote

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentsmith import logs, redaction
from agentsmith.domain.lifecycle import Status

Format = Literal["console", "json"]
FORMATS: tuple[Format, ...] = ("console", "json")
SECRET = 'hunter2"&\n/é-and-more'


class Stream(io.StringIO):
    """Where the lines go; may pretend to be a terminal."""

    terminal = False

    def isatty(self) -> bool:
        return self.terminal

    def lines(self) -> list[str]:
        return self.getvalue().split("\n")[:-1]

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines()]


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    root, noisy = logging.getLogger(), [logging.getLogger(name) for name in logs._NOISY]
    before = (list(root.handlers), root.level, [logger.level for logger in noisy])
    yield
    root.handlers[:], level, levels = before
    root.setLevel(level)
    for logger, old in zip(noisy, levels, strict=True):
        logger.setLevel(old)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    redaction._secrets.clear()


@pytest.fixture
def stream() -> Stream:
    return Stream()


def logger() -> structlog.stdlib.BoundLogger:
    found: structlog.stdlib.BoundLogger = structlog.get_logger("agentsmith.test")
    return found


def test_json_has_time_level_and_event_first(stream: Stream) -> None:
    logs.configure("json", "info", stream)
    logger().info("claimed", ticket="acme/web#1", fence=3, ratio=float("nan"))
    (event,) = stream.events()
    assert list(event)[:3] == ["timestamp", "level", "event"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event.pop("timestamp"))
    assert event == {
        "level": "info",
        "event": "claimed",
        "ticket": "acme/web#1",
        "fence": 3,
        "ratio": "nan",
        "logger": "agentsmith.test",
    }


def test_console_is_for_people(stream: Stream) -> None:
    logs.configure("console", "info", stream)
    logger().warning("claimed", ticket="acme/web#1", title="say \"hi\" to='me'", labels=["a", "b"], none=None)
    (line,) = stream.lines()
    assert line[25:] == (
        r"""warning  claimed ticket=acme/web#1 title="say \"hi\" to='me'" labels=["a", "b"] none=None"""
    )


def test_auto_follows_the_stream(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    logs.configure("auto", "info", stream)
    logger().info("one")
    assert stream.events()[0]["event"] == "one"
    terminal = Stream()
    terminal.terminal = True
    logs.configure("auto", "info", terminal)
    logger().info("two")
    assert "\x1b[32minfo" in terminal.lines()[0]
    monkeypatch.setenv("NO_COLOR", "1")
    logs.configure("auto", "info", terminal)
    logger().info("three")
    assert "\x1b" not in terminal.lines()[1]
    assert len(stream.lines()) == 1  # the first stream is no longer written to


def test_a_logger_made_before_configure_follows_it(stream: Stream) -> None:
    early = structlog.get_logger()
    logs.configure("json", "info", stream)
    early.info("late")
    assert stream.events()[0]["event"] == "late"


def test_levels(stream: Stream) -> None:
    logs.configure("json", "warning", stream)
    logger().info("no")
    logger().error("yes")
    assert [event["event"] for event in stream.events()] == ["yes"]


def test_libraries_speak_through_us_and_only_when_it_matters(stream: Stream) -> None:
    logs.configure("json", "info", stream)
    for name in ("uvicorn.access", "uvicorn.error", "httpx", "apscheduler.scheduler", "httpcore.http11"):
        logging.getLogger(name).info("chatter of %s", name)
    logging.getLogger("uvicorn.error").warning("trouble with %s", "https://u:p@host/x")
    logging.getLogger("elsewhere").info("plain")
    assert [(e["logger"], e["level"], e["event"]) for e in stream.events()] == [
        ("uvicorn.error", "warning", "trouble with https://***@host/x"),
        ("elsewhere", "info", "plain"),
    ]


def test_libraries_tell_more_when_debugging(stream: Stream) -> None:
    logs.configure("json", "debug", stream)
    logging.getLogger("httpx").info("GET /")
    logging.getLogger("httpx").debug("too much")
    assert [event["event"] for event in stream.events()] == ["GET /"]


def test_bound_context_is_part_of_the_line(stream: Stream) -> None:
    logs.configure("json", "info", stream)
    with structlog.contextvars.bound_contextvars(run="r1"):
        logger().info("x")
    assert stream.events()[0]["run"] == "r1"


@dataclass
class Holder:
    token: str
    note: str


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def leaky(log: structlog.stdlib.BoundLogger) -> None:
    """Try every way in which a secret could get into a line."""
    log.info(f"event {SECRET}", plain=SECRET, inside=f"x{SECRET}y", nested={"a": [{"b": (SECRET,)}], SECRET: 1})
    log.info(
        "objects", held=Holder(SECRET, SECRET), raw=SECRET.encode(), some={SECRET, "other"}, error=ValueError(SECRET)
    )
    log.info("json", body=json.dumps({"x": SECRET}), url=f"https://h/?q={quote(SECRET, safe='')}")
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as cause:
            raise ValueError(f"bad\n{SECRET}") from cause
    except ValueError:
        log.exception("failed")
        logging.getLogger("library").exception("failed %s", SECRET)


@pytest.mark.parametrize("format_", FORMATS)
def test_a_registered_secret_is_nowhere(stream: Stream, format_: Format) -> None:
    logs.configure(format_, "info", stream)
    redaction.register_secret(SECRET)
    leaky(logger())
    assert len(stream.lines()) == 5
    assert "hunter2" not in stream.getvalue()
    assert "and-more" not in stream.getvalue()


def test_without_registering_it_would_be_there(stream: Stream) -> None:
    logs.configure("json", "info", stream)
    leaky(logger())
    assert stream.getvalue().count("hunter2") > 5


def test_fields_that_are_secret_by_name(stream: Stream) -> None:
    logs.configure("json", "info", stream)
    logger().info(
        "x",
        token="abc",
        webhook_secret="abc",
        password="abc",
        headers={"Authorization": "abc", "X-Api-Key": "abc", "PRIVATE-TOKEN": "abc", "Accept": "text"},
        pairs=[("Cookie", "abc"), ("Accept", "text")],
        usage={"tokens": 12, "input_tokens": 3},
        token_set=True,
        secret=None,
    )
    (event,) = stream.events()
    assert "abc" not in stream.getvalue()
    assert event["headers"] == {"Authorization": "***", "X-Api-Key": "***", "PRIVATE-TOKEN": "***", "Accept": "text"}
    assert event["pairs"] == [["Cookie", "***"], ["Accept", "text"]]
    assert event["usage"] == {"tokens": 12, "input_tokens": 3}
    assert (event["token_set"], event["secret"]) == (True, None)


def test_numbers_can_be_secrets_too(stream: Stream) -> None:
    logs.configure("json", "info", stream)
    redaction.register_secret("12345678")
    logger().info("x", value=12345678, other=1234567)
    assert (stream.events()[0]["value"], stream.events()[0]["other"]) == ("***", 1234567)


@pytest.mark.parametrize("format_", FORMATS)
def test_what_cannot_be_shown_does_not_cost_the_line(stream: Stream, format_: Format) -> None:
    logs.configure(format_, "info", stream)
    circle: list[object] = []
    circle.append(circle)
    logger().info("x", broken=Broken(), inside=[Broken()], circle=circle)
    (line,) = stream.lines()
    assert "<Broken>" in line
    assert "…" in line or "\\u2026" in line


@pytest.mark.parametrize("format_", FORMATS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text())
def test_no_text_breaks_the_line(format_: Format, text: str) -> None:
    stream = Stream()
    logs.configure(format_, "info", stream)
    logger().info("x", title=text, nested={text: [text]}, last=1)
    logging.getLogger("library").error("said %s", text)
    lines = stream.lines()
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)


FORGERIES = ["a\nlevel=error", "x outcome=applied", 'q" outcome=applied', "\x1b[2Jgone", "\u202eevil"]


@pytest.mark.parametrize("text", FORGERIES)
def test_no_text_poses_as_another_field(stream: Stream, text: str) -> None:
    logs.configure("console", "info", stream)
    logger().info("x", title=text, outcome="lost")
    (line,) = stream.lines()
    outside = re.sub(r'"(?:\\.|[^"\\])*"', '""', line)
    assert outside.split()[2:] == ["x", 'title=""', "outcome=lost"]


def fail() -> NoReturn:
    raise ValueError("bad\nnews")


def test_exceptions_stay_on_one_line(stream: Stream) -> None:
    logs.configure("console", "info", stream)
    try:
        fail()
    except ValueError as error:
        logger().exception("failed")
        logger().error("again", exc_info=error)
        logging.getLogger("library").error("third", exc_info=True, stack_info=True)
    assert len(stream.lines()) == 3
    assert re.search(r'exception="ValueError: bad\\nnews \[.*test_logs\.py:\d+ fail\]"', stream.lines()[0])


def test_json_keeps_the_whole_traceback(stream: Stream) -> None:
    logs.configure("json", "info", stream)
    try:
        fail()
    except ValueError:
        logger().exception("failed")
    logger().info("no exception", exc_info=True)
    failed, fine = stream.events()
    assert failed["exception"].startswith("Traceback (most recent call last):\n")
    assert "exception" not in fine


def test_a_transition_is_one_canonical_line(stream: Stream) -> None:
    logs.configure("json", "info", stream)
    logs.transition(
        logger(),
        ticket="github.com/acme/web#12",
        platform="github",
        run="r1",
        fence=7,
        from_=Status.IN_PROGRESS,
        to=Status.DONE,
        outcome="applied",
    )
    logs.transition(
        logger(),
        ticket="t",
        platform="local",
        run=None,
        fence=None,
        from_=Status.ENQUEUED,
        to=None,
        outcome="lost race",
    )
    first, second = stream.events()
    assert list(first) == [
        "timestamp",
        "level",
        "event",
        "ticket",
        "platform",
        "run",
        "fence",
        "from",
        "to",
        "outcome",
        "logger",
    ]
    assert (first["event"], first["from"], first["to"]) == ("transition", "in-progress", "done")
    assert (second["from"], second["to"], second["outcome"]) == ("enqueued", "none", "lost race")


class Minutes:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def minutes(monkeypatch: pytest.MonkeyPatch) -> Minutes:
    clock = Minutes()
    monkeypatch.setattr("agentsmith.logs.time.monotonic", clock)
    return clock


def test_lines_of_one_kind_are_counted_and_not_all_written(stream: Stream, minutes: Minutes) -> None:
    """Whoever sends us ten thousand bad requests fills no disk with them, and hides nothing else."""
    logs.configure("json", "info", stream)
    for number in range(1294):
        logger().info("webhook refused", tracker="web", why=f"for the {number}th time")
    logger().info("webhook refused", tracker="other")
    logging.getLogger("asyncio").error("socket.accept() out of system resource")
    told = [event["event"] for event in stream.events()]
    assert told.count("webhook refused") == logs.MOST_ALIKE + 1
    assert told[-1] == "socket.accept() out of system resource"
    minutes.now = 61.0
    logger().info("something else")
    rest, last = stream.events()[-2:]
    assert rest["event"] == f"webhook refused … and {1294 - logs.MOST_ALIKE:,} more like it"
    assert (rest["level"], rest["logger"], last["event"]) == ("info", "agentsmith.test", "something else")
    logger().info("webhook refused", tracker="web")
    assert stream.events()[-1]["event"] == "webhook refused", "a new minute"


def test_what_happens_to_many_tickets_is_told_of_each(stream: Stream, minutes: Minutes) -> None:
    logs.configure("json", "info", stream)
    for number in range(500):
        logger().info("transition", ticket=f"acme/web#{number}")
    assert len(stream.events()) == 500


def test_what_was_left_out_is_told_at_the_end(stream: Stream, minutes: Minutes) -> None:
    logs.configure("console", "info", stream)
    for _ in range(100):
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    for handler in logging.getLogger().handlers:
        handler.close()
    assert len(stream.lines()) == logs.MOST_ALIKE + 1
    assert "and 40 more like it" in stream.lines()[-1]
