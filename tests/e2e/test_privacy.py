"""What steps can see of the processes around them, although they run as the same user (P8)."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import agentsmith
from agentsmith import privacy

ROOT = Path(agentsmith.__file__).parent
STARTING = {"Popen", "run", "create_subprocess_exec", "create_subprocess_shell", "posix_spawn", "check_output", "call"}
LOOK = """
import os
wanted = b"planted-" + b"s3cret"
seen = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline"):
        try:
            found = open(f"/proc/{pid}/{name}", "rb").read()
        except OSError:
            continue
        if wanted in found:
            seen.append((name, open(f"/proc/{pid}/cmdline", "rb").read()))
print("SEEN", seen)
me = os.getppid()
ours = 0
while me > 1:
    ours += 1
    me = int(open(f"/proc/{me}/stat").read().rpartition(")")[2].split()[1])
print("ABOVE", ours)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has it")
def test_no_process_of_ours_shows_a_secret(tmp_path: Path) -> None:
    """A real one, with its own server, spawner and guard; steps walk through every process that there is."""
    environ = {
        **privacy.bare(),
        "PYTHONPATH": str(ROOT.parent),
        "AGENTSMITH_DATA_DIR": str(tmp_path / "data"),
        "GITHUB_TOKEN": "planted-s3cret",
    }
    # Nothing can be kept from root, unless it may do no more than others.
    as_others = ["setpriv", "--bounding-set=-all"] if os.geteuid() == 0 else []

    def smith(*arguments: str) -> str:
        command = [*as_others, sys.executable, "-m", "agentsmith", *arguments]
        done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    smith("ticket", "new", "--title", "Look around")
    said = smith("run", "1", "--", sys.executable, "-c", LOOK)
    assert "SEEN []" in said
    # Guard, supervisor, spawner and the process itself were among them.
    assert int(said.partition("ABOVE ")[2].split()[0]) >= 3


def test_whatever_we_start_is_told_what_its_environment_is() -> None:
    """Without `env` it would get all of ours."""
    found = []
    for file in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)):
                    starts = name in STARTING and module in ("subprocess", "asyncio", "os")
                    starts = starts and (module, name) != ("asyncio", "run")
                    given = {keyword.arg for keyword in node.keywords}
                    if starts and "env" not in given and name != "posix_spawn":
                        found.append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert found == []


def test_nothing_secret_is_harmless() -> None:
    environ = {"PATH": "/bin", "GITHUB_TOKEN": "x", "AGENTSMITH_REDIS__URL": "x", "DATABASE_URL": "x", "HOME": "/"}
    assert privacy.bare(environ) == {"PATH": "/bin", "HOME": "/"}
