"""The worker's side: its files and its `.git`, of which we believe nothing.

Everything here reads the worker's repository as data, with plain file operations that follow no link and have limits;
no git runs in it, so its configuration, hooks, filters, helpers, alternates and includes have no effect on us. What is
written there is made beside it and moved in whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from agentsmith.domain.errors import pass_over
from agentsmith.git.errors import PlaceRefused, TooLarge
from agentsmith.git.repository import Origin, configuration, lay_out, packed_refs, remove, subsection, write

_ID: Final = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_LOOSE_FOLDER: Final = re.compile(r"[0-9a-f]{2}\Z")
_LOOSE_FILE: Final = re.compile(r"(?:[0-9a-f]{38}|[0-9a-f]{62})\Z")
_LARGE_FILE: Final = re.compile(r"[0-9a-f]{64}\Z")
_PACK: Final = re.compile(r"pack-[0-9a-f]{40,64}\.pack\Z")
_BLANKS: Final = " \t\r\n"
"""What git takes for one; a ref may end with others."""
_SMALL: Final = 4 * 1024
_LARGE: Final = 64 * 1024**2
_LONGEST_EXCLUDES: Final = 256 * 1024
_LARGEST_TO_SEARCH: Final = 16 * 1024**2
_MARKERS: Final = (re.compile(rb"^<{7} ", re.M), re.compile(rb"^={7}\r?$", re.M), re.compile(rb"^>{7} ", re.M))


@dataclass(frozen=True, slots=True)
class Heads:
    """What the worker's repository says about itself; each of it may be a lie."""

    head: str | None
    branch: str | None
    merging: str | None


@dataclass(frozen=True, slots=True)
class Handover:
    """What the worker's new repository shows."""

    origin: Origin
    branch: str
    commit: str
    base: str
    refs: Mapping[str, str]
    """The server's branches and tags, by full name."""
    objects: Path
    index: Path
    author: Mapping[str, str]
    merging: str | None = None
    lfs: bool = False
    detached: bool = False


class Workspace:
    """A folder that belongs to a worker."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.git = path / ".git"

    def make(self, root: Path, *, reserved: Collection[str] = ()) -> None:
        """Make the folder; PlaceRefused when it would not be a real folder below the root."""
        top, place = Path(os.path.realpath(root)), Path(os.path.realpath(self.path.parent)) / self.path.name
        below = place.relative_to(top).parts if place.is_relative_to(top) else ()
        if not below or ".." in below or (len(below) == 1 and below[0] in reserved):
            raise PlaceRefused(f"the workspace {self.path} is not a folder of its own inside {root}")
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_dir()):
            remove(self.path)  # the link itself: what it points to is none of our business
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def empty(self) -> bool:
        """Whether there is nothing at all."""
        with os.scandir(self.path) as entries:
            return next(entries, None) is None

    def heads(self, branch: str) -> Heads:
        """Where HEAD and the branch are, and what is being merged."""
        head = (self._small("HEAD") or "").strip(_BLANKS)
        if head.startswith("ref:"):
            head = self._ref(head.removeprefix("ref:").strip(_BLANKS)) or ""
        merging = (self._small("MERGE_HEAD") or "").split("\n")[0].strip(_BLANKS)
        return Heads(_id(head), self._ref(f"refs/heads/{branch}"), _id(merging))

    def excludes(self) -> bytes:
        """The patterns of files that are not to be committed, which tools put there for their own litter."""
        return _read(self.git, "info/exclude", _LONGEST_EXCLUDES) or b""

    def copy_objects(self, to: Path, *, limit: int) -> None:
        """Copy the objects that the worker's repository holds itself; never what its alternates or links name."""
        left = limit
        with contextlib.ExitStack() as stack:
            try:
                at = stack.enter_context(_folder(self.git, None))
                objects = stack.enter_context(_folder("objects", at))
            except OSError as error:
                pass_over(error)
                return
            for name in os.listdir(objects):
                wanted = _LOOSE_FILE if _LOOSE_FOLDER.match(name) else _PACK if name == "pack" else None
                if wanted is None:
                    continue
                with contextlib.suppress(NotADirectoryError, FileNotFoundError), _folder(name, objects) as folder:
                    for file in os.listdir(folder):
                        if wanted.match(file):
                            left -= _copy(file, folder, to / name / file, left)

    def copy_large_files(self, to: Path, *, limit: int) -> None:
        """Copy what the worker's git has put aside for LFS, each file only if it is what its name says."""
        left = limit
        with contextlib.ExitStack() as stack:
            try:
                at = stack.enter_context(_folder(self.git, None))
                at = stack.enter_context(_folder("lfs", at))
                store = stack.enter_context(_folder("objects", at))
            except OSError as error:
                pass_over(error)
                return
            for first in filter(_LOOSE_FOLDER.match, os.listdir(store)):
                with contextlib.suppress(NotADirectoryError, FileNotFoundError), _folder(first, store) as outer:
                    for second in filter(_LOOSE_FOLDER.match, os.listdir(outer)):
                        with contextlib.suppress(NotADirectoryError), _folder(second, outer) as inner:
                            for name in filter(_LARGE_FILE.match, os.listdir(inner)):
                                left -= _copy_large(name, inner, to / name[:2] / name[2:4] / name, left)

    def unresolved(self, paths: tuple[str, ...]) -> tuple[str, ...]:
        """Which of these files still hold conflict markers."""
        found = []
        for path in paths:
            text = _read(self.path, path, _LARGEST_TO_SEARCH)
            if text is not None and all(marker.search(text) for marker in _MARKERS):
                found.append(path)
        return tuple(found)

    def hand_over(self, what: Handover, *, build_in: Path, former_to: Path | None) -> None:
        """Give the worker a fresh `.git`; the one that was there is kept at `former_to` for who misses something."""
        fresh = build_in / "handover.git"
        remove(fresh)
        _build(fresh, what)
        _give(fresh, self.path.stat())
        if former_to is not None and _exists(self.git):
            remove(former_to)
            _move(self.git, former_to)
        remove(self.git)
        _move(fresh, self.git)

    def _small(self, name: str) -> str | None:
        data = _read(self.git, name, _SMALL)
        return None if data is None else os.fsdecode(data)

    def _ref(self, ref: str) -> str | None:
        parts = ref.split("/")
        if parts[0] != "refs" or any(part in ("", ".", "..") or "\0" in part for part in parts):
            return None
        loose = self._small(ref)
        if loose is not None:
            return _id(loose.strip(_BLANKS))
        ending = b" " + os.fsencode(ref)
        for line in (_read(self.git, "packed-refs", _LARGE) or b"").split(b"\n"):
            if line.endswith(ending):
                return _id(line[: -len(ending)].decode("ascii", "replace"))
        return None


def _build(path: Path, what: Handover) -> None:
    ref = f"refs/heads/{what.branch}"
    remote = {
        name.replace("refs/heads/", "refs/remotes/origin/", 1): commit
        for name, commit in what.refs.items()
        if name.startswith(("refs/heads/", "refs/tags/"))
    }
    more = {
        "user": (("name", what.author["GIT_AUTHOR_NAME"]), ("email", what.author["GIT_AUTHOR_EMAIL"])),
        "gc": (("auto", "0"),),
        "credential": (("helper", ""),),
        subsection("branch", what.branch): (("remote", "origin"), ("merge", ref)),
    }
    if what.lfs:
        more['filter "lfs"'] = (
            ("clean", "git-lfs clean -- %f"),
            ("smudge", "git-lfs smudge -- %f"),
            ("process", "git-lfs filter-process"),
            ("required", "true"),
        )
    lay_out(
        path,
        config=configuration(what.origin, bare=False, fetch=("+refs/heads/*:refs/remotes/origin/*",), more=more),
        alternates=(what.objects,),
        head=ref,
    )
    write(path / "packed-refs", packed_refs(remote if what.detached else {**remote, ref: what.commit}))
    if what.detached:
        write(path / "HEAD", f"{what.commit}\n")
    elif f"refs/heads/{what.base}" in what.refs:
        head = path / "refs/remotes/origin/HEAD"
        head.parent.mkdir(parents=True, exist_ok=True)
        write(head, f"ref: refs/remotes/origin/{what.base}\n")
    if what.index.exists():
        shutil.copyfile(what.index, path / "index")
    if what.merging is not None:
        write(path / "MERGE_HEAD", f"{what.merging}\n")
        write(path / "MERGE_MODE", "")
        write(path / "MERGE_MSG", f"Merge branch '{what.base}' into {what.branch}\n")


def _give(folder: Path, owner: os.stat_result) -> None:
    """Let the folder belong to who owns the workspace: commands may run as a user of their own."""
    if os.geteuid() != 0 or owner.st_uid == 0:
        return
    for top, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            os.chown(os.path.join(top, name), owner.st_uid, owner.st_gid, follow_symlinks=False)


def _id(text: str) -> str | None:
    return text if _ID.match(text) else None


def _exists(path: Path) -> bool:
    return os.path.lexists(path)


def _move(path: Path, to: Path) -> None:
    try:
        path.rename(to)
    except OSError:  # another file system
        shutil.move(path, to)


def _regular(name: str, at: int) -> BinaryIO | None:
    """A regular file, opened without following a link or waiting for a pipe; None for anything else."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    except (OSError, ValueError) as error:
        pass_over(error)
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return open(descriptor, "rb")


def _read(top: Path, path: str, limit: int) -> bytes | None:
    """A regular file below a folder; None for anything else, for one that is larger, and for what lies behind links."""
    *folders, name = path.split("/")
    with contextlib.ExitStack() as stack:
        try:
            at = stack.enter_context(_folder(top, None))
            for folder in folders:
                at = stack.enter_context(_folder(folder, at))
        except (OSError, ValueError) as error:
            pass_over(error)
            return None
        file = _regular(name, at)
        if file is None:
            return None
        with file:
            return file.read(limit) if os.fstat(file.fileno()).st_size <= limit else None


@contextlib.contextmanager
def _folder(name: str | Path, at: int | None) -> Iterator[int]:
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _copy(name: str, at: int, to: Path, limit: int) -> int:
    file = _regular(name, at)
    if file is None:
        return 0
    copied = 0
    to.parent.mkdir(exist_ok=True)
    with file, to.open("xb") as out:
        while chunk := file.read(1024 * 1024):
            copied += len(chunk)
            if copied > limit:
                raise TooLarge("the commits made in the workspace are larger than the limit for taking them over")
            out.write(chunk)
    return copied


def _copy_large(name: str, at: int, to: Path, limit: int) -> int:
    if to.exists():
        return 0
    beside = to.with_name(f"{name}.part")
    remove(beside)
    to.parent.mkdir(parents=True, exist_ok=True)
    copied = _copy(name, at, beside, limit)
    if beside.exists():
        with beside.open("rb") as file:
            honest = hashlib.file_digest(file, "sha256").hexdigest() == name
        if honest:
            beside.replace(to)
        else:
            remove(beside)
    return copied
