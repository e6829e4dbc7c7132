"""A bench for git tests: a server's repository, people who push to it, and checkouts of ours."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentsmith.domain.forge import GitCredential, PullRequest, WantedPullRequest
from agentsmith.domain.ticket import Ticket
from agentsmith.git import Bounds, Checkout, CheckoutPlan, EndedCommand, GitShell, open_checkout
from agentsmith.git.shell import CommandNotStarted

BRANCH = "agent-smith/12"
PERSON = {
    "GIT_AUTHOR_NAME": "A Person",
    "GIT_AUTHOR_EMAIL": "person@example.org",
    "GIT_COMMITTER_NAME": "A Person",
    "GIT_COMMITTER_EMAIL": "person@example.org",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "PATH": os.environ["PATH"],
}
QUICK = Bounds(network=30.0, stall=5.0, local=30.0, lock=30.0, workspace=0.2)


def git(*args: str, at: Path, fine: Sequence[int] = (0,), stdin: bytes = b"", **env: str) -> str:
    """Run git as a person would, in a folder; answers its output without the last line break."""
    done = subprocess.run(["git", *args], cwd=at, env=PERSON | env, input=stdin, capture_output=True, check=False)
    assert done.returncode in fine, f"git {' '.join(args)}: {done.stderr.decode()}"
    return done.stdout.decode("utf-8", "surrogateescape").strip("\n")


def blob(at: Path, name: str) -> bytes:
    """The exact content of a file in a repository, named as git does: `branch:path`."""
    done = subprocess.run(["git", "cat-file", "blob", name], cwd=at, env=PERSON, capture_output=True, check=True)
    return done.stdout


def make_origin(path: Path, files: Mapping[str, str | bytes] | None = None, *, branch: str = "main") -> Path:
    """A bare repository as a server keeps it, with one commit, or none where `files` is empty."""
    git("init", "-q", "--bare", f"--initial-branch={branch}", str(path), at=path.parent)
    git("config", "uploadpack.allowFilter", "true", at=path)
    git("config", "http.receivepack", "true", at=path)
    files = {"README.md": "hello\n"} if files is None else files
    if files:
        person = Person.of(path, path.parent / f"{path.name}.person")
        person.commit("first", files)
        person.push()
    return path


@dataclass
class Person:
    """Somebody with a clone of their own."""

    at: Path

    @classmethod
    def of(cls, origin: Path, at: Path) -> Person:
        """Clone the repository, or take the clone that is there."""
        if not at.exists():
            git("clone", "-q", str(origin), str(at), at=origin.parent)
            if not git("branch", "-a", at=at):
                git("checkout", "-q", "-b", git("symbolic-ref", "--short", "HEAD", at=origin), at=at, fine=(0, 128))
        return cls(at)

    def commit(self, message: str, files: Mapping[str, str | bytes | None], *, on: str | None = None) -> str:
        """Change files (None removes one) and commit."""
        if on is not None:
            git("fetch", "-q", "origin", at=self.at)
            git("checkout", "-q", "-B", on, f"origin/{on}", at=self.at, fine=(0, 128))
        write_files(self.at, files)
        git("add", "-A", "-f", at=self.at)
        git("commit", "-q", "--allow-empty", "-m", message, at=self.at)
        return git("rev-parse", "HEAD", at=self.at)

    def push(self, *args: str) -> None:
        """Push the branch that is checked out."""
        git("push", "-q", *args, "origin", "HEAD", at=self.at)


def write_files(at: Path, files: Mapping[str, str | bytes | None]) -> None:
    """Write files below a folder; None removes one."""
    for name, content in files.items():
        path = at / name
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


class PlainShell:
    """Runs commands as plain children of this process."""

    def __init__(self, scratch: Path) -> None:
        scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.scratch = scratch
        self.ancestor = os.getpid()
        self.argvs: list[tuple[str, ...]] = []
        self.envs: list[dict[str, str]] = []

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        stdin: Path,
        stdout: Path,
        stderr: Path,
        timeout: float,
    ) -> EndedCommand:
        self.argvs.append(tuple(argv))
        self.envs.append(dict(env))
        with stdin.open("rb") as given, stdout.open("wb") as out, stderr.open("wb") as err:
            try:
                process = await asyncio.create_subprocess_exec(
                    *argv, env=env, cwd=cwd, stdin=given, stdout=out, stderr=err, start_new_session=True
                )
            except OSError as error:
                raise CommandNotStarted(str(error)) from None
        try:
            async with asyncio.timeout(timeout):
                code = await process.wait()
        except BaseException as trouble:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            if isinstance(trouble, TimeoutError):
                return EndedCommand(None, timed_out=True)
            raise
        return EndedCommand(code if code >= 0 else None)


@dataclass
class FakeForge:
    """A repository on a code host, as far as git is concerned."""

    clone_url: str
    secret: GitCredential | None = None
    branch: str = "main"
    name: str = "code"
    platform: str = "git"
    asked: int = 0

    async def credential(self) -> GitCredential | None:
        self.asked += 1
        return self.secret

    async def default_branch(self, *, deadline: float | None = None) -> str:  # noqa: ARG002 - the contract's
        return self.branch

    def mention(self, ticket: Ticket) -> str:
        raise NotImplementedError

    async def find(self, branch: str, *, deadline: float | None = None) -> PullRequest | None:
        raise NotImplementedError

    async def ensure(self, wanted: WantedPullRequest, *, deadline: float) -> PullRequest:
        raise NotImplementedError

    async def aclose(self) -> None:
        raise NotImplementedError


@dataclass
class Bench:
    """One test's server and machine."""

    place: Path
    origin: Path
    forge: FakeForge
    shell: GitShell
    opened: list[Checkout] = field(default_factory=list)
    writes: int = 0

    @property
    def root(self) -> Path:
        return self.place / "data"

    @property
    def workspace(self) -> Path:
        return self.root / "workspaces" / "12"

    @property
    def vault(self) -> Path:
        return next((self.root / "vaults").glob("*.git"))

    @property
    def mirror(self) -> Path:
        return next((self.root / "mirrors").glob("*.git"))

    def person(self, name: str = "person") -> Person:
        """Somebody else who works on the repository."""
        return Person.of(self.origin, self.place / name)

    async def open(self, **options: Any) -> Checkout:
        """Open the checkout as a new run would: whoever held it before is gone."""
        for checkout in self.opened:
            await checkout.close()
        given: dict[str, Any] = {
            "root": self.root,
            "workspace": self.workspace,
            "branch": BRANCH,
            "bounds": QUICK,
        } | options
        shell = given.pop("shell", self.shell)
        checkout = await open_checkout(self.forge, shell, CheckoutPlan(**given))
        self.opened.append(checkout)
        return checkout

    async def begin_write(self) -> None:
        self.writes += 1

    def on_server(self, ref: str = BRANCH) -> str:
        """The commit of a branch on the server; empty when there is none."""
        return git("rev-parse", "--verify", "-q", f"refs/heads/{ref}", at=self.origin, fine=(0, 1))

    def log(self, ref: str = BRANCH) -> list[str]:
        """The subjects of a branch's commits on the server, newest first."""
        return git("log", "--format=%s", f"refs/heads/{ref}", at=self.origin).splitlines()

    def content(self, path: str, ref: str = BRANCH) -> str:
        """A file on the server."""
        return git("show", f"refs/heads/{ref}:{path}", at=self.origin)

    def files(self, ref: str = BRANCH) -> list[str]:
        """The files of a branch on the server."""
        return git("ls-tree", "-r", "--name-only", f"refs/heads/{ref}", at=self.origin).splitlines()
