"""The guard, with real processes: P1 (one live run, its child processes included) and P6 stand on it."""

from __future__ import annotations

import ast
import asyncio
import errno
import inspect
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.errors import MachineTrouble
from agentsmith.guard import client as guarded
from agentsmith.guard import program, strays
from agentsmith.guard import spawn as posting
from agentsmith.guard.client import CommandNotStarted, Exit, Farewell, Guard, GuardDied
from tests.support.processes import is_alive, state
from tests.support.wait import quickest, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

CONSUMER = """
import asyncio, dataclasses, json, pathlib, signal, sys
from agentsmith.boottime import boottime
from agentsmith.guard.client import Farewell, Guard

async def main():
    plan = json.loads(sys.argv[1])
    place = pathlib.Path(plan["place"])
    farewell = Farewell(tuple(plan["farewell"]), "last words")
    guard = await Guard.open(trusted_until=boottime() + 60, grace=plan["grace"], farewell=farewell)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, lambda: print("interrupted", flush=True))
    loop.add_signal_handler(signal.SIGTERM, lambda: loop.create_task(guard.stop("asked")))
    loop.add_signal_handler(signal.SIGUSR1, lambda: print(guard.trust(boottime() + 1), "renewed", flush=True))
    print("guard", guard.pid, flush=True)
    ended = await guard.run(plan["argv"], env=plan["env"], cwd=place, log=place / "log", log_limit=10**6)
    print(json.dumps(dataclasses.asdict(ended)), flush=True)
    await guard.close()

asyncio.run(main())
"""

# A command that is hard to be rid of: deaf to SIGTERM, with a deaf orphan in a session of its own beside it.
DEAF = "trap '' TERM; while :; do sleep 0.05; done"
STUBBORN = f"""(setsid sh -c "{DEAF}" >/dev/null 2>&1 &); echo ::up; {DEAF}"""


class Stage:
    """One test's processes: all commands carry a mark in their environment, so that none can hide."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.log = place / "log"
        self.mark = f"GUARD_TEST={uuid.uuid4().hex}"
        name, _, value = self.mark.partition("=")
        self.env = {"PATH": os.environ["PATH"], name: value}
        self.guards: list[int] = []
        self.consumers: list[subprocess.Popen[bytes]] = []
        self.said: list[str] = []

    async def open(self, *, trust: float = 60.0, grace: float = 5.0, farewell: Farewell | None = None) -> Guard:
        """Opens a guard that the end of the test clears away, whatever happens."""
        guard = await Guard.open(trusted_until=boottime() + trust, grace=grace, farewell=farewell)
        self.guards.append(guard.pid)
        return guard

    async def run(self, guard: Guard, *argv: str, **options: Any) -> Exit:
        """Runs a command; one argument alone is a shell script."""
        given: dict[str, Any] = {"env": self.env, "cwd": self.place, "log": self.log, "log_limit": 10**6}
        given |= {"on_line": self.said.append} | options
        return await guard.run(argv if len(argv) > 1 else ("sh", "-c", *argv), **given)

    async def begin(self, guard: Guard, *argv: str, **options: Any) -> asyncio.Task[Exit]:
        """Starts a command, which says `::up` when it is."""
        running = asyncio.create_task(self.run(guard, *argv, **options))
        await wait_until(lambda: "::up" in self.said or running.done(), what="the command is up")
        return running

    def consume(self, script: str, *, grace: float = 0.2) -> subprocess.Popen[bytes]:
        """Starts a consumer in a process group of its own, which opens a guard and runs the script."""
        plan = {
            "place": str(self.place),
            "env": self.env,
            "argv": ["sh", "-c", script],
            "grace": grace,
            "farewell": self.farewell().argv,
        }
        with open(self.place / "consumer", "wb") as output:
            consumer = subprocess.Popen(
                [sys.executable, "-c", CONSUMER, json.dumps(plan)],
                cwd=Path(__file__).parents[2],
                stdout=output,
                process_group=0,
            )
        self.consumers.append(consumer)
        return consumer

    def consumer_says(self) -> str:
        """What the consumer printed so far."""
        said = (self.place / "consumer").read_text()
        self.guards += [int(pid) for pid in re.findall(r"guard (\d+)", said)]
        return said

    def logged(self) -> str:
        """The log so far."""
        return self.log.read_text() if self.log.exists() else ""

    def farewell(self) -> Farewell:
        """A farewell that keeps its input, and whether any process of the run was still there to see it."""
        looks = f"tr '\\0' '\\n' 2>/dev/null </proc/$p/environ | grep -q {self.mark} && echo survivor $p"
        script = f"cat >said; for p in $(ls /proc | grep '^[0-9]'); do {looks}; done >>said; mv said farewell"
        return Farewell(("sh", "-c", f"cd '{self.place}'; {script}"), "last words")

    def farewell_said(self) -> str | None:
        """What the farewell left, or None if it has not run to its end."""
        kept = self.place / "farewell"
        return kept.read_text() if kept.exists() else None

    def altered_guard(self, *changes: tuple[str, str]) -> str:
        """The path of a guard whose text was changed, for what this machine does not bring about by itself."""
        text = inspect.getsource(program)
        for old, new in changes:
            assert text.count(old) == 1
            text = text.replace(old, new)
        path = self.place / "guard.py"
        path.write_text(text)
        return str(path)

    def commands(self) -> list[int]:
        """The living processes of this test's commands."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._marked(pid)]

    def _marked(self, pid: int) -> bool:
        try:
            return self.mark.encode() in Path(f"/proc/{pid}/environ").read_bytes()  # empty for a zombie
        except OSError:
            return False

    def of_guards(self) -> list[int]:
        """The living processes in the sessions of this test's guards: keeper, guard proper, tame commands."""
        pids = map(int, filter(str.isdigit, os.listdir("/proc")))
        return [pid for pid in pids if program.session_of(pid) in self.guards and is_alive(pid)]

    async def clear(self) -> None:
        """Kills what is left, by pid."""
        for consumer in self.consumers:
            consumer.kill()
            consumer.wait()
        for _ in range(100):
            left = self.of_guards() + self.commands()
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            if not left:
                return


def peak_memory(pid: int) -> int:
    """The most memory that a process ever had, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def powerless() -> bool:
    """Whether we may do no more than other users, whoever we are."""
    return "CapEff:\t0000000000000000\n" in Path("/proc/self/status").read_text()


def arguments(*pids: int) -> bytes:
    """What everybody can see of how the processes were started."""
    return b"".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids)


def proper(guard: Guard) -> int:
    """The pid of the guard proper, the keeper's only child."""
    return next(pid for pid, (parent, _) in program.process_table().items() if parent == guard.pid)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    try:
        # What is killed takes a moment to be gone.
        await wait_until(lambda: not stage.commands(), what="no process of the run to be left")
    finally:
        await stage.clear()


@pytest.fixture
async def guard(stage: Stage) -> AsyncIterator[Guard]:
    guard = await stage.open()
    yield guard
    await guard.close()
    assert not stage.of_guards()


# One command after another


async def test_a_command_ends_with_its_exit_code_or_signal(stage: Stage, guard: Guard) -> None:
    plain = await stage.run(guard, "exit 7")
    assert (plain.code, plain.signal, plain.timed_out, plain.stopped) == (7, None, False, None)
    killed = await stage.run(guard, "kill -USR1 $$")
    assert (killed.code, killed.signal) == (None, signal.SIGUSR1)


async def test_the_environment_is_exactly_what_was_passed(stage: Stage, guard: Guard) -> None:
    env = {"ONLY": "this = that", "LATIN": "\udce9"}  # a byte that is not UTF-8, as os.environ holds it
    ended = await stage.run(guard, "/usr/bin/env", "-0", env=env, log_limit=1000)
    assert ended.code == 0
    assert stage.log.read_bytes().split(b"\0") == [b"ONLY=this = that", b"LATIN=\xe9", b""]


async def test_a_command_has_no_input_and_runs_where_it_should(stage: Stage, guard: Guard) -> None:
    ended = await stage.run(guard, "cat; pwd -P", timeout=60)
    assert ended.tail == f"{stage.place.resolve()}\n"


async def test_output_of_both_streams_is_logged_for_the_owner_only(stage: Stage, guard: Guard) -> None:
    first = await stage.run(guard, "echo out; echo err >&2")
    await stage.run(guard, "echo again")
    assert first.tail == "out\nerr\n"
    assert not first.truncated
    assert stage.logged() == "out\nerr\nagain\n"
    assert stage.log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("lines", "limit", "left_out"),
    [(100_000, 1000, 586_903), (100_000, 587_903, 0), (100_000, 587_000, 0), (150, 400, 0)],
)
async def test_the_log_has_the_beginning_and_the_end_and_says_what_is_between(
    stage: Stage, guard: Guard, lines: int, limit: int, left_out: int
) -> None:
    ended = await stage.run(guard, f"seq {lines}; echo the end", log_limit=limit, tail_limit=12)
    whole = "".join(f"{number}\n" for number in range(1, lines + 1)) + "the end\n"
    assert ended.tail == whole[-12:]
    assert ended.truncated
    log = stage.logged()
    assert log.startswith(f"{whole[:limit]}\n[output truncated at {limit} bytes]\n")
    note, end = re.findall(r"\n\[(\d+) bytes left out; the end:\]\n(.*)", log, re.DOTALL)[0]
    assert whole.endswith("\n" + end)
    assert limit + int(note) + len(end) == len(whole), "every byte is there, or counted"
    assert len(end) <= min(limit, program.LOG_END)
    assert end.endswith("the end\n")
    assert int(note) - left_out < 10, "no more than a broken line is left out in vain"


async def test_a_short_output_is_logged_as_it_is_and_nothing_of_one_without_a_log(stage: Stage, guard: Guard) -> None:
    assert not (await stage.run(guard, "printf 12345", log_limit=5)).truncated
    assert stage.logged() == "12345"
    stage.log.unlink()
    assert (await stage.run(guard, "printf 12345", log_limit=0)).truncated
    assert stage.logged() == "\n[output truncated at 0 bytes]\n"
    stage.log.unlink()
    await stage.run(guard, "yes | tr -d '\\n' | head -c 2000; echo", log_limit=100)
    assert stage.logged().endswith(f"left out; the end:]\n{'y' * 99}\n"), "one long line has an end too"


async def test_the_tail_is_text_that_any_store_takes(stage: Stage, guard: Guard) -> None:
    ended = await stage.run(guard, r"printf 'a\0b\377c'")
    assert ended.tail == "ab\ufffdc"
    cut = await stage.run(guard, "printf '\u20ac\u20ac'", tail_limit=4)
    assert cut.tail == "\u20ac"
    assert (await stage.run(guard, "echo x", tail_limit=0)).tail == ""


async def test_marked_lines_are_passed_on_within_bounds(stage: Stage, guard: Guard) -> None:
    halves = r"printf '::th'; sleep 0.1; printf 'ree\r\n'"
    long = "printf ::; head -c 100000 /dev/zero | tr '\\0' x; echo"
    await stage.run(guard, f"echo ::one; echo no ::two; {halves}; {long}; printf ::end")
    assert [line[:8] for line in stage.said] == ["::one", "::three", "::xxxxxx", "::end"]
    assert len(stage.said[2]) == program.LINE_LIMIT
    stage.said.clear()
    await stage.run(guard, "yes ::y | head -n 5000")
    assert stage.said == ["::y"] * program.LINES_PER_STEP
    assert "more than 1000 such lines: ::y" in stage.logged()


async def test_P2_no_number_of_lines_of_one_kind_swallows_another(stage: Stage, guard: Guard) -> None:
    flood = "seq -f '::progress %g' 5000; yes '::artifact x' | head -n 5000; yes ::other | head -n 5000"
    await stage.run(guard, f"{flood}; echo '::question Which one?'; echo '::progress the last'")
    assert "::question Which one?" in stage.said
    assert stage.said.count("::artifact x") == program.LINES_PER_STEP
    progress = [line for line in stage.said if line.startswith("::progress")]
    assert progress[-1] == "::progress the last", "of progress only the newest counts"
    assert len(progress) < 5000


async def test_a_flood_is_neither_slow_nor_kept_in_memory(stage: Stage, guard: Guard) -> None:
    async def flooded() -> float:
        ended = await stage.run(guard, "yes | head -c 100000000", log_limit=1000)
        assert ended.tail.endswith("y\ny\n")
        return ended.duration

    assert await quickest(flooded, than=10) < 10  # takes 0.3 s on an idle machine
    assert peak_memory(proper(guard)) < 40_000_000


async def test_all_that_is_printed_is_kept_in_parts_for_its_reader(stage: Stage, guard: Guard) -> None:
    ended = await stage.run(guard, "seq 100000; echo the end", log_limit=1000, report=stage.place / "all")
    whole = "".join(f"{number}\n" for number in range(1, 100001)) + "the end\n"
    assert (stage.place / "all.0").read_text() == whole
    assert ended.printed == len(whole)


async def test_of_very_much_the_first_and_the_last_parts_are_kept(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = stage.altered_guard(("PARTS_KEPT = 16 * 1024 * 1024, 8", "PARTS_KEPT = 4 * CHUNK, 2"))
    monkeypatch.setattr(program, "__file__", small)
    guard = await stage.open()
    try:
        ended = await stage.run(guard, "echo begin; seq 400000; echo the end", log_limit=0, report=stage.place / "all")
    finally:
        await guard.close()
    parts = sorted(stage.place.glob("all.*"), key=lambda part: int(part.suffix[1:]))
    assert len(parts) == 3
    assert parts[0].name == "all.0"
    assert parts[0].read_text().startswith("begin\n1\n")
    end = parts[1].read_text() + parts[2].read_text()
    assert end.endswith("399999\n400000\nthe end\n")
    # What is read at once is not divided, so a part may begin and end up to a chunk later than it should.
    assert len(end) > 2 * program.CHUNK
    assert sum(part.stat().st_size for part in parts) <= 3 * 5 * program.CHUNK < ended.printed


async def test_a_full_disk_costs_the_log_and_nothing_else(stage: Stage, guard: Guard) -> None:
    ended = await stage.run(guard, "echo kept", log=Path("/dev/full"))
    assert (ended.code, ended.tail, ended.truncated) == (0, "kept\n", True)


async def test_a_command_that_cannot_start_says_why(stage: Stage, guard: Guard) -> None:
    for name, text, mode in (("plain", "", 0o600), ("orphan", "#!/no/sh\n", 0o700), ("nothing", "?", 0o700)):
        (stage.place / name).write_text(text)
        (stage.place / name).chmod(mode)
    too_long = {"A": "secret" * 10**5}
    cases: list[tuple[str, str, dict[str, Any]]] = [
        ("no-such-program", "command not found: no-such-program", {}),
        ("./missing", "command not found: ./missing", {}),
        ("./plain", "cannot run ./plain: not permitted (is it executable?)", {}),
        ("./orphan", "cannot run ./orphan: the interpreter named in its first line was not found", {}),
        ("./nothing", "cannot run ./nothing: neither a program nor a script with a #! line", {}),
        ("e\0cho", "not a valid command: embedded null byte", {}),
        ("echo", "not a valid command: illegal environment variable name", {"env": {"A=B": "secret"}}),
        ("/bin/echo", "cannot run /bin/echo: its arguments and environment are too long", {"env": too_long}),
        ("echo", "working directory not found: /no/such/place", {"cwd": Path("/no/such/place")}),
    ]
    for command, message, options in cases:
        with pytest.raises(CommandNotStarted, match=f"^{re.escape(message)}$"):
            await stage.run(guard, command, "argument", **options)
    with pytest.raises(MachineTrouble, match="cannot write the log /no/such/log: No such file or directory"):
        await stage.run(guard, "echo", log=Path("/no/such/log"))  # which is ours
    assert (await stage.run(guard, "exit 0")).code == 0  # the guard goes on


def test_a_folder_that_may_not_be_searched_does_not_hide_that_a_command_is_not_there(tmp_path: Path) -> None:
    refused = PermissionError(errno.EACCES, "Permission denied")
    order = {"argv": ["there"], "cwd": "/", "log": "log", "env": {"PATH": f"/closed:{tmp_path}"}}
    assert program.why_not_started(refused, order) == "command not found: there"
    (tmp_path / "there").touch()
    assert program.why_not_started(refused, order) == "cannot run there: not permitted (is it executable?)"


async def test_an_empty_command_is_refused(stage: Stage, guard: Guard) -> None:
    with pytest.raises(CommandNotStarted, match="empty"):
        await guard.run((), env={}, cwd=stage.place, log=stage.log, log_limit=0)


# Nothing is left of a command


async def test_a_timeout_ends_the_command(stage: Stage, guard: Guard) -> None:
    ended = await stage.run(guard, "sleep 300", timeout=0.1)
    assert (ended.signal, ended.timed_out, ended.stopped) == (signal.SIGTERM, True, None)
    assert ended.duration >= 0.1


async def test_stop_lets_a_polite_command_finish(stage: Stage) -> None:
    guard = await stage.open(grace=600)  # which nobody waits for
    polite = "trap 'sleep 0.2; echo bye; exit 3' TERM"
    running = await stage.begin(guard, f"{polite}; echo ::up; while :; do sleep 0.01; done")
    await guard.stop("trigger removed")
    ended = await running
    assert (ended.code, ended.stopped, ended.timed_out) == (3, "trigger removed", False)
    assert ended.tail.endswith("bye\n")
    await guard.close()


async def test_stop_kills_what_is_deaf_after_the_grace(stage: Stage) -> None:
    guard = await stage.open(grace=0.3)
    running = await stage.begin(guard, STUBBORN)
    await wait_until(lambda: len(stage.commands()) >= 2, what="the orphan runs")
    began = time.monotonic()
    await guard.stop("cancelled by X")
    ended = await running
    assert time.monotonic() - began >= 0.3
    assert (ended.signal, ended.stopped) == (signal.SIGKILL, "cancelled by X")
    assert not stage.commands()
    await guard.close()


async def test_stop_reaches_a_command_that_is_suspended(stage: Stage, guard: Guard) -> None:
    running = await stage.begin(guard, "trap 'exit 4' TERM; echo ::up; kill -STOP $$; sleep 300")
    await wait_until(lambda: [state(pid) for pid in stage.commands()] == ["T"], what="it is suspended")
    await guard.stop("enough")
    assert (await running).code == 4


async def test_stop_without_a_command_does_nothing(stage: Stage, guard: Guard) -> None:
    await guard.stop("nothing to stop")
    assert (await stage.run(guard, "exit 0")).stopped is None


async def test_what_a_finished_command_left_running_is_ended(stage: Stage) -> None:
    guard = await stage.open(grace=0.2)
    ended = await stage.run(guard, f"sleep 300 & (setsid sh -c '{DEAF}' &); exit 0")
    assert (ended.code, ended.stopped) == (0, None)
    assert not stage.commands()
    assert stage.of_guards() != []  # and the guard is ready for the next command
    assert (await stage.run(guard, "echo next")).tail == "next\n"
    await guard.close()


async def test_a_process_that_never_stops_forking_away_is_caught(stage: Stage) -> None:
    guard = await stage.open(grace=0.1)
    chain = "import os\nwhile True:\n  if os.fork(): os._exit(0)\n  os.setsid()"
    ended = await stage.run(guard, sys.executable, "-I", "-S", "-c", chain)
    assert ended.stopped is None
    assert not stage.commands()
    await guard.close()


async def test_a_command_may_close_its_output_and_live_on(stage: Stage, guard: Guard) -> None:
    ended = await stage.run(guard, "echo last; exec >&- 2>&-; sleep 0.2; exit 6")
    assert (ended.code, ended.tail) == (6, "last\n")
    assert ended.duration > 0.1, "it was waited for after its output ended"


async def test_output_held_open_by_a_stranger_does_not_hold_up_the_guard(stage: Stage, guard: Guard) -> None:
    running = await stage.begin(guard, "echo ::up; while [ ! -e go ]; do sleep 0.01; done; echo end")
    output = os.open(f"/proc/{stage.commands()[0]}/fd/1", os.O_WRONLY)
    try:
        (stage.place / "go").touch()
        ended = await running
    finally:
        os.close(output)
    assert (ended.code, ended.tail) == (0, "::up\nend\n")


async def test_a_cancelled_run_stops_its_command_first(stage: Stage) -> None:
    guard = await stage.open(grace=0.2)
    running = await stage.begin(guard, STUBBORN)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not stage.commands()
    assert (await stage.run(guard, "exit 0")).code == 0
    await guard.close()


async def test_trouble_with_a_line_stops_the_command_and_is_raised(stage: Stage, guard: Guard) -> None:
    def refuse(line: str) -> None:
        raise ValueError(f"cannot read {line}")

    with pytest.raises(ValueError, match="cannot read ::up"):
        await stage.run(guard, "echo ::up; sleep 300", on_line=refuse)
    assert not stage.commands()


async def test_a_guard_runs_one_command_at_a_time(stage: Stage, guard: Guard) -> None:
    running = await stage.begin(guard, "echo ::up; sleep 300")
    with pytest.raises(RuntimeError, match="one command at a time"):
        await stage.run(guard, "exit 0")
    await guard.stop("enough")
    await running


# The end of a guard


async def test_close_ends_everything_without_the_farewell(stage: Stage) -> None:
    guard = await stage.open(grace=0.2, farewell=stage.farewell())
    running = await stage.begin(guard, STUBBORN)
    await asyncio.gather(guard.close(), guard.close())
    assert not stage.commands()
    assert not stage.of_guards()
    assert stage.farewell_said() is None
    assert (await running).stopped == "the run was closed"
    await guard.close()
    with pytest.raises(GuardDied):
        await stage.run(guard, "exit 0")


async def test_the_death_of_the_consumer_ends_the_run_and_the_farewell_is_said(stage: Stage) -> None:
    consumer = stage.consume(STUBBORN)
    await wait_until(lambda: "::up" in stage.logged() and len(stage.commands()) >= 2, what="the run is up")
    stage.consumer_says()
    consumer.kill()
    await wait_until(lambda: stage.farewell_said() is not None, what="the farewell is said")
    assert stage.farewell_said() == "last words"  # and no survivors
    assert not stage.commands()
    await wait_until(lambda: not stage.of_guards(), what="the guard is gone")


async def test_a_paused_consumer_loses_its_run_when_the_trust_window_closes(stage: Stage) -> None:
    consumer = stage.consume(STUBBORN)
    await wait_until(lambda: "::up" in stage.logged() and len(stage.commands()) >= 2, what="the run is up")
    consumer.send_signal(signal.SIGUSR1)
    await wait_until(lambda: "renewed" in stage.consumer_says(), what="the trust is renewed for a second")
    consumer.send_signal(signal.SIGSTOP)
    await wait_until(lambda: stage.farewell_said() is not None, what="the farewell is said")
    assert stage.farewell_said() == "last words"
    assert not stage.commands()
    await wait_until(lambda: not stage.of_guards(), what="the guard is gone")
    assert state(consumer.pid) == "T"
    consumer.send_signal(signal.SIGCONT)
    await wait_until(lambda: consumer.poll() is not None, what="the consumer ends")
    assert json.loads(stage.consumer_says().splitlines()[-1])["stopped"] == "the trust window closed"


async def test_renewed_trust_keeps_the_run_going(stage: Stage) -> None:
    lapses = boottime() + 2
    guard = await stage.open(trust=2)
    for _ in range(3):
        guard.trust(boottime() + 60)
    running = await stage.begin(guard, "echo ::up; while [ ! -e go ]; do sleep 0.02; done; exit 5")
    await wait_until(lambda: boottime() > lapses + 0.1, what="the first trust to lapse")
    assert not running.done()
    (stage.place / "go").touch()
    assert (await running).code == 5
    await guard.close()


async def test_trust_that_runs_out_between_commands_ends_the_guard(stage: Stage) -> None:
    guard = await stage.open(trust=0.2, farewell=stage.farewell())
    await wait_until(lambda: stage.farewell_said() is not None, what="the farewell is said")
    await wait_until(lambda: not stage.of_guards(), what="the guard is gone")
    with pytest.raises(GuardDied, match="the trust window closed"):
        await stage.run(guard, "exit 0")
    guard.trust(boottime() + 60)  # too late, and harmless
    await guard.stop("too late")
    await guard.close()


@pytest.mark.parametrize("victim", ["keeper", "proper"])
async def test_kill_9_of_either_half_of_the_guard_leaves_nothing(stage: Stage, victim: str) -> None:
    guard = await stage.open(grace=0.2, farewell=stage.farewell())
    running = await stage.begin(guard, STUBBORN)
    await wait_until(lambda: len(stage.commands()) >= 2, what="the orphan runs")
    os.kill(guard.pid if victim == "keeper" else proper(guard), signal.SIGKILL)
    with pytest.raises(GuardDied, match="exit status -9" if victim == "keeper" else "exit status 137"):
        await running
    assert not stage.commands()
    await wait_until(lambda: not stage.of_guards(), what="the guard is gone")
    with pytest.raises(GuardDied):
        await stage.run(guard, "exit 0")
    await guard.close()
    assert stage.farewell_said() is None  # the consumer lives, and settles the run itself


async def test_kill_9_of_the_whole_guard_takes_the_command_with_it(stage: Stage) -> None:
    guard = await stage.open()
    running = await stage.begin(guard, f"({DEAF}) & echo ::up; {DEAF}")
    halves = [proper(guard), guard.pid]
    for pid in halves:  # stopped first, so that neither can act on the death of the other
        os.kill(pid, signal.SIGSTOP)
    for pid in halves:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(GuardDied, match="exit status -9"):
        await running
    await wait_until(lambda: not stage.commands(), what="the command is gone")
    await guard.close()


async def test_a_command_does_not_outlive_both_consumer_and_guard(stage: Stage) -> None:
    consumer = stage.consume("echo $$ >pid; echo ::up; while :; do :; done")
    await wait_until(lambda: "::up" in stage.logged(), what="the run is up")
    await wait_until(lambda: "guard" in stage.consumer_says(), what="the guard is known")
    command = int((stage.place / "pid").read_text())
    everybody = [consumer.pid, *(pid for pid in stage.of_guards() if pid != command)]
    assert len(everybody) == 3
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in everybody:
            os.kill(pid, number)
    await wait_until(lambda: not stage.commands(), what="the command is gone")


async def test_close_ends_a_guard_that_somebody_stopped(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "PATIENCE", 0.1)
    monkeypatch.setattr(guarded, "_SLACK", 0.1)
    guard = await stage.open(grace=0.1)
    monkeypatch.undo()
    running = await stage.begin(guard, STUBBORN)
    await wait_until(lambda: len(stage.commands()) >= 2, what="the orphan runs")
    for pid in (proper(guard), guard.pid):
        os.kill(pid, signal.SIGSTOP)
    await guard.close()
    assert not stage.commands()
    assert not stage.of_guards()
    with pytest.raises(GuardDied):
        await running


async def test_while_something_cannot_be_ended_the_run_is_not_declared_over(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    toothless = stage.altered_guard(("os.kill(target, number)", "pass"), ("PATIENCE = 10.0", "PATIENCE = 0.1"))
    monkeypatch.setattr(program, "__file__", toothless)
    guard = await stage.open(grace=0.1, farewell=stage.farewell())
    running = await stage.begin(guard, "echo ::up; sleep 300")
    guard.trust(0)
    ended = await running
    assert (ended.code, ended.signal, ended.stopped) == (None, None, "the trust window closed")
    with pytest.raises(GuardDied, match="a process could not be ended"):
        await stage.run(guard, "exit 0")
    await guard.close()
    assert "[processes that could not be ended: [" in stage.logged()
    assert stage.farewell_said() is None


# Who may tell the guard what


async def test_an_interrupt_of_the_consumers_group_does_not_reach_the_command(stage: Stage) -> None:
    script = "trap 'echo interrupted' INT; trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done"
    consumer = stage.consume(script, grace=5)
    await wait_until(lambda: "up" in stage.logged(), what="the command is up")
    os.killpg(consumer.pid, signal.SIGINT)
    await wait_until(lambda: "interrupted" in stage.consumer_says(), what="the consumer is interrupted")
    # A shell handles signals in the order of their numbers: an INT would have been heard before this TERM.
    consumer.send_signal(signal.SIGTERM)
    await wait_until(lambda: consumer.poll() is not None, what="the consumer ends")
    ended = json.loads(stage.consumer_says().splitlines()[-1])
    assert ended["stopped"] == "asked"
    assert ended["tail"].endswith("bye\n")
    assert "interrupted" not in ended["tail"]


async def test_only_the_consumer_ends_a_guard_politely(stage: Stage, guard: Guard) -> None:
    running = await stage.begin(guard, "echo ::up; while [ ! -e go ]; do sleep 0.01; done; kill -TERM $$")
    for pid in (guard.pid, proper(guard)):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
    (stage.place / "go").touch()
    ended = await running
    assert ended.signal == signal.SIGTERM  # the command itself is not made deaf
    assert ended.stopped is None


async def test_a_reader_that_is_stuck_does_not_stop_the_guarding(stage: Stage) -> None:
    def order(op: str, **fields: object) -> None:
        give.write(json.dumps({"op": op, **fields}).encode() + b"\n")

    ours, wire = socket.socketpair()
    (stdin, orders), (events, stdout) = os.pipe(), os.pipe()
    posting._barracks.send_out(None, (stdin, stdout, wire.fileno()))
    for file in (stdin, stdout):
        os.close(file)
    wire.close()
    with ours, os.fdopen(orders, "wb", buffering=0) as give, os.fdopen(events, "rb") as hear:
        stage.guards.append(int(ours.recv(64)))
        order("hello", trusted_until=boottime() + 60, grace=0.1, farewell=None)
        script = f"yes $(printf '%8000s' | tr ' ' :) | head -n 500; touch done; {DEAF}"
        limits = {"log_limit": 0, "tail_limit": 10, "timeout": None}
        argv, env, place = ["sh", "-c", script], stage.env, str(stage.place)
        order("start", argv=argv, env=env, cwd=place, log=str(stage.log), **limits)
        await wait_until((stage.place / "done").exists, what="the output is taken though nobody reads")
        order("stop", reason="stuck")
        await wait_until(lambda: not stage.commands(), what="the command is ended though nobody reads")
        order("end")
        said = [json.loads(line) for line in await asyncio.to_thread(hear.readlines)]
    kinds = [event["event"] for event in said]
    assert kinds[:2] == ["ready", "started"]
    assert kinds[-1] == "exited"
    assert 100 < kinds.count("said") < 400  # about a megabyte was kept, of four
    assert said[-1]["stopped"] == "stuck"


# Where guards come from


def barracks_of(pid: int) -> int:
    """The process that has forked the guard."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def test_guards_come_from_one_process_that_starts_once(stage: Stage, guard: Guard) -> None:
    other = await stage.open()
    assert barracks_of(other.pid) == barracks_of(guard.pid)
    await other.close()
    assert (await stage.run(guard, "exit 3")).code == 3  # the end of one guard is not the other's


async def test_kill_9_of_the_barracks_spares_its_guards_and_others_can_be_had(stage: Stage) -> None:
    guard = await stage.open(grace=0.1)
    running = await stage.begin(guard, "echo ::up; while [ ! -e go ]; do sleep 0.01; done; exit 3")
    before = barracks_of(guard.pid)
    os.kill(before, signal.SIGKILL)
    another = await stage.open()
    assert barracks_of(another.pid) not in (before, os.getpid())
    (stage.place / "go").touch()
    assert (await running).code == 3
    await guard.close()
    # Its files are closed a moment before it is gone, and nobody is left who could tell us of the latter.
    await wait_until(lambda: not is_alive(guard.pid), what="the keeper is gone")
    assert (await stage.run(another, "exit 4")).code == 4
    await another.close()


@pytest.mark.parametrize("victim", ["keeper", "proper"])
async def test_without_the_barracks_the_end_of_a_guard_is_known_all_the_same(stage: Stage, victim: str) -> None:
    guard = await stage.open(grace=0.1)
    running = await stage.begin(guard, STUBBORN)
    half = guard.pid if victim == "keeper" else proper(guard)
    os.kill(barracks_of(guard.pid), signal.SIGKILL)
    os.kill(half, signal.SIGKILL)
    with pytest.raises(GuardDied):
        await running
    assert not stage.commands()
    await wait_until(lambda: not stage.of_guards(), what="the guard is gone")
    await guard.close()


ESCAPE = "(setsid sh -c 'echo $$ >> escaped; trap \"\" TERM; while true; do sleep 300; done' >/dev/null 2>&1 &) ; "
"""A process in a session of its own, whose parent is gone."""


def killed_at_once(*pids: int) -> None:
    """As `pkill -9` does: none of them has time to do anything about the death of another."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)


async def test_P1_what_escaped_from_a_guard_that_was_killed_is_ended(stage: Stage) -> None:
    """Three generations of one ticket: at most one is alive at any time."""
    for generation in range(1, 4):
        guard = await stage.open(grace=0.1)
        running = await stage.begin(guard, f"{ESCAPE} {STUBBORN}")
        escaped = stage.place / "escaped"
        await wait_until(
            lambda: escaped.exists() and len(escaped.read_text().split()) == generation,  # noqa: B023
            what="a process that left",
        )
        pids = [int(pid) for pid in escaped.read_text().split()]
        assert [is_alive(pid) for pid in pids] == [False] * (generation - 1) + [True]
        killed_at_once(guard.pid, proper(guard))
        with pytest.raises(GuardDied):
            await running
        await wait_until(lambda: not stage.commands(), what="nothing of the run is left")
        await guard.close()


async def test_P1_what_escaped_is_ended_without_the_consumer_too(stage: Stage) -> None:
    consumer = stage.consume(f"{ESCAPE} {STUBBORN}")
    await wait_until(lambda: "guard" in stage.consumer_says(), what="the guard is known")
    keeper = stage.guards[-1]
    barracks = barracks_of(keeper)
    [guard] = [pid for pid, (parent, _) in program.process_table().items() if parent == keeper]
    await wait_until((stage.place / "escaped").exists, what="a process that left")
    killed_at_once(consumer.pid, keeper, guard)
    await wait_until(lambda: not stage.commands(), what="nothing of the run is left")
    await wait_until(lambda: not is_alive(barracks), what="the barracks are gone")


async def test_P1_what_escaped_is_ended_without_the_barracks_too(stage: Stage) -> None:
    """It comes to the consumer, which leaves its own children alone."""
    program.prctl(program.SUBREAPER, 1)
    ours = await asyncio.create_subprocess_exec("sh", "-c", "read x; exit 7", stdin=asyncio.subprocess.PIPE, env={})
    try:
        stage.env["AGENTSMITH_RUN_ID"] = "r1"
        guard = await stage.open(grace=0.1)
        running = await stage.begin(guard, f"{ESCAPE} {STUBBORN}")
        await wait_until((stage.place / "escaped").exists, what="a process that left")
        killed_at_once(barracks_of(guard.pid), guard.pid, proper(guard))
        with pytest.raises(GuardDied):
            await running
        ended: set[int] = set()

        def all_ended() -> bool:
            strays.look(ended)
            left = [pid for pid in program.children() if pid in ended or program.session_of(pid) == guard.pid]
            return not stage.commands() and not left

        await wait_until(all_ended, what="nothing of the run is left")
        await guard.close()
        await ours.communicate(b"\n")
        assert ours.returncode == 7
    finally:
        program.prctl(program.SUBREAPER, 0)


async def test_the_number_of_a_keeper_is_nobody_elses_until_its_handle_lets_go(stage: Stage) -> None:
    guard = await stage.open()
    guard.trust(0)  # it leaves by itself
    await wait_until(lambda: state(guard.pid) == "Z", what="the keeper is dead")
    another = await stage.open()  # by now the barracks know of the death
    await another.close()
    assert state(guard.pid) == "Z"
    await guard.close()
    await wait_until(lambda: state(guard.pid) == "X", what="the keeper is collected")


async def test_the_barracks_do_not_outlive_their_consumer(stage: Stage) -> None:
    consumer = stage.consume("echo ::up; sleep 300")
    await wait_until(lambda: "guard" in stage.consumer_says(), what="the guard is known")
    barracks = barracks_of(stage.guards[-1])
    assert barracks != os.getpid()
    consumer.kill()
    await wait_until(lambda: not is_alive(barracks), what="the barracks are gone")
    await wait_until(lambda: not stage.of_guards(), what="the guard is gone")


async def test_a_guard_that_cannot_be_started_says_so(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "__file__", str(stage.place / "missing.py"))
    with pytest.raises(MachineTrouble, match="did not start"):
        await stage.open()
    monkeypatch.undo()
    await (await stage.open()).close()


# What the guard does not tell


async def test_the_farewells_input_is_in_nobodys_arguments(stage: Stage) -> None:
    guard = await stage.open(farewell=Farewell(("true",), "password"))
    shown = arguments(guard.pid, proper(guard))
    await guard.close()
    assert shown.count(b"guard/program.py") == 2
    assert b"password" not in shown


async def test_a_command_cannot_read_the_guards_environment(stage: Stage, guard: Guard) -> None:
    if os.geteuid() == 0 and not powerless():
        # Nothing can be kept from root, unless it may do no more than others: the same once more, without its powers.
        this = f"{__file__}::test_a_command_cannot_read_the_guards_environment"
        again = ("setpriv", "--bounding-set=-all", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", this)
        done = await asyncio.to_thread(subprocess.run, again, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return
    ended = await stage.run(guard, "cat /proc/$PPID/environ")
    assert "Permission denied" in ended.tail


# The program


def test_the_guard_needs_nothing_but_the_standard_library() -> None:
    tree = ast.parse(inspect.getsource(program))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


@pytest.mark.skipif(not shutil.which("ps"), reason="needs ps")
async def test_elsewhere_than_on_linux_the_guards_session_is_ended(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the assumption that `ps` and sessions are alike everywhere, which is all that this can show."""
    monkeypatch.setattr(program, "__file__", stage.altered_guard(('LINUX = sys.platform == "linux"', "LINUX = False")))
    guard = await stage.open(grace=0.1)
    ended = await stage.run(guard, f"({DEAF}) & (sleep 300 &) ; exit 2")
    assert ended.code == 2
    assert not stage.commands()
    running = await stage.begin(guard, f"({DEAF}) & echo ::up; {DEAF}")
    os.kill(proper(guard), signal.SIGKILL)
    with pytest.raises(GuardDied):
        await running
    assert not stage.commands()
    await guard.close()
