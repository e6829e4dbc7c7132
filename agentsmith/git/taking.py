"""What the worker has done since we last looked: its commits, and its files on top of them.

The files are the truth. The worker's commits are kept where they can be: they must be whole, and the branch on the
server must stay behind us, because nothing is ever forced.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from agentsmith.git.vault import CONFLICT, MERGING, TIP, Vault
from agentsmith.git.workspace import Heads


@dataclass(frozen=True, slots=True)
class WorkspaceState:
    """The work as it is now: `tree`, to be committed on `parents`, of which the first may already be that."""

    parents: tuple[str, ...]
    tree: str
    heads: Heads
    left_out: tuple[str, ...] = ()

    async def record(self, vault: Vault, message: str) -> str:
        """Make it the head of the branch, with a commit where one is needed."""
        if len(self.parents) == 1 and self.tree == await vault.tree_of(self.parents[0]):
            commit = self.parents[0]
        else:
            commit = await vault.commit(self.tree, self.parents, message)
        await vault.set_ref(TIP, commit)
        return commit


async def workspace_state(vault: Vault, branch: str, *, limit: int) -> WorkspaceState:
    """See what is in the workspace, without moving anything."""
    heads = await asyncio.to_thread(vault.workspace.heads, branch)
    found = {commit for commit in (heads.head, heads.branch) if commit is not None}
    taken = {commit for commit in found if await vault.take_over(commit, limit=limit)}
    head = heads.head if heads.head in taken else None
    tip, merging, untouched, tree_of_head = await vault.resolve(TIP, MERGING, CONFLICT, f"{head or TIP}^{{tree}}")
    assert tip is not None, "a vault in use has a tip"  # noqa: S101
    parents = await _onto(vault, tip, head)
    staged = await vault.stage(parents[-1])
    seen = WorkspaceState(parents, staged.tree, heads, staged.left_out)
    if staged.tree == untouched:
        return replace(seen, parents=(tip,), tree=await vault.tree_of(tip))  # nobody has begun to resolve the conflict
    if head is not None and staged.tree == tree_of_head and await vault.contains(tip, head):
        # It may have gone to look at an older commit, and left the files like that: what counts is its branch.
        on = heads.branch if heads.branch in taken and await vault.contains(heads.branch or tip, tip) else tip
        return replace(seen, parents=(on or tip,), tree=await vault.tree_of(on or tip))
    if merging is not None and heads.merging == merging and not await _behind(vault, merging, parents):
        return replace(seen, parents=(*parents, merging))
    return seen


async def _onto(vault: Vault, tip: str, head: str | None) -> tuple[str, ...]:
    """What the files continue: our tip, the worker's head if that goes on from it, or both if it went elsewhere."""
    met = tip if head in (None, tip) else await vault.meeting(tip, head or tip)
    if head is None or met in (head, None):
        return (tip,)  # a history of its own has no place on this branch either; its files have
    return (head,) if met == tip else (tip, head)


async def _behind(vault: Vault, commit: str, heads: tuple[str, ...]) -> bool:
    for head in heads:
        if await vault.contains(head, commit):
            return True
    return False
