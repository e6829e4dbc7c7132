"""A ticket's checkout, once it is open: what changed, commits, and pushes that are never forced.

Three repositories take part, so that nothing that a worker can write is ever trusted (`docs/git.md`):

* the *mirror*, one per repository: what the server has, bare and without old blobs, shared by all tickets;
* the *vault*, one per ticket, out of the worker's reach: our index and our commits; all pushes start here;
* the *workspace*: files and a `.git` of the worker's own. We never run git inside that `.git`: the files are staged
  by the vault, and commits that the worker made are copied as data, checked, and only then taken over.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import structlog

from agentsmith.git import lfs
from agentsmith.git.command import AWAY, Git
from agentsmith.git.errors import NotUnderstood, PushRefused
from agentsmith.git.locks import FileLock
from agentsmith.git.mirror import Mirror
from agentsmith.git.outcomes import BaseMerge, Diverged, Pushed, PushOutcome, SecretsFound
from agentsmith.git.secrets import BASELINE, search
from agentsmith.git.shell import GitShell
from agentsmith.git.taking import WorkspaceState, workspace_state
from agentsmith.git.vault import MERGING, PUSHED, TIP, Vault
from agentsmith.git.workspace import Handover, Workspace

log = structlog.get_logger()

BeginWrite = Callable[[], Awaitable[None]]
"""Called right before a push begins; raises LeaseLost when this run may write no more (P6)."""
_LARGEST_BASELINE: Final = 16 * 1024**2
_ON_SERVER: Final = ("--not", "--remotes=origin", "--tags")
_RACE: Final = re.compile(r"fetch first|non-fast-forward|stale info|cannot lock ref|reference already exists", re.I)
_SICK: Final = re.compile(
    rf"{AWAY.pattern}|unreachable|unavailable|internal (?:api|server|error)|due to load|overload|temporar|try again"
    r"|unexpected|out of memory|no space",
    re.I,
)
_RULE: Final = re.compile(
    r"GH\d{3}|TF4\d{5}|VS4\d{5}|protected|not (?:allowed|permitted|authori[sz]ed)|permission|den(?:y|ied)|forbidden"
    r"|refus|prohibit|polic(?:y|ies)|\brules?\b|violat|\bmust\b|require|invalid|pattern|secret|too (?:large|big|long)"
    r"|exceed|larger than|locked|archived|read.only|hidden ref",
    re.I,
)
"""How servers word a refusal by their rules. One in other words may be trouble of the server, and is tried again."""
_UNFIT: Final = re.compile(r"[^A-Za-z0-9-]+")


@dataclass(frozen=True, slots=True)
class Author:
    """Who stands in the commits that we make, and in the worker's git configuration."""

    name: str = "agentsmith"
    email: str = "agentsmith@localhost"

    def environment(self) -> dict[str, str]:
        """As git reads it."""
        who = {"NAME": self.name, "EMAIL": self.email}
        return {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}


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
    workspace: float = 60.0
    """Waiting for another run that still holds the same workspace."""
    taken_over: int = 2 * 1024**3
    """Objects that a worker made."""
    scanned: int = 64 * 1024**2
    """Changes that are searched for secrets; larger pushes are refused."""


@dataclass(frozen=True, slots=True)
class CheckoutParts:
    """What an open checkout stands on; `open_checkout` makes them."""

    git: Git
    mirror: Mirror
    vault: Vault
    workspace: Workspace
    lock: FileLock
    handover: Handover
    default_commit: str
    base_commit: str
    bounds: Bounds


class Checkout:
    """An open workspace on its branch. Its operations follow each other; `close` when the run ends."""

    def __init__(self, parts: CheckoutParts, *, resumed: bool, merge: BaseMerge, notes: tuple[str, ...]) -> None:
        self._parts = parts
        self._turn = asyncio.Lock()
        self.path: Path = parts.workspace.path
        self.branch: str = parts.handover.branch
        self.base: str = parts.handover.base
        self.resumed = resumed
        """The branch was there before: on the server, or left by a run that crashed here."""
        self.merge = merge
        """What merging the base gave. `Conflicted` is for the worker to resolve: tell it."""
        self.notes = notes
        """What was found and mended on opening, for the log and the ticket."""

    async def changed(self) -> bool:
        """Whether the branch, uncommitted work included, differs from its base."""
        async with self._turn:
            vault = self._parts.vault
            seen = await self._look(vault)
            base = self._parts.base_commit
            met = await vault.meeting(base, seen.parents[0]) or base
            return seen.tree != await vault.tree_of(met)

    async def conflicts(self) -> tuple[str, ...]:
        """The files that the merge of the base left in conflict and that still hold its markers."""
        paths = getattr(self.merge, "paths", ())
        return await asyncio.to_thread(self._parts.workspace.unresolved, paths)

    async def commit(self, message: str, *, trailers: Mapping[str, str] | None = None) -> str | None:
        """Commit all that is in the workspace; the new head of the branch, or None when there was nothing new.

        Commits that the worker made itself are kept. Whatever state it left its own `.git` in does not matter: it gets
        a fresh one that shows the new head.
        """
        async with self._turn:
            return await self._commit(self._parts.vault, with_trailers(message, trailers or {}), present=True)

    async def push(self, begin_write: BeginWrite) -> PushOutcome:
        """Push what was committed, never by force, if no new commit holds a secret.

        Where a secret stands only in unpushed commits and is gone from the result, those commits are made one.
        """
        async with self._turn:
            return await self._push(self._parts.git, self._parts.vault, begin_write, present=True)

    async def save_wip(self, *, run: str, pipeline: str, step: str, begin_write: BeginWrite) -> PushOutcome | None:
        """Commit what is there as `[wip]`, with the trailers of the run, and push it; None when there is nothing."""
        parts = self._parts
        async with self._turn:
            return await self._save(parts.git, parts.vault, _wip(run, pipeline, step), begin_write, present=True)

    async def checkpoint(
        self, *, run: str, pipeline: str, step: str, begin_write: BeginWrite, shell: GitShell
    ) -> PushOutcome | None:
        """Like `save_wip`, while the worker works on: it needs a `shell` of its own, and leaves the workspace alone."""
        git = replace(self._parts.git, shell=shell)
        vault = self._parts.vault.with_git(git)
        async with self._turn:
            return await self._save(git, vault, _wip(run, pipeline, step), begin_write, present=False)

    async def show(self, path: str, *, limit: int = 1024 * 1024) -> bytes | None:
        """A file as it is on the server's default branch, and nowhere else; None when there is none.

        No other ref can be named, on purpose: what steers a run must not come from a branch that a run can write.
        """
        async with self._turn:
            return await self._show(self._parts.git, path, limit)

    async def close(self) -> None:
        """Release the workspace, which stays as it is."""
        self._parts.lock.release()

    async def _show(self, git: Git, path: str, limit: int) -> bytes | None:
        return await self._parts.mirror.with_git(git).file(self._parts.default_commit, path, limit=limit)

    async def _look(self, vault: Vault) -> WorkspaceState:
        seen = await workspace_state(vault, self.branch, limit=self._parts.bounds.taken_over)
        if seen.left_out:
            log.warning("left out of the commit", paths=list(seen.left_out[:20]), count=len(seen.left_out))
        return seen

    async def _commit(self, vault: Vault, message: str, *, present: bool) -> str | None:
        before = await vault.ref(TIP)
        seen = await self._look(vault)
        after = await seen.record(vault, message)
        if after == before:
            return None
        if present and after != seen.heads.head:
            await self._present(vault, after)
        return after

    async def _save(
        self, git: Git, vault: Vault, message: str, begin_write: BeginWrite, *, present: bool
    ) -> PushOutcome | None:
        await self._commit(vault, message, present=present)
        tip, pushed = await vault.resolve(TIP, PUSHED)
        if tip is None or await vault.contains(pushed or self._parts.base_commit, tip):
            return None
        return await self._push(git, vault, begin_write, present=present)

    async def _push(self, git: Git, vault: Vault, begin_write: BeginWrite, *, present: bool) -> PushOutcome:
        tip, pushed = await vault.resolve(TIP, PUSHED)
        assert tip is not None, "an open checkout has a tip"  # noqa: S101
        if tip == pushed:
            return Pushed(tip, moved=False)
        squashed = False
        found = await self._search(git, vault, tip)
        if found is not None:
            clean = await self._squash(git, vault, tip)
            if clean is None:
                return found
            tip, squashed = clean, True
            await vault.set_ref(TIP, tip)
            if present:
                await self._present(vault, tip)
        await begin_write()
        outcome = await self._send(git, vault, tip)
        if isinstance(outcome, Pushed):
            await vault.set_refs({PUSHED: tip, f"refs/remotes/origin/{self.branch}": tip})
            vault.mark_saved(True)
            return replace(outcome, squashed=squashed)
        return outcome

    async def _search(self, git: Git, vault: Vault, tip: str) -> SecretsFound | None:
        credential = await git.credential()
        findings = await search(
            git,
            vault.path,
            (tip, *_ON_SERVER),
            credential=credential.password if credential else None,
            baseline=await self._show(git, BASELINE, _LARGEST_BASELINE),
            limit=self._parts.bounds.scanned,
        )
        return SecretsFound(findings) if findings else None

    async def _squash(self, git: Git, vault: Vault, tip: str) -> str | None:
        """The unpushed commits as one, if that one holds no secret."""
        parents = await vault.frontier(tip, _ON_SERVER)
        squashed = await vault.commit(await vault.tree_of(tip), parents, await vault.message_of(tip))
        return None if await self._search(git, vault, squashed) else squashed

    async def _send(self, git: Git, vault: Vault, tip: str) -> Pushed | Diverged:
        ref = f"refs/heads/{self.branch}"
        if vault.lfs:
            await lfs.push(git, vault.path, TIP)
        said = await git.online(
            *("push", "--porcelain", "--no-verify", "--", git.url, f"{tip}:{ref}"), repo=vault.path, fine=(0, 1)
        )
        if said.code == 0:
            return Pushed(tip)
        words = next((line for line in said.lines if line.startswith("!")), said.err)
        if not _RACE.search(words):
            theirs = f"{words.rpartition(chr(9))[2]} {said.err}".strip()
            by_a_rule = _RULE.search(theirs) and not _SICK.search(theirs)
            raise (PushRefused if by_a_rule else NotUnderstood)(f"the server refused the push: {theirs}")
        there = await git.online("ls-remote", "--", git.url, ref, repo=vault.path)
        return Diverged(tip, there.text.partition("\t")[0] or None)

    async def _present(self, vault: Vault, commit: str) -> None:
        """Give the worker a `.git` that shows where the branch is now."""
        merging = None if await vault.contains(commit, self._parts.base_commit) else await vault.ref(MERGING)
        what = replace(self._parts.handover, commit=commit, index=vault.path / "index", merging=merging)
        await asyncio.to_thread(
            self._parts.workspace.hand_over, what, build_in=vault.path, former_to=vault.path / "former.git"
        )


def _wip(run: str, pipeline: str, step: str) -> str:
    trailers = {"Agentsmith-Run": run, "Agentsmith-Pipeline": pipeline, "Agentsmith-Failed-Step": step}
    return with_trailers(f"[wip] {pipeline}: stopped at {step}", trailers)


def with_trailers(message: str, trailers: Mapping[str, str]) -> str:
    """A commit message that ends with trailers; whatever the texts hold, each trailer is one line."""
    body = message.replace("\0", "").strip() or "Work on the ticket"
    lines = [
        f"{_UNFIT.sub('-', key).strip('-') or 'Note'}: {' '.join(value.split())}" for key, value in trailers.items()
    ]
    return f"{body}\n\n" + "".join(f"{line}\n" for line in lines) if lines else f"{body}\n"
