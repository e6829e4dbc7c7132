"""What stands in deploy/ is what the product understands."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import yaml

from agentsmith.cli.commands import RoleName
from agentsmith.config import Config

DEPLOY = Path(__file__).parents[2] / "deploy"


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    return found


def roles_of(command: str) -> list[str]:
    words = shlex.split(command)
    assert words[0] == "up"
    assert all(word == "--role" or word in set(RoleName) for word in words[1:])
    return words[2::2]


def test_compose_has_redis_two_consumers_and_every_role() -> None:
    ours = [roles_of(service["command"]) for name, service in services().items() if name != "redis"]
    assert sorted(map(len, ours)) == [1, 1, 3]
    assert ours.count(["consumer"]) == 2
    assert {role for roles in ours for role in roles} == set(RoleName)


def test_the_redis_of_compose_meets_the_requirements() -> None:
    command = services()["redis"]["command"]
    for needed in ("--appendonly yes", "--appendfsync always", "--maxmemory-policy noeviction"):
        assert needed in command


def test_environment_variables_name_settings() -> None:
    unit = (DEPLOY / "systemd" / "agentsmith.service").read_text()
    named = set(re.findall(r"\b(AGENTSMITH_\w+)=", unit))
    for service in services().values():
        named |= {name for name in service.get("environment", {}) if name.startswith("AGENTSMITH_")}
    assert named
    for name in named - {"AGENTSMITH_CONFIG"}:
        section, _, key = name.removeprefix("AGENTSMITH_").lower().partition("__")
        assert section in Config.model_fields, name
        if key:
            assert key in type(getattr(Config(), section)).model_fields, name


def test_stopping_waits_longer_than_a_drain() -> None:
    longest = Config().consumer.drain_timeout + Config().consumer.kill_grace
    unit = (DEPLOY / "systemd" / "agentsmith.service").read_text()
    (stop,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, flags=re.MULTILINE)
    assert int(stop) > longest
    graces = [
        service["stop_grace_period"] for service in services().values() if "consumer" in service.get("command", "")
    ]
    assert graces
    assert all(int(grace.removesuffix("s")) > longest for grace in graces)


def test_the_image_has_what_steps_need() -> None:
    image = (DEPLOY / "Dockerfile").read_text()
    assert re.search(r"^USER (?!root)\w+", image, flags=re.MULTILINE)
    assert re.search(r"\bgit\b", image)


def test_nobody_but_the_daemon_holds_the_environment_of_the_container() -> None:
    """An init in front of it would run as the same user as steps, and show them the secrets in its environment."""
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    assert json.loads(entry)[0] == "agentsmith"
    assert not any("init" in service for service in services().values())
