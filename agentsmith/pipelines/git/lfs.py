"""Large files, where the repository keeps them in LFS and the pipeline asks for them.

Everything that a worker could say about it in `.lfsconfig` is overruled: objects come from and go to the server of the
clone URL. The worker's own objects are copied as data and hashed on the way.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path
from typing import Final

from agentsmith.pipelines.git.command import Git
from agentsmith.pipelines.git.errors import GitFailed, LfsMissing, TooLarge
from agentsmith.pipelines.git.repository import remove

_OBJECT: Final = re.compile(r"[0-9a-f]{64}\Z")
_PART: Final = re.compile(r"[0-9a-f]{2}\Z")


def settings(url: str, *, stall: float) -> tuple[tuple[str, str], ...]:
    """Git's configuration for a repository with LFS."""
    plain = url.rstrip("/")
    endpoint = url if "://" not in plain or plain.startswith("file:") else f"{plain.removesuffix('.git')}.git/info/lfs"
    return (
        ("filter.lfs.clean", "git-lfs clean -- %f"),
        ("filter.lfs.smudge", "git-lfs smudge -- %f"),
        ("filter.lfs.process", "git-lfs filter-process"),
        ("filter.lfs.required", "true"),
        ("lfs.url", endpoint),
        ("lfs.pushurl", endpoint),
        ("lfs.fetchinclude", ""),
        ("lfs.fetchexclude", ""),
        ("lfs.locksverify", "false"),
        ("lfs.setlockablereadonly", "false"),
        ("lfs.activitytimeout", str(max(1, round(stall)))),
    )


async def check_installed(git: Git) -> None:
    """LfsMissing, with the remedy, where there is no git-lfs."""
    try:
        await git("lfs", "version", repo=None)
    except GitFailed:
        raise LfsMissing("this pipeline asks for LFS: install `git-lfs` where agentsmith runs") from None


async def fetch(git: Git, vault: Path, *commits: str) -> None:
    """Bring the large files of these commits."""
    await git.online("lfs", "fetch", "origin", *commits, repo=vault)


async def push(git: Git, vault: Path, ref: str) -> None:
    """Send the large files that the server lacks, before it gets the commits that name them."""
    await git.online("lfs", "push", "origin", ref, repo=vault)


def copy_objects(worker: Path, vault: Path, *, limit: int) -> None:
    """Take over the large files that the worker's git has put aside, each only if it is what its name says."""
    store, to = worker / "lfs/objects", vault / "lfs/objects"
    left = limit
    for at, folders, files in os.walk(store):
        folders[:] = [name for name in folders if _PART.match(name) and not os.path.islink(os.path.join(at, name))]
        for name in files:
            place = to / name[:2] / name[2:4] / name
            if _OBJECT.match(name) and not place.exists():
                left -= _copy(Path(at) / name, place, left)


def _copy(path: Path, place: Path, limit: int) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return 0
    digest, copied = hashlib.sha256(), 0
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return 0
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = place.with_name(f"{place.name}.part")
        with beside.open("wb") as out:
            while chunk := file.read(1024 * 1024):
                copied += len(chunk)
                if copied > limit:
                    remove(beside)
                    raise TooLarge("the large files made in the workspace exceed the limit for taking them over")
                digest.update(chunk)
                out.write(chunk)
    if digest.hexdigest() == place.name:
        beside.replace(place)
    else:
        remove(beside)
    return copied
