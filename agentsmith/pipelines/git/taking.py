"""What the worker has done since we last looked: its commits, and its files on top of them.

The files are the truth. The worker's commits are kept where they can be: they must be whole, and the branch on the
server must stay behind us, because nothing is ever forced.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from agentsmith.pipelines.git.vault import CONFLICT, MERGING, TIP, Vault
from agentsmith.pipelines.git.workspace import Heads


@dataclass(frozen=True, slots=True)
class Look:
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


async def look(vault: Vault, branch: str, *, limit: int) -> Look:
    """See what is in the workspace, without moving anything."""
    tip = await vault.ref(TIP)
    assert tip is not None, "a vault in use has a tip"  # noqa: S101
    heads = await asyncio.to_thread(vault.workspace.heads, branch)
    taken = {commit for commit in (heads.head, heads.branch) if commit and await vault.take_over(commit, limit=limit)}
    head = heads.head if heads.head in taken else None
    parents = await _onto(vault, tip, head)
    staged = await vault.stage(parents[-1])
    seen = Look(parents, staged.tree, heads, staged.left_out)
    if staged.tree == await vault.tree(CONFLICT):
        return replace(seen, parents=(tip,), tree=await vault.tree_of(tip))  # nobody has touched the merge
    if head is not None and head != tip and parents == (tip,) and staged.tree == await vault.tree_of(head):
        # It went to look at an older commit, and left the files like that: what counts is its branch.
        ahead = heads.branch in taken and await vault.contains(heads.branch or tip, tip)
        branch_head = heads.branch if ahead and heads.branch else tip
        return replace(seen, parents=(branch_head,), tree=await vault.tree_of(branch_head))
    merging = await vault.ref(MERGING)
    if merging is not None and heads.merging == merging and not await _behind(vault, merging, parents):
        return replace(seen, parents=(*parents, merging))
    return seen


async def _onto(vault: Vault, tip: str, head: str | None) -> tuple[str, ...]:
    """What the files continue: our tip, the worker's head if that goes on from it, or both if it went elsewhere."""
    if head is None or await vault.contains(tip, head):
        return (tip,)
    if await vault.contains(head, tip):
        return (head,)
    if await vault.meeting(tip, head) is None:
        return (tip,)  # a history of its own has no place on this branch; its files have
    return (tip, head)


async def _behind(vault: Vault, commit: str, heads: tuple[str, ...]) -> bool:
    for head in heads:
        if await vault.contains(head, commit):
            return True
    return False
