"""The vault: a ticket's repository out of the worker's reach. All our commits are made here, and all pushes start here.

Its objects reach down to the mirror's (alternates); its index knows the files of the workspace, which git handles here
as a work tree of the vault: the worker's own `.git` takes no part in that.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentsmith.domain.errors import pass_over
from agentsmith.git.command import Git
from agentsmith.git.errors import BranchRefused, GitFailed
from agentsmith.git.repository import Origin, configuration, lay_out, packed_refs, remove, sweep, write
from agentsmith.git.workspace import Workspace

TIP: Final = "refs/agentsmith/tip"
"""The head of our branch."""
PUSHED: Final = "refs/agentsmith/pushed"
"""Where the server's branch was when we last knew."""
MERGING: Final = "refs/agentsmith/merging"
"""The base commit that the workspace was left in the middle of merging."""
CONFLICT: Final = "refs/agentsmith/conflict"
"""The tree that such a merge put into the workspace: as long as that is there, nobody has begun to resolve it."""
ASIDE: Final = "refs/agentsmith/aside"
"""Work that nothing continues, kept until the clean-up."""
GITLINK: Final = "160000"
_MOST_LEFT_OUT: Final = 20


@dataclass(frozen=True, slots=True)
class Staged:
    """What is in the workspace, as a tree; and what cannot be in one."""

    tree: str
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Conflict:
    """A merge that needs a decision: the files with their markers, and the stages for the index."""

    tree: str
    stages: bytes
    paths: tuple[str, ...]


class Vault:
    """One ticket's vault, as one run sees it. Held by one process at a time."""

    def __init__(self, path: Path, git: Git, workspace: Workspace) -> None:
        self.path, self.workspace = path, workspace
        self._git = git
        self._note = path / "agentsmith.json"
        self._saved = path / "agentsmith.saved"
        self._unready = path / "agentsmith.unready"
        self._origin: Origin | None = None
        self._trees: dict[str, str] = {}
        self.submodules: Mapping[str, Path] = {}
        """The mirrors of submodules that are checked out, by path."""
        self.lfs = False

    def with_git(self, git: Git) -> Vault:
        """The same vault, worked on through another shell."""
        other = Vault(self.path, git, self.workspace)
        other._origin, other.submodules, other.lfs, other._trees = self._origin, self.submodules, self.lfs, self._trees
        return other

    # What is written beside git's own files

    def belongs_to(self, url: str) -> bool | None:
        """Whether this is a vault of that repository; None when there is none yet."""
        try:
            return bool(json.loads(self._note.read_text())["origin"] == url)
        except (OSError, ValueError, KeyError) as error:
            pass_over(error)
            return None

    def lay_out(self, origin: Origin, objects: Path, refs: Mapping[str, str]) -> None:
        """Make the vault, or put it right after a crash; its refs and objects stay. `refs` are the server's."""
        self._origin = origin
        self.path.mkdir(parents=True, exist_ok=True)
        sweep(self.path)
        remove(self.path / "incoming.git")
        remove(self.path / "handover.git")
        remove(self.path / "refs/remotes")
        lay_out(self.path, config=configuration(origin, bare=True), alternates=(objects,))
        (self.path / "refs/agentsmith").mkdir(parents=True, exist_ok=True)
        write(self.path / "packed-refs", packed_refs(_as_remote(refs)))
        write(self._note, json.dumps({"origin": origin.url, "workspace": str(self.workspace.path)}))

    def mark_saved(self, saved: bool) -> None:
        """Note whether the server has all that the workspace holds; a crash in between leaves it at no."""
        if saved:
            self._saved.touch()
        else:
            self._saved.unlink(missing_ok=True)

    @property
    def ready(self) -> bool:
        """Whether the workspace holds what somebody did there, rather than half of a checkout."""
        return not self._unready.exists()

    def mark_ready(self, ready: bool) -> None:
        """Note that the files of the workspace are about to be changed by us, or that this is done."""
        if ready:
            self._unready.unlink(missing_ok=True)
        else:
            self._unready.touch()

    # Refs and history

    async def resolve(self, *names: str) -> list[str | None]:
        """What each name (as git understands it: `ref`, `id^{commit}`, `ref^{tree}`) stands for, None for nothing."""
        asked = "".join(f"{name}\n" for name in names).encode()
        said = await self._git("cat-file", "--batch-check=%(objectname)", repo=self.path, stdin=asked)
        return [None if " " in line else line for line in said.lines]

    async def ref(self, name: str) -> str | None:
        """The commit that a ref or an id names."""
        return (await self.resolve(f"{name}^{{commit}}"))[0]

    async def tree_of(self, commit: str) -> str:
        """The tree of a commit."""
        if commit not in self._trees:
            (tree,) = await self.resolve(f"{commit}^{{tree}}")
            if tree is None:
                raise GitFailed(f"the commit {commit[:12]} is not whole")
            self._trees[commit] = tree
        return self._trees[commit]

    async def set_refs(self, refs: Mapping[str, str | None]) -> None:
        """Point refs somewhere, or remove them, all or none."""
        orders = (f"delete {name}\n" if to is None else f"update {name} {to}\n" for name, to in refs.items())
        await self._git("update-ref", "--stdin", repo=self.path, stdin="".join(orders).encode())

    async def set_ref(self, name: str, commit: str) -> None:
        """Point one ref somewhere."""
        await self.set_refs({name: commit})

    async def contains(self, commit: str, ancestor: str) -> bool:
        """Whether `ancestor` is `commit` or lies behind it."""
        if commit == ancestor:
            return True
        said = await self._git("merge-base", "--is-ancestor", ancestor, commit, repo=self.path, fine=(0, 1))
        return said.code == 0

    async def meeting(self, one: str, other: str) -> str | None:
        """Where two histories met last, or None when they never did."""
        said = await self._git("merge-base", one, other, repo=self.path, fine=(0, 1))
        return said.text or None

    async def keep_aside(self, commit: str) -> str:
        """Keep a commit that the branch does not continue; answers the ref."""
        name = f"{ASIDE}/{commit[:12]}"
        await self.set_ref(name, commit)
        return name

    async def commit(self, tree: str, parents: Sequence[str], message: str) -> str:
        """Make a commit, without moving anything."""
        args = [arg for parent in parents for arg in ("-p", parent)]
        text = message.replace("\0", "").encode("utf-8", "replace")
        return (await self._git("commit-tree", tree, *args, "-F", "-", repo=self.path, stdin=text)).text

    async def message_of(self, commit: str) -> str:
        """What a commit says."""
        said = await self._git("log", "-1", "--format=%B", commit, "--", repo=self.path)
        return said.out.decode("utf-8", "replace").strip() + "\n"

    async def frontier(self, tip: str, known: Sequence[str]) -> list[str]:
        """The newest commits behind `tip` that `known` (as for `git rev-list`) covers, none behind another."""
        said = await self._git("rev-list", "--boundary", tip, *known, repo=self.path)
        edge = [line[1:] for line in said.lines if line.startswith("-")]
        if len(edge) < 2:
            return edge
        return (await self._git("merge-base", "--independent", *edge, repo=self.path)).lines

    async def changed_paths(self, before: str, after: str) -> tuple[str, ...]:
        """The files that differ between two commits or trees."""
        said = await self._git(
            "diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=d", before, after, repo=self.path
        )
        return tuple(said.items)

    # Files

    async def stage(self, onto: str) -> Staged:
        """Take the files of the workspace as they are, on top of what `onto` tracks, into the index and as a tree.

        Ignored files stay out unless they are tracked; so do repositories inside the workspace, as with `git add`, and
        whatever cannot be read. Works by single paths: a scan by git itself would look into nested repositories,
        and run what they configure.
        """
        work_tree = self.workspace.path
        await self._read_tree("--reset", onto)
        tracked = (await self._git("ls-files", "-z", "--stage", repo=self.path, work_tree=work_tree)).items
        excludes = self.path / "info/exclude"
        write(excludes, await asyncio.to_thread(self.workspace.excludes))
        new = (
            await self._git(*("ls-files", "-z", "--others", "--exclude-standard"), repo=self.path, work_tree=work_tree)
        ).items
        write(excludes, "")
        files, beyond = await asyncio.to_thread(self._sort, tracked)
        left_out = [path for path in new if path.endswith("/")]
        files += [path for path in new if not path.endswith("/")]
        if beyond:
            await self._update_index(beyond, "--force-remove")
        left_out += await self._add(files)
        left_out += await self._move_submodules(tracked)
        tree = (await self._git("write-tree", "--missing-ok", repo=self.path)).text
        return Staged(tree, tuple(left_out))

    async def check_out(self, commit: str) -> None:
        """Bring the files of the workspace from what the index knows to what a commit or tree has."""
        await self._read_tree("--reset", "-u", commit)

    async def take_over(self, commit: str, *, limit: int) -> bool:
        """Take a commit over from the worker's repository, with all behind it; False when it is not whole.

        Its objects are copied as data into a repository of our own, packs are indexed anew and every object is hashed
        and checked again on the way into the vault. So nothing gets in under a false name.
        """
        if self.lfs:
            await asyncio.to_thread(self.workspace.copy_large_files, self.path / "lfs/objects", limit=limit)
        if await self.ref(commit) is not None:
            return True
        assert self._origin is not None  # noqa: S101
        incoming = self.path / "incoming.git"
        remove(incoming)
        lay_out(incoming, config=configuration(self._origin, bare=True), alternates=(self.path / "objects",))
        try:
            await asyncio.to_thread(self.workspace.copy_objects, incoming / "objects", limit=limit)
            for pack in sorted((incoming / "objects/pack").glob("*.pack")):
                await self._git("index-pack", str(pack), repo=incoming)
            write(incoming / "packed-refs", packed_refs({"refs/heads/worker": commit}))
            await self._git(
                *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", str(incoming)),
                "+refs/heads/worker:refs/agentsmith/worker",
                repo=self.path,
                allow="file",
                config=(("fetch.fsckObjects", "true"), ("fetch.unpackLimit", "1")),
            )
        except GitFailed:
            return False
        finally:
            await asyncio.to_thread(remove, incoming)
        return True

    async def merge(self, ours: str, theirs: str) -> str | Conflict:
        """Merge two commits without a work tree: the merged tree, or what stands in the way."""
        said = await self._git.online(
            *("merge-tree", "--write-tree", "-z", "--no-messages", ours, theirs), repo=self.path, fine=(0, 1, 128)
        )
        if said.code == 128:
            if "unrelated histories" in said.err:
                raise BranchRefused("the branch and its base have no history in common, so they cannot be merged")
            raise GitFailed(f"the base could not be merged: {said.err}")
        tree, *stages = said.out.split(b"\0")
        if said.code == 0:
            return tree.decode()
        entries = [entry for entry in stages if entry]
        paths = dict.fromkeys(os.fsdecode(entry.partition(b"\t")[2]) for entry in entries)
        return Conflict(tree.decode(), b"".join(entry + b"\0" for entry in entries), tuple(paths))

    async def conflicted_index(self, conflict: Conflict) -> Path:
        """The index that `git merge` would have left, for the worker; ours only knows the files."""
        index = self.path / "index.conflicted"
        write(index, (self.path / "index").read_bytes())
        zero = "0" * len(conflict.tree)
        unmerge = b"".join(os.fsencode(f"0 {zero} 0\t{path}") + b"\0" for path in conflict.paths)
        await self._git(
            "update-index", "-z", "--index-info", repo=self.path, index=index, stdin=unmerge + conflict.stages
        )
        return index

    async def _read_tree(self, *args: str) -> None:
        try:
            await self._git("read-tree", *args, repo=self.path, work_tree=self.workspace.path)
        except GitFailed:
            # An index that was cut off tells nothing that the files do not tell.
            (self.path / "index").unlink(missing_ok=True)
            await self._git("read-tree", *args, repo=self.path, work_tree=self.workspace.path)

    async def _update_index(self, paths: Sequence[str], *options: str) -> None:
        stdin = b"".join(os.fsencode(path) + b"\0" for path in paths)
        await self._git(
            *("update-index", *options, "-z", "--stdin"), repo=self.path, work_tree=self.workspace.path, stdin=stdin
        )

    async def _add(self, paths: Sequence[str]) -> list[str]:
        """Stage what can be staged; answers the rest, which is found by halving."""
        failed: list[str] = []
        waiting = [paths] if paths else []
        while waiting:
            some = waiting.pop()
            try:
                await self._update_index(some, "--add", "--remove", "--replace")
            except GitFailed:
                if len(some) == 1:
                    failed += some
                    if len(failed) > _MOST_LEFT_OUT:  # then it is not these files
                        raise
                else:
                    half = len(some) // 2
                    waiting += [some[half:], some[:half]]
        return failed

    async def _move_submodules(self, tracked: Sequence[str]) -> list[str]:
        """Follow a worker that moved a submodule to another commit of its server; answers where it cannot be."""
        left_out = []
        for entry in tracked:
            meta, _, path = entry.partition("\t")
            mirror = self.submodules.get(path) if meta.startswith(GITLINK) else None
            if mirror is None:
                continue
            head = (await asyncio.to_thread(Workspace(self.workspace.path / path).heads, "none")).head
            if head is None or head == meta.split(" ")[1]:
                continue
            said = await self._git("cat-file", "-e", f"{head}^{{commit}}", repo=mirror, fine=(0, 1, 128))
            if said.code == 0:
                await self._git("update-index", "--cacheinfo", f"{GITLINK},{head},{path}", repo=self.path)
            else:
                left_out.append(path)
        return left_out

    def _sort(self, tracked: Sequence[str]) -> tuple[list[str], list[str]]:
        """Tracked files, and those of them that now lie behind a symbolic link, so that they are gone."""
        top = str(self.workspace.path)
        known: dict[str, bool] = {"": False}

        def linked(folder: str) -> bool:
            if folder not in known:
                try:
                    link = stat.S_ISLNK(os.lstat(os.path.join(top, folder)).st_mode)
                except OSError as error:
                    pass_over(error)
                    link = False
                known[folder] = link or linked(folder.rpartition("/")[0])
            return known[folder]

        files: list[str] = []
        beyond: list[str] = []
        for entry in tracked:
            meta, _, path = entry.partition("\t")
            if not meta.startswith(GITLINK):
                (beyond if linked(path.rpartition("/")[0]) else files).append(path)
        return files, beyond


def _as_remote(refs: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("refs/heads/", "refs/remotes/origin/", 1): commit for name, commit in refs.items()}
