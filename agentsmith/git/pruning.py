"""Clean-up on one machine: workspaces that nobody has used for long, and mirrors that nothing needs any more."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from agentsmith.git.locks import FileLock
from agentsmith.git.places import Places
from agentsmith.git.repository import remove


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a clean-up removed, by name, what it kept only because it was never pushed, and what it could not remove."""

    workspaces: tuple[str, ...] = ()
    mirrors: tuple[str, ...] = ()
    unsaved: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()


Alone = Callable[[Path], AbstractContextManager[bool]]
"""Whether nobody needs the workspace at this path; nobody begins to use it while the block runs."""


def prune(
    root: Path,
    *,
    older_than: float,
    unsaved_older_than: float,
    now: float | None = None,
    alone: Alone = lambda _: nullcontext(True),
) -> Pruned:
    """Remove workspaces that no run has used for `older_than` seconds, and mirrors that nothing needs any more.

    Where work may be left that was never pushed, `unsaved_older_than` counts instead. What a run holds is spared, and
    so is what `alone` says is needed. Blocks: run it in a thread.
    """
    places, now = Places(root), time.time() if now is None else now
    removed, unsaved, stuck = list[str](), list[str](), list[str]()
    for vault in sorted(places.vaults.glob("*.git")):
        if now - _used(vault) <= older_than:
            continue
        workspace = _workspace(vault)
        with nullcontext(True) if workspace is None else alone(workspace) as ours:
            lock = FileLock.try_take(vault.with_suffix(".lock")) if ours else None
            if lock is None:
                continue
            try:
                idle = now - _used(vault)  # again: now nobody can use it
                saved = (vault / "agentsmith.saved").exists()
                if idle > (older_than if saved else unsaved_older_than):
                    if workspace is not None:
                        _remove_workspace(root, workspace)
                    remove(places.aside / vault.stem)
                    remove(vault)
                    removed.append(vault.stem)
                    vault.with_suffix(".lock").unlink(missing_ok=True)
                elif idle > older_than:
                    unsaved.append(vault.stem)
            except OSError:  # a worker left somebody else's files in it, say; the others go all the same
                stuck.append(vault.stem)
            finally:
                lock.release()
    for left in places.aside.glob("*"):
        if now - left.stat().st_mtime > unsaved_older_than:
            try:
                remove(left)
            except OSError:
                stuck.append(left.name)
    mirrors = _prune_mirrors(places, now - older_than)
    return Pruned(tuple(removed), tuple(mirrors), tuple(unsaved), tuple(dict.fromkeys(stuck)))


def _used(vault: Path) -> float:
    """When a run last opened this workspace, or recorded something from it."""
    marks = [vault / name for name in ("agentsmith.json", "agentsmith.saved", "index", "refs/agentsmith/tip")]
    try:
        return max((mark.stat().st_mtime for mark in marks if mark.exists()), default=vault.stat().st_mtime)
    except FileNotFoundError:  # a run changes it right now
        return math.inf


def _workspace(vault: Path) -> Path | None:
    try:
        return Path(json.loads((vault / "agentsmith.json").read_text())["workspace"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remove_workspace(root: Path, workspace: Path) -> None:
    """Put out of the way first: what cannot be removed whole must not be taken for what a worker left."""
    parent = Path(os.path.realpath(workspace.parent))
    if (parent / workspace.name).is_relative_to(os.path.realpath(root)) and parent != Path(
        os.path.realpath(root)
    ).parent:
        aside = workspace.with_name(f".removing-{workspace.name}-{uuid.uuid4().hex[:8]}")
        with contextlib.suppress(FileNotFoundError):
            workspace.rename(aside)
            remove(aside)


def _with_modules(folder: Path) -> Iterator[Path]:
    for vault in folder.glob("*.git"):
        yield vault
        yield from _with_modules(vault / "modules")


def _prune_mirrors(places: Places, before: float) -> list[str]:
    needed = set()
    for vault in _with_modules(places.vaults):
        alternates = vault / "objects/info/alternates"
        if alternates.exists():
            needed |= {Path(os.fsdecode(line)).parent for line in alternates.read_bytes().split(b"\n") if line}
    removed = []
    for used in sorted(places.mirrors.glob("*.used")):
        mirror = used.with_suffix(".git")
        if mirror in needed or used.stat().st_mtime > before:
            continue
        lock = FileLock.try_take(used.with_suffix(".lock"))
        if lock is None:
            continue
        try:
            if used.stat().st_mtime > before:  # again: now nobody can bring it up to date
                continue
            for path in places.mirrors.glob(f"{mirror.name}*"):
                remove(path)
            for suffix in (".busy", ".begun", ".done", ".used", ".lock"):
                used.with_suffix(suffix).unlink(missing_ok=True)
            removed.append(used.stem)
        finally:
            lock.release()
    return removed
