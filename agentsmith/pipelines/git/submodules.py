"""Submodules, where the pipeline asks for them: each with a mirror and a vault of its own, checked out in its place.

What `.gitmodules` says is a wish: only the protocol of the repository itself or HTTPS is spoken, the credential goes
to the repository's own server alone, and no path leaves the workspace. A worker may move a submodule to a commit that
its server has; work inside a submodule stays in the workspace and is not pushed.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import urljoin

from agentsmith.domain.forge import EmptyRepository, GitCredential
from agentsmith.pipelines.git.command import Git
from agentsmith.pipelines.git.credentials import Address
from agentsmith.pipelines.git.errors import GitError, GitFailed, RepositoryGone, SubmoduleRefused
from agentsmith.pipelines.git.mirror import Mirror
from agentsmith.pipelines.git.repository import write
from agentsmith.pipelines.git.vault import GITLINK, TIP, Vault
from agentsmith.pipelines.git.workspace import Handover, Workspace

_DEEPEST: Final = 5
_LARGEST_LIST: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Link:
    """A place where another repository belongs, at one commit."""

    path: str
    commit: str
    url: str


async def fill(
    git: Git,
    vault: Vault,
    commit: str,
    handover: Handover,
    *,
    mirrors: Path,
    blobless: bool,
    patience: float,
    depth: int = 0,
) -> dict[str, Path]:
    """Check out the submodules of a commit, and theirs; answers their mirrors, by path in this repository."""
    if depth > _DEEPEST:
        raise SubmoduleRefused(f"submodules lie more than {_DEEPEST} deep")
    filled: dict[str, Path] = {}
    async for link in _links(git, vault.path, commit):
        inner = replace(git, url=link.url, credential=_credential(git, link.url))
        mirror = Mirror(mirrors, inner, blobless=blobless, patience=patience)
        try:
            await mirror.refresh()
            await mirror.bring_commit(link.commit)
        except (GitError, EmptyRepository) as error:
            raise SubmoduleRefused(f"the submodule `{link.path}` cannot be had: {error}") from error
        place = Workspace(vault.workspace.path / link.path)
        _clear(vault.workspace.path, link.path)
        place.make(vault.workspace.path)
        part = Vault(vault.path / "modules" / f"{link.path.replace('%', '%25').replace('/', '%2f')}.git", inner, place)
        known = part.belongs_to(link.url)
        part.lay_out(mirror.origin, mirror.path / "objects", await mirror.refs())
        if not known or await part.ref(TIP) != link.commit or place.empty():
            await mirror.hydrate(link.commit, seen_from=part.path)
            await part.check_out(link.commit)
            shown = replace(
                handover,
                origin=mirror.origin,
                commit=link.commit,
                refs=await mirror.refs(),
                objects=part.path / "objects",
                index=part.path / "index",
                merging=None,
                detached=True,
            )
            place.hand_over(shown, build_in=part.path, former_to=part.path / "former.git")
            await part.set_ref(TIP, link.commit)
        filled[link.path] = mirror.path
        await fill(
            inner, part, link.commit, handover, mirrors=mirrors, blobless=blobless, patience=patience, depth=depth + 1
        )
    return filled


async def _links(git: Git, repo: Path, commit: str) -> AsyncIterator[Link]:
    listed = (await git("ls-tree", "-r", "-z", commit, repo=repo)).items
    entries = [entry.partition("\t") for entry in listed if entry.startswith(GITLINK)]
    if not entries:
        return
    urls = await _urls(git, repo, commit)
    for meta, _, path in entries:
        if path in urls:  # else it is a link that nobody has explained; git leaves its folder empty, too
            yield Link(path, meta.split(" ")[2], _resolved(git.url, urls[path], path))


async def _urls(git: Git, repo: Path, commit: str) -> Mapping[str, str]:
    try:
        said = await git("cat-file", "blob", f"{commit}:.gitmodules", repo=repo)
    except GitFailed:
        return {}
    if len(said.out) > _LARGEST_LIST:
        raise SubmoduleRefused("the file .gitmodules is too large")
    file = git.shell.scratch / "gitmodules"
    write(file, said.out)
    listed = (await git("config", "--no-includes", "--file", str(file), "--null", "--list", repo=None)).items
    file.unlink()
    modules: dict[str, dict[str, str]] = {}
    for item in listed:
        key, _, value = item.partition("\n")
        name, _, last = key.removeprefix("submodule.").rpartition(".")
        if key.startswith("submodule."):
            modules.setdefault(name, {})[last] = value
    return {module["path"]: module["url"] for module in modules.values() if "path" in module and "url" in module}


def _resolved(parent: str, url: str, path: str) -> str:
    if url.startswith(("./", "../")):
        url = urljoin(parent.rstrip("/") + "/", url) if "://" in parent else os.path.normpath(os.path.join(parent, url))
    try:
        address = Address.of(url)
    except RepositoryGone as error:
        raise SubmoduleRefused(f"the submodule `{path}`: {error}") from None
    if address.protocol not in ("https", Address.of(parent).protocol):
        raise SubmoduleRefused(
            f"the submodule `{path}` would be fetched by `{address.protocol}`, which is not allowed here"
        )
    return url


def _credential(git: Git, url: str) -> Callable[[], Awaitable[GitCredential | None]]:
    if Address.of(url) == Address.of(git.url):
        return git.credential

    async def none() -> GitCredential | None:
        return None

    return none


def _clear(top: Path, path: str) -> None:
    """No part of the way may be a link that a worker has put there."""
    at = top
    for part in path.split("/"):
        at = at / part
        if at.is_symlink():
            at.unlink()
