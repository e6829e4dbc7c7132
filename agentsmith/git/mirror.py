"""The mirror: one bare copy per repository and machine, of what the server has and nothing else.

It holds all commits and trees, but only those blobs that some checkout has needed (a partial clone), so a first
checkout of a large repository is quick. Whoever comes while another process fetches waits for it and shares the
result. A process killed in the middle leaves at worst a half clone under another name, lock files and unfinished
packs: the next one clears them away, once the kernel says that no git works there any more.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import structlog

from agentsmith.domain.forge import EmptyRepository
from agentsmith.git.command import Git
from agentsmith.git.errors import GitError, GitFailed, NotUnderstood
from agentsmith.git.locks import FileLock, held
from agentsmith.git.repository import (
    READABLE,
    Origin,
    configuration,
    lay_out,
    make_passage,
    remove,
    stale,
    sweep,
    write,
)

log = structlog.get_logger()

_REFSPECS: Final = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_MANY_PACKS: Final = 64
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_EMPTY: Final = "the repository has no commit yet: push a first one, then try again"


class Mirror:
    """One repository's mirror, as one run sees it."""

    def __init__(self, folder: Path, git: Git, *, blobless: bool, patience: float) -> None:
        self._git, self._patience, self._blobless = git, patience, blobless
        stem = folder / name(git.url, blobless=blobless)
        self.path = stem.with_name(stem.name + ".git")
        self._lock, self._busy = stem.with_name(stem.name + ".lock"), stem.with_name(stem.name + ".busy")
        self._begun, self._done = stem.with_name(stem.name + ".begun"), stem.with_name(stem.name + ".done")
        self._used = stem.with_name(stem.name + ".used")
        self.origin = Origin(git.url, partial=blobless)

    def with_git(self, git: Git) -> Mirror:
        """A mirror in the same folder: this one, through another shell, or that of another repository."""
        return Mirror(self.path.parent, git, blobless=self._blobless, patience=self._patience)

    async def refresh(self) -> None:
        """Bring the mirror to where the server is now, or was at some moment since this was called."""
        seen = _number(self._begun)
        make_passage(self.path.parent)
        self._used.touch()
        async with self._alone():
            if self.path.is_dir() and _number(self._done) > seen:
                await self._learn()
                return  # somebody fetched while we waited, and began after we were called
            number = _number(self._begun) + 1
            write(self._begun, str(number))
            await self._bring_up()
            write(self._done, str(number))

    async def heads(self) -> dict[str, str]:
        """The server's branches, as name -> commit."""
        refs = await self.refs()
        return {
            ref.removeprefix("refs/heads/"): commit for ref, commit in refs.items() if ref.startswith("refs/heads/")
        }

    async def refs(self) -> dict[str, str]:
        """The server's branches and tags, by full name."""
        said = await self._git("for-each-ref", "--format=%(objectname) %(refname)", repo=self.path)
        pairs = (line.partition(" ") for line in said.lines)
        return {ref: commit for commit, _, ref in pairs}

    async def hydrate(self, *commits: str, seen_from: Path) -> None:
        """Fetch the blobs that these commits show and that `seen_from` lacks, all in one request."""
        said = await self._git(
            "rev-list", "--objects", "--no-walk", "--no-object-names", "--missing=print", *commits, repo=seen_from
        )
        await self._bring([line[1:] for line in said.lines if line.startswith("?")])

    async def file(self, commit: str, path: str, *, limit: int) -> bytes | None:
        """A regular file of a commit; None when there is none, or a larger one."""
        if any(part in ("", ".", "..") or "\0" in part for part in path.split("/")):
            return None
        entries = (await self._git("ls-tree", "-z", commit, "--", path, repo=self.path)).items
        if len(entries) != 1:
            return None
        meta, _, found = entries[0].partition("\t")
        mode, kind, blob = meta.split(" ")
        if kind != "blob" or not mode.startswith("100") or found != path:
            return None
        await self._bring_missing(blob)
        if int((await self._git("cat-file", "-s", blob, repo=self.path)).text) > limit:
            return None
        return (await self._git("cat-file", "blob", blob, repo=self.path)).out

    async def bring_commit(self, commit: str) -> None:
        """Fetch a commit that no branch may show any more, unless it is here."""
        said = await self._git("cat-file", "-e", f"{commit}^{{commit}}", repo=self.path, fine=(0, 1, 128))
        if said.code == 0:
            return
        wanted = ("--filter=blob:none",) if self._blobless else ()
        await self._git.online(
            *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", *wanted, "origin", commit),
            repo=self.path,
            busy=self._busy,
        )

    async def _bring_missing(self, blob: str) -> None:
        said = await self._git("cat-file", "-e", blob, repo=self.path, fine=(0, 1, 128))
        if said.code != 0:
            await self._bring([blob])

    async def _bring(self, blobs: list[str]) -> None:
        if not blobs:
            return
        await self._git.online(
            *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--filter=blob:none", "--stdin", "origin"),
            repo=self.path,
            busy=self._busy,
            stdin="".join(f"{blob}\n" for blob in blobs).encode(),
            config=(("fetch.negotiationAlgorithm", "noop"),),
        )

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        async with held(self._lock, within=self._patience, what=f"the mirror {self.path.stem}"):
            yield

    async def _bring_up(self) -> None:
        for half in self.path.parent.glob(f"{self.path.name}.new-*"):
            remove(half)
        if not self.path.is_dir():
            await self._clone()
            return
        await self._heal()
        try:
            await self._learn()
            await self._fetch()
        except (GitFailed, NotUnderstood) as error:
            # A server in trouble must not be asked for the whole repository once more.
            if not await self._damaged():
                raise
            log.warning("the mirror is broken and is made anew", mirror=self.path.name, error=str(error))
            await self._clone()

    async def _damaged(self) -> bool:
        """Whether our own copy cannot be read any more: it holds nothing of its own, so it may be made anew."""
        try:
            await self._git("rev-parse", "--show-object-format", repo=self.path)
            await self._git("rev-list", "--objects", "--all", "--quiet", "--missing=allow-promisor", repo=self.path)
        except GitFailed:
            return True
        except GitError:  # it took too long, say: that proves nothing
            return False
        return False

    async def _heal(self) -> None:
        if not stale(self.path):
            return
        quiet = await FileLock.take(self._busy, within=self._patience, what=f"the mirror {self.path.stem}")
        try:
            for path in sweep(self.path):
                log.info("removed what a killed git left behind", path=path.name, mirror=self.path.name)
        finally:
            quiet.release()

    async def _learn(self) -> None:
        """Read what kind of repository this is, and put its configuration right."""
        said = await self._git("rev-parse", "--show-object-format", repo=self.path)
        self._configure(self.path, said.text)

    def _configure(self, path: Path, object_format: str) -> None:
        self.origin = Origin(self._git.url, partial=self._blobless, object_format=object_format)
        lay_out(path, config=configuration(self.origin, bare=True, fetch=_REFSPECS))

    async def _fetch(self) -> None:
        wanted = ("--filter=blob:none",) if self._blobless else ()
        await self._git.online(
            *("fetch", "--quiet", "--prune", "--force", "--no-tags", "--no-write-fetch-head", *wanted, "origin"),
            *_REFSPECS,
            repo=self.path,
            busy=self._busy,
        )
        await self._check_not_empty()
        await self._tidy()

    async def _clone(self) -> None:
        fresh = self.path.with_name(f"{self.path.name}.new-{secrets.token_hex(4)}")
        try:
            try:
                await self._clone_into(fresh)
            except NotUnderstood as error:
                if not self._blobless or "filter" not in str(error):
                    raise  # a server in trouble: it must not be asked for more than before
                remove(fresh)
                log.info("the server refuses a partial clone; taking a whole one", mirror=self.path.name)
                await self._clone_into(fresh, whole=True)
            said = await self._git("rev-parse", "--show-object-format", repo=fresh)
            self._configure(fresh, said.text)
            if self.path.exists():
                broken = self.path.with_name(f"{self.path.name}.new-{secrets.token_hex(4)}")
                self.path.rename(broken)
                fresh.rename(self.path)
                remove(broken)
            else:
                fresh.rename(self.path)
        except BaseException:
            remove(fresh)
            raise
        await self._check_not_empty()

    async def _clone_into(self, fresh: Path, *, whole: bool = False) -> None:
        wanted = ("--filter=blob:none",) if self._blobless and not whole else ()
        await self._git.online(
            *(
                "clone",
                "--quiet",
                "--bare",
                "--template=",
                "--no-local",
                "--config",
                f"core.sharedRepository={READABLE}",
            ),
            *(*wanted, "--", self._git.url, str(fresh)),
            repo=None,
            busy=self._busy,
        )

    async def _check_not_empty(self) -> None:
        if await self.heads():
            return
        # Any page that is answered with 200 looks like an empty repository to git's old protocol (P9).
        said = await self._git.online("ls-remote", "--", self._git.url, repo=None, env={"GIT_TRACE_PACKET": "1"})
        if "packet:" not in said.err:
            raise NotUnderstood("something else answers in place of the git server; is it down for maintenance?")
        raise EmptyRepository(_EMPTY)

    async def _tidy(self) -> None:
        """Many small fetches leave many packs, which slows everything down; nothing is ever dropped here."""
        if sum(1 for _ in (self.path / "objects/pack").glob("*.pack")) < _MANY_PACKS:
            return
        quiet = FileLock.try_take(self._busy)
        if quiet is None:
            return
        try:
            await self._git("repack", "-a", "-d", "-k", "-q", repo=self.path)
        except GitFailed as error:
            log.warning("the mirror could not be tidied", mirror=self.path.name, error=str(error))
        finally:
            quiet.release()


def name(url: str, *, blobless: bool) -> str:
    """A file name for a repository: readable, safe, and its own."""
    plain = url.removesuffix("/").removesuffix(".git")
    readable = _UNSAFE.sub("-", plain.rpartition("/")[2]).strip("-.")[:40] or "repository"
    digest = hashlib.sha256(f"{int(blobless)} {plain}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{readable}-{digest}"


def _number(path: Path) -> int:
    try:
        return int(path.read_text() or 0)
    except (FileNotFoundError, ValueError):
        return 0
