"""Bare repositories in a folder of their own, which is gone when the simulator is. What they hold, git itself says.

Nothing here waits for long: a command takes some milliseconds, and handlers may call it as they are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

SEED: Final[Mapping[str, str]] = {"README.md": "# A repository to play with\n"}
"""What the first commit of a repository holds unless told otherwise."""
SETTINGS: Final = {
    "uploadpack.allowFilter": "true",
    "uploadpack.allowAnySHA1InWant": "true",
    "receive.autogc": "false",
    "gc.auto": "0",
    "core.hooksPath": "/dev/null",
}
"""As the platforms have it: clones without blobs, and any commit may be asked for."""
_FIELDS: Final = "%H%x00%P%x00%T%x00%an%x00%ct%x00%B%x01"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit, as git tells it."""

    sha: str
    parents: tuple[str, ...]
    tree: str
    author: str
    at: datetime
    message: str


def git_environment(home: Path) -> dict[str, str]:
    """An environment in which git sees no configuration but the repository's own."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "SYSTEMROOT") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "LANG": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
    }


@dataclass(frozen=True, slots=True)
class BareRepository:
    """One repository on disk."""

    path: Path
    default_branch: str

    def heads(self) -> dict[str, str]:
        """The commit of every branch, by the branch's name; read without git, which here never packs its refs."""
        root = self.path / "refs" / "heads"
        found: dict[str, str] = {}
        for path in sorted(root.rglob("*")):
            if path.suffix != ".lock":
                with suppress(OSError):  # a folder, or a branch that somebody deletes in this moment
                    found[path.relative_to(root).as_posix()] = path.read_text().strip()
        return found

    def has(self, branch: str) -> bool:
        """Whether the branch is there."""
        return (self.path / "refs" / "heads" / branch).is_file()

    def ahead(self, base: str, head: str) -> int:
        """How many commits branch `head` has that branch `base` lacks; LookupError where one of them is not there."""
        heads = self.heads()
        if base not in heads or head not in heads:
            raise LookupError(f"no branch {base if base not in heads else head}")
        return int(self._git("rev-list", "--count", f"{heads[base]}..{heads[head]}"))

    def commits(self) -> list[Commit]:
        """Every commit that a branch leads to, newest first."""
        if not self.heads():
            return []
        records = self._git("log", "--branches", f"--format={_FIELDS}").split("\x01")
        return [_commit(record.lstrip("\n")) for record in records if record.strip()]

    def history(self, branch: str) -> list[str]:
        """The commits that a branch leads to, newest first; none where it is not there."""
        tip = self.heads().get(branch)
        return self._git("rev-list", tip).split() if tip else []

    def commit(self, branch: str, files: Mapping[str, str | None], *, message: str, author: str, at: datetime) -> str:
        """Put a commit on a branch, as somebody who pushed it; a file that is None is removed. Answers its sha.

        A branch that is not there begins at the default branch.
        """
        heads = self.heads()
        start = heads.get(branch) or heads.get(self.default_branch)
        who = f"{author} <{author.partition('@')[0]}@simulator.example> {int(at.timestamp())} +0000"
        lines = [f"commit refs/heads/{branch}", f"author {who}", f"committer {who}", _data(message)]
        lines += [f"from {start}"] if start else []
        for name, text in files.items():
            lines += [f"D {name}"] if text is None else [f"M 100644 inline {name}", _data(text)]
        self._git("fast-import", "--quiet", "--force", stdin="\n".join([*lines, "", "done", ""]))
        return self.heads()[branch]

    def file(self, branch: str, name: str) -> str | None:
        """What a file holds on a branch; None where it is not there."""
        done = self._run("cat-file", "blob", f"refs/heads/{branch}:{name}")
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None

    def _git(self, *arguments: str, stdin: str = "") -> str:
        done = self._run(*arguments, stdin=stdin)
        if done.returncode != 0:
            raise RuntimeError(f"git {arguments[0]} failed: {done.stderr.decode('utf-8', 'replace').strip()}")
        return done.stdout.decode("utf-8", "replace")

    def _run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["git", f"--git-dir={self.path}", *arguments],
            input=stdin.encode(),
            capture_output=True,
            env=git_environment(self.path.parent),
            cwd=self.path.parent,  # git wants one that exists, whatever became of ours
            check=False,
        )


@dataclass(slots=True, weakref_slot=True)
class GitHome:
    """The folder of one simulator's repositories, made when the first is needed and gone with the simulator."""

    _made: dict[str, BareRepository] = field(default_factory=dict)
    _folder: Path | None = None

    @property
    def folder(self) -> Path:
        """Where they are."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="agentsmith-git-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    def get(self, key: str) -> BareRepository | None:
        """The repository of that key, if it was made already."""
        return self._made.get(key)

    def make(
        self, key: str, *, default_branch: str, seed: Mapping[str, str], author: str, at: datetime
    ) -> BareRepository:
        """A new repository under a key that is fit for a folder's name; without a seed it is empty."""
        path = self.folder / f"{key}.git"
        made = BareRepository(path, default_branch)
        path.mkdir()
        made._git("init", "--quiet", "--bare", "--template=", f"--initial-branch={default_branch}")
        with (path / "config").open("a") as config:
            for name, value in SETTINGS.items():
                section, _, option = name.partition(".")
                config.write(f"[{section}]\n\t{option} = {value}\n")
        if seed:
            made.commit(default_branch, seed, message="Start", author=author, at=at)
        self._made[key] = made
        return made

    def remove(self) -> None:
        """Throw the folder away as well; another one is made when it is needed again."""
        self._made.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def clear(self) -> None:
        """Throw all repositories away."""
        self._made.clear()
        if self._folder is not None:
            for path in self._folder.iterdir():
                shutil.rmtree(path, ignore_errors=True)


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}"


def _commit(record: str) -> Commit:
    sha, parents, tree, author, at, message = record.split("\x00", 5)
    when = datetime.fromtimestamp(int(at), UTC)
    return Commit(sha, tuple(parents.split()), tree, author, when, message.rstrip("\n"))
