"""Large files, where the repository keeps them in LFS and the pipeline asks for them.

Everything that a worker could say about it in `.lfsconfig` is overruled: objects come from and go to the server of the
clone URL. What the worker's own git has put aside is copied as data, like its objects.
"""

from __future__ import annotations

from pathlib import Path

from agentsmith.git.command import Git
from agentsmith.git.errors import GitFailed, LfsMissing


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
