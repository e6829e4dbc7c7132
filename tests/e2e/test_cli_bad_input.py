"""Bad input: one clear message with file, key and remedy, exit code 2, no traceback."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentsmith.cli import app
from tests.support.cli import Cli, run_here
from tests.support.json_answers import parsed
from tests.support.redis_server import RedisServer
from tests.support.stores import PrivateServer


@dataclass(frozen=True, slots=True)
class Case:
    """A configuration, a command, and what the message has to say."""

    name: str
    config: str
    said: tuple[str, ...]
    command: tuple[str, ...] = ("up",)


CASES = (
    Case("broken file", "trackers: [", ("agentsmith.yaml:", "not valid YAML")),
    Case("no YAML at all", "\x00\x01", ("agentsmith.yaml", "UTF-8 text")),
    Case("unknown key", "serverr: {port: 1}", ("agentsmith.yaml:1: serverr", "unknown key", "server")),
    Case("bad type", "consumer:\n  slots: many", ("agentsmith.yaml:2: consumer.slots", "whole number")),
    Case("bad duration", "lease: {ttl: soon}", ("agentsmith.yaml:1: lease.ttl", "500ms, 30s, 2m")),
    Case("unset secret", "redis:\n  url: ${MY_REDIS}", ("agentsmith.yaml:2: redis.url", "MY_REDIS is not set")),
    Case(
        "unknown pipeline",
        "triggers:\n  - {label: x, pipeline: fix}\npipelines: {fix-bug: {steps: [{run: make}]}}",
        ("agentsmith.yaml:2: triggers[0].pipeline", "no pipeline `fix`", "fix-bug"),
    ),
    Case(
        "unknown platform",
        "trackers:\n  web: {platform: githup}",
        ("agentsmith.yaml:2: trackers.web.platform", "did you mean `github`"),
    ),
    Case(
        "unreachable Redis",
        "redis: {url: 'redis://127.0.0.1:1/0'}",
        ("Redis cannot be reached", "correct redis.url"),
    ),
    Case(
        "unreachable Redis, for a look",
        "redis: {url: 'redis://127.0.0.1:1/0'}",
        ("Redis cannot be reached", "correct redis.url"),
        ("status", "--json"),
    ),
    Case("no such server program", "redis: {server: /absent/redis}", ("/absent/redis", "Correct redis.server")),
    Case("unknown ticket", "", ("no ticket '99' in local/tickets", "name a ticket by its key"), ("cancel", "99")),
    Case("why an unknown ticket", "", ("no ticket '99' in local/tickets", "name a ticket by its key"), ("why", "99")),
    Case("not a ticket", "", ("'acme/web#1' names no ticket", "tracker:key"), ("retry", "acme/web#1")),
    Case("checked only", "log: {level: loud}", ("agentsmith.yaml:1: log.level", "info"), ("config", "check")),
)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def in_process(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """The same folder for commands that are run right here, which takes a tenth of the time."""
    with run_here(cli, monkeypatch):
        yield cli


def refused(cli: Cli, *command: str, said: tuple[str, ...]) -> None:
    """The command ends with exit code 2, and its last words are the error."""
    done = cli.run(*command, code=2)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, done.stderr
    for part in said:
        assert part in errors[0]
    assert done.stdout == ""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_input(case: Case, in_process: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    in_process.configure(case.config)
    assert app.run(case.command) == 2
    shown = capsys.readouterr()
    if "--json" in case.command:
        told = parsed(case.command, shown.out, code=2)
        assert (told["code"], told["remedy"] in told["error"]) == ("redis-unreachable", True)
    else:
        assert shown.out == ""
    (line,) = shown.err.splitlines()
    assert line.startswith("error: ")
    for part in case.said:
        assert part in line


def test_a_named_file_that_is_absent(cli: Cli) -> None:
    refused(cli, "up", "--config", "elsewhere.yaml", said=("elsewhere.yaml: there is no such file", "--config"))


@pytest.mark.parametrize("command", [("up",), ("ticket", "list"), ("cancel", "1")], ids=" ".join)
def test_a_corrupt_ticket_file(cli: Cli, command: tuple[str, ...]) -> None:
    cli.data.mkdir()
    file = cli.data / "tickets.sqlite3"
    file.write_bytes(b"this is no database, whatever its name says" * 100)
    refused(cli, *command, said=(str(file), "not a ticket file, or is damaged", "restore it from a backup"))


def test_a_port_in_use(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cli.environ["AGENTSMITH_SERVER__PORT"] = str(port)
        refused(cli, "up", said=(f"cannot listen on 127.0.0.1 port {port}", "set server.port"))


def test_a_redis_that_may_forget(cli: Cli, private_server: PrivateServer) -> None:
    _point_at(cli, private_server("--maxmemory-policy", "allkeys-lru"))
    refused(cli, "up", said=("may evict keys", "allkeys-lru", "set maxmemory-policy noeviction"))


def test_a_redis_cluster(cli: Cli, private_server: PrivateServer) -> None:
    _point_at(cli, private_server("--cluster-enabled", "yes", tcp=True))
    refused(cli, "up", said=("cluster mode", "use a single server"))


def test_a_wrong_password_is_not_shown(cli: Cli, private_server: PrivateServer) -> None:
    server = private_server(tcp=True, password="right-horse")
    cli.configure(f"redis: {{url: 'redis://:wrong-horse@127.0.0.1:{server.port}'}}")
    done = cli.run("up", code=2)
    assert "correct user and password in redis.url" in done.stderr
    assert "wrong-horse" not in done.stderr


def _point_at(cli: Cli, server: RedisServer) -> None:
    cli.configure(f"redis: {{url: 'unix://{server.socket}'}}\n")
