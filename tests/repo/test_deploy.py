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
        assert "redis_password" in service["secrets"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
        if name != "redis":
            assert not any("REDIS" in variable for variable in service["environment"]), (
                "whoever inspects the container would see it"
            )


def test_compose_hands_secrets_over_in_files_that_only_root_reads() -> None:
    found = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    ours = [service for name, service in found["services"].items() if name != "redis"]
    for service in ours:
        assert service["secrets"] == ["redis_password", "environment"]
        assert (service["user"], service["entrypoint"]) == ("root", ["with-secrets", "agentsmith"])
        assert "env_file" not in service, "the container's configuration would hold them"
    assert found["secrets"] == {name: {"file": f"./{name}"} for name in ("redis_password", "environment")}
    assert "COPY deploy/with-secrets /usr/local/bin/with-secrets" in (DEPLOY / "Dockerfile").read_text()
    assert os.access(DEPLOY / "with-secrets", os.X_OK)


def test_no_secret_is_in_a_commit_or_in_an_image() -> None:
    for file in (".gitignore", ".dockerignore"):
        assert {"deploy/redis_password", "deploy/environment"} <= set((DEPLOY.parent / file).read_text().splitlines())


def with_secrets(folder: Path, environment: str) -> subprocess.CompletedProcess[str]:
    """The container's entry point with these secrets; `setpriv` and `agentsmith` only tell what they were told."""
    (folder / "redis_password").write_text("s3cret\n")
    (folder / "environment").write_text(environment)
    (folder / "with-secrets").write_text(
        (DEPLOY / "with-secrets").read_text().replace("/run/secrets", shlex.quote(str(folder)))
    )
    program = folder / "setpriv"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$HOME" "$AGENTSMITH_REDIS__URL" "${TOKEN-}" "${LAST-}" "$$" "$*"\n')
    program.chmod(0o700)
    command = ["sh", str(folder / "with-secrets"), "agentsmith", "up", "--role", "consumer"]
    env = {"PATH": f"{folder}:{os.defpath}"}
    return subprocess.run(command, check=False, capture_output=True, text=True, env=env)


def test_the_entry_point_hands_secrets_and_arguments_on_to_one_who_is_not_root(tmp_path: Path) -> None:
    told = with_secrets(tmp_path, '# of the tracker\n\nTOKEN=a b "$(touch pwned)" `id` = \'\nLAST=no newline')
    home, redis, token, last, _, words = told.stdout.splitlines()
    assert (home, redis) == ("/home/agentsmith", "redis://:s3cret@redis:6379/0")
    assert (token, last) == ('a b "$(touch pwned)" `id` = \'', "no newline"), "nothing in a value is for the shell"
    assert words.startswith("--reuid=agentsmith --regid=agentsmith --init-groups")
    assert words.endswith(" agentsmith up --role consumer")
    assert (told.returncode, told.stderr) == (0, "")


@pytest.mark.parametrize("line", ["no equals sign 5eal", "0BAD=5eal", "-p=5eal", "A-B=5eal", "=5eal"])
def test_the_entry_point_refuses_what_is_no_variable_and_does_not_quote_it(tmp_path: Path, line: str) -> None:
    told = with_secrets(tmp_path, f"TOKEN=fine\n{line}\n")
    assert told.returncode == 2
    assert "each line must be NAME=value" in told.stderr
    assert "5eal" not in told.stdout + told.stderr


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
    installed = " ".join(re.findall(r"apt-get install .*", image)).split()
    assert {"git", "openssh-client"} <= set(installed)


def test_the_image_has_a_coding_agent_inside_only_if_one_is_named() -> None:
    image = (DEPLOY / "Dockerfile").read_text()
    assert re.search(r"^ARG AGENT=$", image, flags=re.MULTILINE)
    assert 'if [ -n "$AGENT" ]' in image
    builds = [service["build"] for name, service in services().items() if name != "redis"]
    assert all(build["args"]["AGENT"] == "${AGENT:-}" for build in builds)


def test_nobody_but_the_daemon_holds_the_environment_of_the_container() -> None:
    """An init in front of it would run as the same user as steps, and show them the secrets in its environment."""
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    assert json.loads(entry)[0] == "agentsmith"
    assert not any("init" in service for service in services().values())
