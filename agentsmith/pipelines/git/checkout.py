"""A ticket's checkout: opened at the start of a run, healed if the last one crashed, and pushed from, never forced.

Three repositories take part, so that nothing that a worker can write is ever trusted (`docs/git.md`):

* the *mirror*, one per repository: what the server has, bare and without old blobs, shared by all tickets;
* the *vault*, one per ticket, out of the worker's reach: our index and our commits; all pushes start here;
* the *workspace*: files and a `.git` of the worker's own. We never run git inside that `.git`: the files are staged
  by the vault, and commits that the worker made are copied as data, checked, and only then taken over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentsmith.domain.forge import Forge
from agentsmith.pipelines.git.outcomes import BaseMerge, PushOutcome, UpToDate
from agentsmith.pipelines.git.shell import GitShell

BeginWrite = Callable[[], Awaitable[None]]
"""Called right before a push begins; raises LeaseLost when this run may write no more (P6)."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who stands in the commits that we make, and in the worker's git configuration."""

    name: str = "agentsmith"
    email: str = "agentsmith@localhost"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long git may take and how much it may bring, in seconds and bytes."""

    network: float = 3600.0
    """One clone, fetch or push."""
    stall: float = 60.0
    """A transfer that moves nothing for so long is given up."""
    local: float = 900.0
    """One command that needs no network."""
    lock: float = 3600.0
    """Waiting for another process that clones or fetches the same repository."""
    taken_over: int = 2 * 1024**3
    """Objects that a worker made."""
    scanned: int = 256 * 1024**2
    """Changes that are searched for secrets; larger pushes are refused."""


@dataclass(slots=True)
class Checkout:
    """An open workspace on its branch. Its operations follow each other; `close` when the run ends."""

    path: Path
    branch: str
    base: str
    resumed: bool
    """The branch was there before: on the server, or left by a run that crashed here."""
    merge: BaseMerge = field(default_factory=UpToDate)
    """What merging the base gave. `Conflicted` is for the worker to resolve: tell it."""
    notes: tuple[str, ...] = ()
    """What was found and mended on opening, for the log and the ticket."""

    async def changed(self) -> bool:
        """Whether the branch, uncommitted work included, differs from its base."""
        raise NotImplementedError

    async def commit(self, message: str, *, trailers: Mapping[str, str] | None = None) -> str | None:
        """Commit all that is in the workspace; the new head of the branch, or None when there was nothing new.

        Commits that the worker made itself are kept. Whatever state it left its own `.git` in does not matter.
        """
        raise NotImplementedError

    async def push(self, begin_write: BeginWrite) -> PushOutcome:
        """Push what was committed, never by force, if no new commit holds a secret."""
        raise NotImplementedError

    async def save_wip(self, *, run: str, pipeline: str, step: str, begin_write: BeginWrite) -> PushOutcome | None:
        """Commit what is there as `[wip]`, with the trailers of the run, and push it; None when there is nothing."""
        raise NotImplementedError

    async def checkpoint(
        self, *, run: str, pipeline: str, step: str, begin_write: BeginWrite, shell: GitShell
    ) -> PushOutcome | None:
        """Like `save_wip`, while the worker works on: it needs a `shell` of its own, and leaves the workspace alone."""
        raise NotImplementedError

    async def show(self, path: str, *, limit: int = 1024 * 1024) -> bytes | None:
        """A file as it is on the server's default branch, and nowhere else; None when there is none.

        No other ref can be named, on purpose: what steers a run must not come from a branch that a run can write.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Let go of the workspace, which stays as it is."""
        raise NotImplementedError


async def open_checkout(
    forge: Forge,
    *,
    root: Path,
    workspace: Path,
    branch: str,
    base: str | None,
    shell: GitShell,
    submodules: bool = False,
    lfs: bool = False,
    author: Author | None = None,
    bounds: Bounds | None = None,
) -> Checkout:
    """Bring `workspace` to where the work on `branch` stands, merged with its base, whatever was there before.

    `root` holds mirrors and vaults and must contain `workspace`; `workspace` is the checkout's alone (no home, no
    temporary files: they would be committed). `base` is the default branch unless named. The branch resumes from the
    server's; without one there, from what a crashed run left here; else from the base. Raises GitError or
    EmptyRepository.
    """
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a clean-up removed, by name."""

    workspaces: tuple[str, ...] = ()
    mirrors: tuple[str, ...] = ()


def prune(root: Path, *, older_than: float, unsaved_older_than: float) -> Pruned:
    """Remove workspaces that no run has used for `older_than` seconds, and mirrors that nothing needs any more.

    Where work may be left that was never pushed, `unsaved_older_than` counts instead. What a run holds is spared.
    """
    raise NotImplementedError
