"""Submodules, where the pipeline asks for them: each with a mirror and a vault of its own, checked out in its place.

What `.gitmodules` says is not trusted: only the protocol of the repository itself or HTTPS is spoken, the credential
goes to the repository's own server alone, and no path leaves the workspace. A worker may move a submodule to a commit
that its server has; work inside a submodule stays in the workspace and is not pushed.

Our credential may read repositories that a worker, and whoever writes its tickets, may not. So only what people have
reviewed is fetched: a submodule that the default branch or the base names, at the same path with the same address.
What a worker's branch adds or changes stays empty until they have merged it. The same holds inside a submodule, where
the commits that the reviewed branches link are what people have reviewed.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import urljoin

import structlog

from agentsmith.domain.forge import EmptyRepository, GitCredential
from agentsmith.git.command import Git
from agentsmith.git.credentials import Address
from agentsmith.git.errors import GitError, GitFailed, NotUnderstood, RepositoryGone, SubmoduleRefused
from agentsmith.git.mirror import Mirror
from agentsmith.git.repository import write
from agentsmith.git.vault import GITLINK, TIP, Vault
from agentsmith.git.workspace import Handover, Workspace

log = structlog.get_logger()

_DEEPEST: Final = 5
_MOST_NAMED: Final = 5
_LARGEST_LIST: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Link:
    """A place where another repository belongs, at one commit."""

    path: str
    commit: str
    url: str
    """As it is written, so perhaps relative."""


@dataclass(frozen=True, slots=True)
class Filled:
    """What became of the submodules of a commit."""

    mirrors: dict[str, Path]
    """Of those that are checked out, by path in this repository."""
    left_empty: list[str]
    """The paths of those, and of those inside them, that nobody has reviewed."""


async def fill(
    git: Git, vault: Vault, handover: Handover, *, mirror: Mirror, reviewed: Collection[str], depth: int = 0
) -> Filled:
    """Check out the submodules of a commit, and theirs, as far as one of the `reviewed` commits names them too.

    `mirror` is that of the repository itself.
    """
    if depth > _DEEPEST:
        raise SubmoduleRefused(f"submodules lie more than {_DEEPEST} deep")
    filled, commit = Filled({}, []), handover.commit
    links = await _links(git, vault.path, commit)
    named = await _reviewed(git, mirror, reviewed) if links and commit not in reviewed else links
    linked: dict[tuple[str, str], set[str]] = {}
    for link in named:
        linked.setdefault((link.path, link.url), set()).add(link.commit)
    for link in links:
        commits = linked.get((link.path, link.url), set())
        if not commits:
            filled.left_empty.append(link.path)
            continue
        url = _resolved(git.url, link.url, link.path)
        inner = replace(git, url=url, credential=_credential(git, url))
        source = mirror.with_git(inner)
        try:
            await source.refresh()
            await source.bring_commit(link.commit)
        except (GitError, EmptyRepository) as error:
            raise SubmoduleRefused(f"the submodule `{link.path}` cannot be had: {error}") from error
        part = await _check_out(inner, vault, handover, source, link)
        filled.mirrors[link.path] = source.path
        theirs = replace(handover, commit=link.commit)
        inside = await fill(inner, part, theirs, mirror=source, reviewed=commits, depth=depth + 1)
        filled.left_empty.extend(f"{link.path}/{path}" for path in inside.left_empty)
    return filled


async def _check_out(git: Git, vault: Vault, handover: Handover, mirror: Mirror, link: Link) -> Vault:
    """Check out one submodule, whose mirror has its commit; answers its vault."""
    place = Workspace(vault.workspace.path / link.path)
    _clear(vault.workspace.path, link.path)
    place.make(vault.workspace.path)
    part = Vault(vault.path / "modules" / f"{link.path.replace('%', '%25').replace('/', '%2f')}.git", git, place)
    known = part.belongs_to(git.url)
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
    return part


def warning_about(left_empty: Sequence[str], base: str, default: str) -> str:
    """What to say about submodules that were left empty; their names are a worker's."""
    where = f"`{base}` does not name" if base == default else f"neither `{base}` nor `{default}` names"
    names = [
        "".join(c if c.isprintable() and c != "`" else "?" for c in path[:80]) for path in left_empty[:_MOST_NAMED]
    ]
    more = f" and {len(left_empty) - _MOST_NAMED} more" if len(left_empty) > _MOST_NAMED else ""
    shown = ", ".join(f"`{name}`" for name in names) + more
    return f"submodules that {where} with the same path and address are left empty until they are merged: {shown}"


async def _links(git: Git, repo: Path, commit: str) -> list[Link]:
    """The submodules that a commit names; it and its files must be in the repository."""
    entries = await _entries(git, repo, commit)
    if not entries:
        return []
    try:
        text = (await git("cat-file", "blob", f"{commit}:.gitmodules", repo=repo)).out
    except GitFailed:
        return []
    if len(text) > _LARGEST_LIST:
        raise SubmoduleRefused("the file .gitmodules is too large")
    return await _explained(git, entries, text)


async def _reviewed(git: Git, mirror: Mirror, commits: Collection[str]) -> list[Link]:
    """The submodules that any of these commits names; one that the server lost, or that git cannot read, names none."""
    found: list[Link] = []
    for commit in commits:
        try:
            await mirror.bring_commit(commit)
        except NotUnderstood as error:
            log.warning("a commit that was reviewed is not to be had", commit=commit, error=str(error))
            continue
        entries = await _entries(git, mirror.path, commit)
        text = await mirror.file(commit, ".gitmodules", limit=_LARGEST_LIST) if entries else None
        try:
            found += await _explained(git, entries, text or b"")
        except GitFailed as error:
            log.warning("the .gitmodules that was reviewed cannot be read", commit=commit, error=str(error))
    return found


async def _entries(git: Git, repo: Path, commit: str) -> dict[str, str]:
    """The commits that are linked in a commit, by path."""
    listed = (await git("ls-tree", "-r", "-z", commit, repo=repo)).items
    links = (entry.partition("\t") for entry in listed if entry.startswith(GITLINK))
    return {path: meta.split(" ")[2] for meta, _, path in links}


async def _explained(git: Git, entries: Mapping[str, str], text: bytes) -> list[Link]:
    """Those links for which `.gitmodules` has an address; git leaves the folders of others empty, too."""
    file = git.shell.scratch / "gitmodules"
    write(file, text)
    listed = (await git("config", "--no-includes", "--file", str(file), "--null", "--list", repo=None)).items
    file.unlink()
    modules: dict[str, dict[str, str]] = {}
    for item in listed:
        key, _, value = item.partition("\n")
        name, _, last = key.removeprefix("submodule.").rpartition(".")
        if key.startswith("submodule."):
            modules.setdefault(name, {})[last] = value
    urls = {module["path"]: module["url"] for module in modules.values() if "path" in module and "url" in module}
    return [Link(path, commit, urls[path]) for path, commit in entries.items() if path in urls]


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
