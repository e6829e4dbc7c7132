"""What stands in deploy/ is what the product understands."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
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
    command = services()["redis"]["command"][-1]
    for needed in ("--appendonly yes", "--appendfsync always", "--maxmemory-policy noeviction"):
        assert needed in command


def test_only_who_has_the_password_gets_into_redis_and_only_this_machine_reaches_us() -> None:
    found = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert "--requirepass" in found["services"]["redis"]["command"][-1]
    assert found["services"]["redis"]["networks"] == ["store"]
    assert "ports" not in found["services"]["redis"]
    assert found["networks"]["store"] == {"internal": True}
    for name, service in found["services"].items():
        assert service["secrets"] == ["redis_password"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
        if name != "redis":
            assert not any("REDIS" in variable for variable in service["environment"]), (
                "whoever inspects the container would see it"
            )
            assert service["entrypoint"][0] == "sh", "which every image has"
            assert "redis://:$$(cat /run/secrets/redis_password)@redis" in service["entrypoint"][-2]


def test_the_password_is_in_no_commit_and_in_no_image() -> None:
    for file in (".gitignore", ".dockerignore"):
        assert "deploy/redis_password" in (DEPLOY.parent / file).read_text().splitlines()


def test_the_entrypoint_hands_the_password_and_the_arguments_on(tmp_path: Path) -> None:
    script = services()["front"]["entrypoint"][-2].replace("$$", "$").replace("/run/secrets", str(tmp_path))
    (tmp_path / "redis_password").write_text("s3cret\n")
    program = tmp_path / "agentsmith"
    program.write_text('#!/bin/sh\necho "$AGENTSMITH_REDIS__URL" "$@"\n')
    program.chmod(0o700)
    command = ["sh", "-c", script, "agentsmith", "up", "--role", "consumer"]
    told = subprocess.run(command, check=True, capture_output=True, text=True, env={"PATH": f"{tmp_path}:{os.defpath}"})
    assert told.stdout == "redis://:s3cret@redis:6379/0 up --role consumer\n"


@pytest.mark.parametrize("known", [True, False])
def test_images_are_pinned_by_their_digests(tmp_path: Path, known: bool) -> None:
    """With a docker of our own: which digest a tag has only a registry can say."""
    deploy = tmp_path / "deploy"
    shutil.copytree(DEPLOY, deploy)
    docker = tmp_path / "docker"
    docker.write_text(
        f'#!/bin/sh\ntest {int(known)} = 1 && echo sha256:{"0" * 64} || {{ echo "no route" >&2; exit 1; }}\n'
    )
    docker.chmod(0o700)
    command = [sys.executable, str(deploy / "pin_images.py")]
    told = subprocess.run(
        command, check=False, capture_output=True, text=True, env={"PATH": f"{tmp_path}:{os.defpath}"}
    )
    if not known:
        assert (told.returncode, "no route" in told.stderr, (deploy / "images.env").exists()) == (1, True, False)
        return
    pinned = dict(line.split("=", 1) for line in (deploy / "images.env").read_text().splitlines())
    assert set(pinned) == {"PYTHON_IMAGE", "REDIS_IMAGE"}
    assert all(image.endswith(f"@sha256:{'0' * 64}") for image in pinned.values())
    assert "ARG PYTHON_IMAGE=" in (DEPLOY / "Dockerfile").read_text()


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
