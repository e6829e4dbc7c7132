"""Our own Redis, and a daemon whose temp directory nobody else sees, as that of a systemd unit with PrivateTmp."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentsmith.cli import app
from agentsmith.pipelines.record import FOLDER
from tests.support.cli import SLOW, Cli, command, quiet_logs
from tests.support.json_answers import parsed
from tests.support.wait import wait_until

_NOBODY = 65534
_OWN_TMP = 'mount -t tmpfs none "$TMPDIR" && exec "$@"'


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's."""
    folder = Path(tempfile.mkdtemp(prefix="as-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def cli(short: Path) -> Cli:
    (short / "tmp").mkdir()
    cli = Cli(short)
    cli.environ["TMPDIR"] = str(short / "tmp")
    cli.configure("triggers: [{label: agent-smith, pipeline: hello}]\n")
    return cli


def apart() -> list[str]:
    """How to start a process with mounts of its own."""
    ways = [["--mount"], ["--user", "--map-current-user", "--keep-caps", "--mount"]]
    for way in ways if shutil.which("unshare") else []:
        tried = ["unshare", *way, "mount", "-t", "tmpfs", "none", "/mnt"]
        if subprocess.run(tried, capture_output=True, check=False).returncode == 0:
            return ["unshare", *way]
    pytest.skip("NOT TESTED: no mount namespace can be made here, so no daemon can have a temp directory of its own")


@contextmanager
def up_with_its_own_tmp(cli: Cli) -> Iterator[subprocess.Popen[bytes]]:
    words = [*apart(), "sh", "-c", _OWN_TMP, "sh", *command("up")]
    with (cli.folder / "up.log").open("wb") as log:
        daemon = subprocess.Popen(words, cwd=cli.folder, env=cli.environ, stdout=log, stderr=log)
    try:
        yield daemon
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(SLOW)


async def serving(cli: Cli, daemon: subprocess.Popen[bytes]) -> None:
    log = cli.folder / "up.log"
    await wait_until(
        lambda: '"serving"' in log.read_text() or daemon.poll() is not None, what="the daemon is up", within=SLOW
    )
    assert daemon.poll() is None, log.read_text()


async def test_a_daemon_with_a_tmp_of_its_own_is_reached(cli: Cli) -> None:
    with up_with_its_own_tmp(cli) as daemon:
        await serving(cli, daemon)
        told = cli.json("status")
        assert told["redis"]["reachable"] is True
        assert [process["pid"] for process in told["processes"]] == [daemon.pid]
        key = await cli.new("a ticket", "agent-smith")
        await cli.wait_for_label(key, "agent-smith:done")
        assert "ran again" in (said := cli.run("retry", key).stdout) or "runs again" in said or "will run" in said
        assert cli.json("doctor")["ok"] is True
        (socket,) = (cli.data / "redis").glob("agentsmith-*/redis.sock")
        assert socket.parent.stat().st_mode & 0o777 == 0o700
    assert not socket.parent.exists()


async def test_whoever_cannot_reach_the_server_says_so(cli: Cli) -> None:
    cli.data = cli.folder / ("far" * 33)  # too long a path for a socket inside
    cli.environ["AGENTSMITH_DATA_DIR"] = str(cli.data)
    with up_with_its_own_tmp(cli) as daemon:
        await serving(cli, daemon)
        key = await cli.new("a ticket")
        # Somebody else's run, whose record has no end.
        (cli.data / FOLDER / "20260101-000000-abcdef").mkdir(parents=True)
        (cli.data / FOLDER / "20260101-000000-abcdef" / "run.json").write_text(_RECORD)
        held = f"is kept by process {daemon.pid} on "
        socket = str((cli.data / "redis" / "redis.sock").readlink())
        assert str(cli.folder / "tmp") in socket
        for words in (
            ["status"],
            ["why", key],
            ["quota"],
            ["runs"],
            ["replay"],
            ["cancel", key],
            ["retry", key],
            ["dead-letters", "list"],
            ["run", key, "--pipeline", "hello"],
            ["up"],
        ):
            done = cli.run(*words, code=2)
            for part in (held, str(cli.data / "redis" / "server.lock"), socket, "PrivateTmp"):
                assert part in " ".join(done.stderr.split()), (words, done.stderr)
            assert "Nothing is" not in done.stdout
        told = cli.json("doctor", code=1)
        (redis,) = [check for check in told["checks"] if check["check"] == "redis"]
        assert redis["state"] == "wrong"
        assert held in redis["saw"]
        assert socket in redis["saw"]
        done = cli.run("ticket", "new", "--title", "another", "--label", "agent-smith")
        assert held in " ".join(done.stderr.split()), "the ticket is there, and nobody was told"
        assert "start one" not in done.stderr


def test_who_may_not_look_is_told_so(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (cli.data / "redis").mkdir(parents=True)
    (cli.data / "redis" / "server.lock").touch(mode=0o600)
    cli.folder.chmod(0o755)
    monkeypatch.chdir(cli.folder)
    monkeypatch.setenv("AGENTSMITH_DATA_DIR", str(cli.data))
    with quiet_logs():
        assert app.run(("status",)) == 0
    assert "Nothing is up" in capsys.readouterr().out
    # Only now, when all of Python that is needed has been read: another user need not be let in there.
    (cli.data / "redis").chmod(0)
    privileged = os.geteuid() == 0
    if privileged:
        os.seteuid(_NOBODY)
    try:
        with quiet_logs():
            assert app.run(("status",)) == 2
    finally:
        if privileged:
            os.seteuid(0)
        (cli.data / "redis").chmod(0o700)
    shown = capsys.readouterr()
    assert "cannot be seen: Permission denied" in " ".join(shown.err.split())
    assert "Nothing is up" not in shown.out


_RECORD = """{"version": 1, "run": "20260101-000000-abcdef", "ticket": "local/tickets#9", "key": "9",
"tracker": "local", "platform": "local", "title": "t", "pipeline": "hello", "attempt": 1, "fence": 1,
"started": 1767225600.0, "steps": []}"""


def test_a_full_disk_is_wrong(cli: Cli) -> None:
    cli.data.mkdir()
    fill = 'mount -t tmpfs -o size=1m none "$0" && cat /dev/zero > "$0/fill"; exec "$@"'
    words = [*apart(), "sh", "-c", fill, str(cli.data), *command("doctor", "--json")]
    done = subprocess.run(words, cwd=cli.folder, env=cli.environ, capture_output=True, text=True, check=False)
    told = parsed(("doctor",), done.stdout, code=done.returncode)
    [found] = [check for check in told["checks"] if check["check"] == "data directory"]
    assert (told["ok"], done.returncode) == (False, 1)
    assert (found["state"], "the disk is full, 0 bytes are free" in found["saw"]) == ("wrong", True)
    assert "make room" in found["remedy"]
