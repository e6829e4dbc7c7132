"""Opening a checkout: whatever was there before, the workspace is then where the work stands, merged with its base.

In this order, so that a crash between any two steps loses nothing: refresh the mirror; take what a crashed run left in
the workspace into the vault; decide where the branch continues; merge the base; only then change the files.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import structlog

from agentsmith.domain.forge import Forge
from agentsmith.git import lfs as large_files
from agentsmith.git import submodules as submodule
from agentsmith.git.checkout import Author, Bounds, Checkout, CheckoutParts, with_trailers
from agentsmith.git.command import Git, TimeLimits, check_version
from agentsmith.git.errors import BaseMissing, BranchRefused
from agentsmith.git.locks import FileLock
from agentsmith.git.mirror import Mirror
from agentsmith.git.outcomes import BaseMerge, Conflicted, Merged, UpToDate
from agentsmith.git.places import Places, check_beside, check_branch
from agentsmith.git.repository import make_passage, remove, set_aside
from agentsmith.git.shell import GitShell
from agentsmith.git.taking import workspace_state
from agentsmith.git.vault import CONFLICT, MERGING, PUSHED, TIP, Conflict, Vault
from agentsmith.git.workspace import Handover, Workspace

log = structlog.get_logger()

_LEFT: Final = with_trailers("[wip] left in the workspace by a run that did not end", {})


@dataclass(frozen=True, slots=True)
class OtherName:
    """What the branch may be called on the server instead; `ours` if nobody else's branch can be called so."""

    branch: str
    ours: bool


@dataclass(frozen=True, slots=True)
class CheckoutPlan:
    """What is to be checked out, and where."""

    root: Path
    """Holds mirrors and vaults, and must contain `workspace`."""
    workspace: Path
    """The checkout's alone (no home, no temporary files: they would be committed)."""
    branch: str
    base: str | None = None
    """The default branch unless named."""
    other: OtherName | None = None
    """Where the server has no `branch`, it is this one, if that is there and is the work of this workspace."""
    submodules: bool = False
    lfs: bool = False
    blobless: bool = True
    """False brings the content of the whole history, for workers that read it (blame, bisect) without a credential."""
    author: Author = field(default_factory=Author)
    bounds: Bounds = field(default_factory=Bounds)


async def open_checkout(forge: Forge, shell: GitShell, plan: CheckoutPlan) -> Checkout:
    """Bring the workspace to where the work on the branch stands, merged with its base, whatever was there before.

    The branch resumes from the server's, with what a crashed run left here on top of it; else from what that run left;
    else from the base. Raises GitError or EmptyRepository.
    """
    branch, bounds = plan.branch, plan.bounds
    check_branch(branch)
    default = await forge.default_branch()
    base = plan.base or default
    if plan.branch in (base, default):
        raise BranchRefused(
            f"`{plan.branch}` is where the work is to be merged, so it cannot be the branch of the work"
        )
    limits = TimeLimits(network=bounds.network, local=bounds.local, stall=bounds.stall)
    git = Git(shell, forge.clone_url, forge.credential, limits, author=plan.author.environment())
    await check_version(git)
    if plan.lfs:
        await large_files.check_installed(git)
        git.config = large_files.settings(forge.clone_url, stall=bounds.stall)
    places = Places(plan.root)
    workspace = Workspace(plan.workspace)
    workspace.make(plan.root, reserved=places.reserved)
    make_passage(places.vaults)
    name = places.vault_name(plan.workspace)
    lock = await FileLock.take(places.vaults / f"{name}.lock", within=bounds.workspace, what=f"the workspace {name}")
    try:
        vault = Vault(places.vaults / f"{name}.git", git, workspace)
        vault.lfs = plan.lfs
        mirror = Mirror(places.mirrors, git, blobless=plan.blobless, patience=bounds.lock)
        opening = _Opening(plan, git, mirror, vault, workspace, places, branch, base, default)
        return await opening.run(lock)
    except BaseException:
        lock.release()
        raise


@dataclass(slots=True)
class _Opening:
    """One opening, step by step."""

    plan: CheckoutPlan
    git: Git
    mirror: Mirror
    vault: Vault
    workspace: Workspace
    places: Places
    branch: str
    """As the server has it, once that is known."""
    base: str
    default: str
    notes: list[str] = field(default_factory=list)

    async def run(self, lock: FileLock) -> Checkout:
        """All steps, in the order that loses nothing."""
        await self.mirror.refresh()
        refs = await self.mirror.refs()
        base_commit, default_commit = self._on_server(refs, self.base), self._on_server(refs, self.default)
        check_beside(
            self.branch, {r.removeprefix("refs/heads/"): c for r, c in refs.items() if r.startswith("refs/heads/")}
        )
        await asyncio.to_thread(self._clear_the_way)
        self.vault.lay_out(self.mirror.origin, self.mirror.path / "objects", refs)
        self.vault.mark_saved(False)
        self.branch = await self._spelled(refs)
        left = await self._salvage()
        theirs = refs.get(f"refs/heads/{self.branch}")
        start, resumed = await self._start(theirs, left, base_commit)
        await self.mirror.hydrate(start, base_commit, seen_from=self.vault.path)
        commit, tree, merge, conflict = await self._merge(start, base_commit)
        await self._settle(commit, theirs, base_commit, conflict)
        handover = Handover(
            origin=self.mirror.origin,
            branch=self.branch,
            commit=commit,
            base=self.base,
            refs=refs,
            objects=self.vault.path / "objects",
            index=self.vault.path / "index",
            author=self.plan.author.environment(),
            lfs=self.vault.lfs,
        )
        await self._fill(tree, handover, base_commit, default_commit, conflict)
        if resumed and conflict is None:
            merge = await self._markers(merge, base_commit, commit)
        for note in self.notes:
            log.warning("found on opening the checkout", note=note, branch=self.branch)
        parts = CheckoutParts(
            git=self.git,
            mirror=self.mirror,
            vault=self.vault,
            workspace=self.workspace,
            lock=lock,
            handover=handover,
            default_commit=default_commit,
            base_commit=base_commit,
            bounds=self.plan.bounds,
        )
        return Checkout(parts, resumed=resumed, merge=merge, notes=tuple(self.notes))

    async def _spelled(self, refs: dict[str, str]) -> str:
        """The branch as the server has it: by its other name only if that is ours for sure, or what we pushed last."""
        other = self.plan.other
        there = refs.get(f"refs/heads/{other.branch}") if other is not None else None
        if other is None or there is None or f"refs/heads/{self.branch}" in refs:
            return self.branch
        ours = other.ours or there == await self.vault.ref(PUSHED)
        return other.branch if ours else self.branch

    def _on_server(self, refs: dict[str, str], branch: str) -> str:
        commit = refs.get(f"refs/heads/{branch}")
        if commit is None:
            raise BaseMissing(f"the server has no branch `{branch}` to start from")
        return commit

    def _clear_the_way(self) -> None:
        """Move out of the way what is not this repository's, or what we had only half written ourselves."""
        aside = self.places.aside / self.vault.path.stem
        known = self.vault.belongs_to(self.git.url)
        if known is False:
            self.notes.append("the workspace belonged to another repository; what was in it is kept aside")
            set_aside(self.vault.path, aside / "vaults")
        if known is not True and not self.workspace.empty():
            set_aside(self.workspace.path, aside)
            if known is None:
                self.notes.append("the workspace was not empty; what was in it is kept aside")
        elif known and not self.vault.ready:
            set_aside(self.workspace.path, aside)
        if not self.workspace.path.is_dir():
            self.workspace.make(self.places.root)
            (self.vault.path / "index").unlink(missing_ok=True)

    async def _salvage(self) -> str | None:
        """What a run that did not end has left in the workspace, as a commit; None when there was no run before."""
        tip = await self.vault.ref(TIP)
        if tip is None or not self.vault.ready or self.workspace.empty():
            return tip
        seen = await workspace_state(self.vault, self.branch, limit=self.plan.bounds.taken_over)
        left = await seen.record(self.vault, _LEFT)
        if left != tip:
            self.notes.append(f"an earlier run left work that it had not committed; it is kept as {left[:12]}")
        return left

    async def _start(self, theirs: str | None, left: str | None, base: str) -> tuple[str, bool]:
        """Where the branch continues, and whether that is something older than this run."""
        pushed = await self.vault.ref(PUSHED)
        start = theirs or base
        if left is None or await self.vault.contains(start, left) or await self.vault.contains(base, left):
            return start, theirs is not None
        if pushed is not None and await self.vault.contains(pushed, left):
            return start, theirs is not None  # the server had all of it; what it made of it since is what counts
        if theirs is not None and await self.vault.contains(left, theirs):
            return left, True
        if theirs is None and pushed is None:
            return left, True
        where = await self.vault.keep_aside(left)
        happened = "was deleted" if theirs is None else "went on without it"
        self.notes.append(f"the branch {happened} on the server; work that was never pushed is kept at {where}")
        return start, theirs is not None

    async def _merge(self, start: str, base: str) -> tuple[str, str, BaseMerge, Conflict | None]:
        """Merge the base: the branch's head, what goes into the files, how it went."""
        if await self.vault.contains(start, base):
            return start, start, UpToDate(), None
        if await self.vault.contains(base, start):
            return base, base, Merged(base), None
        merged = await self.vault.merge(start, base)
        if isinstance(merged, Conflict):
            return start, merged.tree, Conflicted(merged.paths), merged
        commit = await self.vault.commit(merged, (start, base), f"Merge branch '{self.base}' into {self.branch}\n")
        return commit, commit, Merged(commit), None

    async def _settle(self, commit: str, theirs: str | None, base: str, conflict: Conflict | None) -> None:
        unfinished = {MERGING: base, CONFLICT: conflict.tree} if conflict else {MERGING: None, CONFLICT: None}
        await self.vault.set_refs({TIP: commit, PUSHED: theirs, **unfinished})

    async def _fill(self, tree: str, handover: Handover, base: str, default: str, conflict: Conflict | None) -> None:
        """Change the files of the workspace, and give the worker its repository."""
        vault = self.vault
        if vault.lfs:
            await large_files.fetch(self.git, vault.path, handover.commit, base)
        vault.mark_ready(False)
        await vault.check_out(tree)
        if self.plan.submodules:
            filled = await submodule.fill(self.git, vault, handover, mirror=self.mirror, reviewed={base, default})
            vault.submodules = filled.mirrors
            if filled.left_empty:
                self.notes.append(submodule.warning_about(filled.left_empty, self.base, self.default))
        if conflict is not None:
            index = await vault.conflicted_index(conflict)
            handover = replace(handover, index=index, merging=base)
        await asyncio.to_thread(
            self.workspace.hand_over, handover, build_in=vault.path, former_to=vault.path / "former.git"
        )
        remove(vault.path / "index.conflicted")
        vault.mark_ready(True)

    async def _markers(self, merge: BaseMerge, base: str, commit: str) -> BaseMerge:
        """A run that was stopped in a conflict has saved its markers: they are still for the worker to resolve."""
        paths = await self.vault.changed_paths(base, commit)
        left = await asyncio.to_thread(self.workspace.unresolved, paths)
        return Conflicted(left) if left else merge
