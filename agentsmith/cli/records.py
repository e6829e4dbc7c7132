"""`agentsmith runs` and `agentsmith logs`: what was run on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from agentsmith import redaction
from agentsmith.cli import finding, output, reach, session
from agentsmith.config import Config
from agentsmith.daemon.open import open_trackers
from agentsmith.domain.errors import ConfigError, SecretMissing, StoreUnavailable
from agentsmith.domain.report import duration_text
from agentsmith.domain.ticket import TicketId
from agentsmith.pipelines.record import FOLDER, LOG, RunRecord, read, records

_LOOK_EVERY: Final = 0.1
_ASK_EVERY: Final = 1.0
_SHORTEST_BEGINNING: Final = 8
"""Characters of a run's name that are enough to look for it by them."""
_LOOKS_MISSED: Final = 2
"""How often in a row nobody may have a run in hand before it counts as cut off: Redis may be away for a moment."""
_CHUNK: Final = 64 * 1024


def runs(file: Path | None, ticket: str | None, *, limit: int, as_json: bool) -> None:
    """Show the latest runs."""
    config = session.begin(file)
    wanted = asyncio.run(_ticket_id(config, ticket)) if ticket is not None else None
    found = (record for record in records(config.data_dir) if wanted in (None, record.ticket))
    shown = list(itertools.islice(found, limit))
    if ticket is not None and not shown:
        asyncio.run(_look_for(config, ticket))
    known = asyncio.run(_ask_if_possible(config, shown))
    if as_json:
        output.json_result([_as_data(record, known) for record in shown])
    elif not shown:
        output.say("there are no runs on this machine yet" if ticket is None else "it has no runs on this machine")
    else:
        head = ("Run", "Ticket", "Pipeline", "Outcome", "Started", "Took", "Used")
        # No table: that would fold the names of runs on a narrow terminal, and people copy those.
        for line in output.aligned(head, [_row(r, known) for r in shown]):
            output.say(line)


async def _ticket_id(config: Config, text: str) -> str:
    async with open_trackers(config) as trackers:
        tracker, key = finding.find(text, trackers)
        return tracker.ticket_id(key)


async def _look_for(config: Config, text: str) -> None:
    """ConfigError when there is no such ticket: nobody should take a slip of the pen for a ticket that never ran."""
    async with open_trackers(config) as trackers:
        with contextlib.suppress(SecretMissing):  # nobody can tell, and what was run here is known without
            await finding.read(*finding.find(text, trackers))


@dataclass(frozen=True, slots=True)
class _Known:
    """What Redis knows of runs whose records have no end."""

    alive: frozenset[str] = frozenset()
    """The runs that somebody has in hand."""
    ended: Mapping[str, str] = field(default_factory=dict)
    """The status of tickets that ended, though a full disk or a crash kept the end out of the record."""

    def state(self, record: RunRecord) -> str:
        if record.ended is not None:
            return record.outcome
        return "running" if record.run in self.alive else "cut off"

    def ticket_status(self, record: RunRecord) -> str | None:
        return record.status if record.ended is not None else self.ended.get(record.ticket)


async def _ask_if_possible(config: Config, shown: Sequence[RunRecord]) -> _Known:
    """The same as `_ask`; without the secret of Redis, what was run here is known all the same."""
    with contextlib.suppress(SecretMissing):
        return await _ask(config, shown)
    return _Known()


async def _ask(config: Config, shown: Sequence[RunRecord]) -> _Known:
    """None of it while no Redis runs; StoreUnavailable when it cannot be asked: an outage is no answer (P9)."""
    open_ended = [record for record in shown if record.ended is None]
    if not open_ended:
        return _Known()
    async with reach.store_if_up(config) as opened:
        if opened is None:
            return _Known()
        reasons = opened.store.looks
        tickets = {record.ticket for record in open_ended}
        ended = {ticket: await reasons.ended_as(TicketId(ticket)) for ticket in tickets}
        alive = frozenset(lease.run for lease in await opened.store.runs.running())
    return _Known(alive, {ticket: status for ticket, status in ended.items() if status})


def _as_data(record: RunRecord, known: _Known) -> dict[str, Any]:
    took = (record.ended or time.time()) - record.started
    return {
        **asdict(record),
        "state": known.state(record),
        "ticket_status": known.ticket_status(record),
        "seconds": round(took, 3),
    }


def _row(record: RunRecord, known: _Known) -> tuple[str, ...]:
    started = datetime.fromtimestamp(record.started, UTC).strftime("%Y-%m-%d %H:%M:%S")
    took = duration_text(record.ended - record.started) if record.ended is not None else "-"
    outcome, status = known.state(record), known.ticket_status(record)
    if outcome == "cut off" and status:
        outcome = f"its record ends here; the ticket is {status}"
    return record.run, record.ticket, record.pipeline, outcome, started, took, _used(record)


def _used(record: RunRecord) -> str:
    usage = record.usage
    parts = [
        f"{usage[name]:.0f} {word}"
        for name, word in (("input_tokens", "in"), ("output_tokens", "out"))
        if usage.get(name)
    ]
    if usage.get("cost_usd"):
        parts.append(f"${usage['cost_usd']:.2f}")
    return ", ".join(parts) or "-"


def logs(file: Path | None, text: str, *, follow: bool, as_json: bool) -> None:
    """Print the output of a run; as JSON it is one document, which with `follow` waits for the run's end."""
    config = session.begin(file)
    run = _find(config, text)
    lines: list[str] = []
    write = lines.append if as_json else output.say
    if follow:
        asyncio.run(_follow(config, run, write))
    else:
        for line in _lines(Tail(config.data_dir / FOLDER / run / LOG).rest()):
            write(line)
    if as_json:
        record = read(config.data_dir, run)
        assert record is not None  # noqa: S101 - it was found by its record
        output.json_result(
            {
                "run": run,
                "ticket": record.ticket,
                "pipeline": record.pipeline,
                "state": asyncio.run(_ask_if_possible(config, [record])).state(record),
                "lines": lines,
            }
        )


async def _follow(config: Config, run: str, write: Callable[[str], None]) -> None:
    """Print what the run prints until it ends, also if it was cut off and will never say that it ended."""
    gone = asyncio.Event()
    watching = asyncio.create_task(_watch(config, run, gone))
    try:
        await followed(config.data_dir, run, write, until=gone)
    finally:
        watching.cancel()
    if gone.is_set():
        output.note(f"run {run} was cut off: nobody carries it out any more")


async def _watch(config: Config, run: str, gone: asyncio.Event) -> None:
    missed = 0
    while missed < _LOOKS_MISSED:
        record = await asyncio.to_thread(read, config.data_dir, run)
        if record is None or record.ended is not None:
            return
        with contextlib.suppress(StoreUnavailable):  # then nobody knows whether it goes on
            missed = 0 if run in (await _ask(config, [record])).alive else missed + 1
        await asyncio.sleep(_ASK_EVERY)
    gone.set()


def _find(config: Config, text: str) -> str:
    """The one run that the text names: its whole name, else the last run of the ticket, else how its name begins.

    All names begin with the year, so only a longer beginning says which run is meant.
    """
    known = list(records(config.data_dir))
    if any(record.run == text for record in known):
        return text
    with contextlib.suppress(ConfigError):
        ticket = asyncio.run(_ticket_id(config, text))
        for record in known:
            if record.ticket == ticket:
                return record.run
    begins = [record.run for record in known if record.run.startswith(text)] if len(text) >= _SHORTEST_BEGINNING else []
    if len(begins) > 1:
        raise ConfigError(f"{text!r} is the beginning of {len(begins)} runs; say more of it: {', '.join(begins[:3])} …")
    if begins:
        return begins[0]
    raise ConfigError(
        f"no run on this machine is called {text[:80]!r}, and no ticket of that name was run here; see: agentsmith runs"
    )


class Tail:
    """A log that may still grow."""

    def __init__(self, file: Path) -> None:
        self._file, self._at = file, 0

    def rest(self) -> Iterator[bytes]:
        """What is new since the last call."""
        try:
            with self._file.open("rb") as stream:
                stream.seek(self._at)
                while data := stream.read(_CHUNK):
                    self._at += len(data)
                    yield data
        except FileNotFoundError:
            return


def _lines(chunks: Iterator[bytes], left: bytes = b"") -> Iterator[str]:
    """Whole lines, without secrets (P8), and without what would act on a terminal."""
    for chunk in chunks:
        *whole, left = (left + chunk).split(b"\n")
        yield from map(_fit_to_print, whole)
    if left:
        yield _fit_to_print(left)


def _fit_to_print(line: bytes) -> str:
    text = redaction.redact(line.decode("utf-8", "replace").rstrip("\r"))
    return output.clean(text, lines=True) if sys.stdout.isatty() else text


async def followed(
    data_dir: Path, run: str, write: Callable[[str], None], *, until: asyncio.Event | None = None
) -> None:
    """Print what the run prints until its record says that it ended, or `until` is set."""
    tail, left = Tail(data_dir / FOLDER / run / LOG), b""
    while True:
        record = read(data_dir, run)
        over = (record is not None and record.ended is not None) or (until is not None and until.is_set())
        for chunk in tail.rest():
            *whole, left = (left + chunk).split(b"\n")
            for line in whole:
                write(_fit_to_print(line))
        if over:
            if left:
                write(_fit_to_print(left))
            return
        await asyncio.sleep(_LOOK_EVERY)
