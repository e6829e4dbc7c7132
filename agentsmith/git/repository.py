"""Repositories as files: laid out, configured and swept by us, so that no template and no leftover has a say."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

READABLE: Final = "0644"
"""Objects are readable by others, whatever our umask: the folders above decide who gets as far as that."""
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"})
_LEFTOVERS: Final = ("tmp_", "incoming-", "tmp_objdir-")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a repository's objects come from, as its configuration tells."""

    url: str
    partial: bool
    object_format: str = "sha1"


Sections = Mapping[str, Iterable[tuple[str, str]]]


def configuration(origin: Origin, *, bare: bool, fetch: Iterable[str] = (), more: Sections | None = None) -> str:
    """The text of a configuration file: all of it, whatever stood there before."""
    core = [("repositoryFormatVersion", "1"), ("fileMode", "true"), ("bare", "true" if bare else "false")]
    if bare:
        core.append(("sharedRepository", READABLE))
    if sys.platform == "darwin":
        core += [("ignoreCase", "true"), ("precomposeUnicode", "true")]
    extensions = []
    if origin.partial:
        extensions.append(("partialClone", "origin"))
    if origin.object_format != "sha1":
        extensions.append(("objectFormat", origin.object_format))
    remote = [("url", origin.url), *(("fetch", spec) for spec in fetch)]
    if origin.partial:
        remote += [("promisor", "true"), ("partialCloneFilter", "blob:none")]
    sections: dict[str, Iterable[tuple[str, str]]] = {
        "core": core,
        "extensions": extensions,
        'remote "origin"': remote,
        **(more or {}),
    }
    return "".join(
        f"[{name}]\n" + "".join(f'\t{key} = "{value.translate(_ESCAPES)}"\n' for key, value in entries)
        for name, entries in sections.items()
    )


def subsection(kind: str, name: str) -> str:
    """The heading of a section that has a name of its own."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'{kind} "{escaped}"'


def lay_out(path: Path, *, config: str, alternates: Iterable[Path] = (), head: str = "refs/heads/none") -> None:
    """Make an empty repository, or put the frame of an existing one right; objects and refs stay."""
    for folder in ("objects/info", "objects/pack", "refs/heads", "info"):
        (path / folder).mkdir(parents=True, exist_ok=True)
    for folder in (".", "objects", "objects/info", "objects/pack"):
        (path / folder).chmod(0o755)  # a worker with a user of its own reads our objects
    shutil.rmtree(path / "hooks", ignore_errors=True)
    for name in ("info/grafts", "info/attributes", "shallow", "config.worktree", "commondir", "gitdir"):
        (path / name).unlink(missing_ok=True)
    write(path / "config", config)
    write(path / "objects/info/alternates", "".join(f"{alternate}\n" for alternate in alternates))
    write(path / "info/exclude", "")
    write(path / "HEAD", f"ref: {head}\n")


def make_passage(folder: Path) -> None:
    """Make a folder that others may pass through, to a place that they know, but not look around in."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o711)


def packed_refs(refs: Mapping[str, str]) -> str:
    """The text of a packed-refs file with exactly these refs."""
    in_order = sorted(refs.items(), key=lambda ref: ref[0].encode("utf-8", "surrogateescape"))
    lines = (f"{commit} {name}\n" for name, commit in in_order)
    return "# pack-refs with: sorted \n" + "".join(lines)


def write(path: Path, text: str | bytes) -> None:
    """Replace a file in one step, so that whoever reads it meanwhile sees the old or the new one."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    beside = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}")
    try:
        with beside.open("xb") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def stale(repo: Path) -> list[Path]:
    """Lock files and unfinished files that a killed git has left behind, if none is at work now."""
    found = list(repo.glob("*.lock"))
    for folder in ("refs", "objects/info", "objects/pack", "logs"):
        found += _below(repo / folder, lambda name: name.endswith(".lock"))
    objects = repo / "objects"
    found += _below(objects, lambda name: name.startswith(_LEFTOVERS))
    return found


def _below(folder: Path, wanted: Callable[[str], bool]) -> Iterator[Path]:
    for at, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if wanted(name):
                yield Path(at) / name


def sweep(repo: Path) -> list[Path]:
    """Remove what `stale` finds. Only for who knows that no git works there."""
    found = stale(repo)
    for path in found:
        remove(path)
    return found


def remove(path: Path) -> None:
    """Remove a file, a link or a whole tree, read-only folders included; never follows a link."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        path.unlink(missing_ok=True)
        return
    with contextlib.suppress(OSError):
        shutil.rmtree(path)
        return
    for at, folders, _ in os.walk(path):  # somebody took rights away, as package caches do
        for name in (".", *folders):
            folder = os.path.join(at, name)
            if not os.path.islink(folder):
                with contextlib.suppress(OSError):
                    os.chmod(folder, 0o700)
    shutil.rmtree(path)


def set_aside(path: Path, under: Path, *, keep: int = 3) -> Path | None:
    """Move a file or folder out of the way, under a name that tells the order; only the newest `keep` stay."""
    try:
        path.lstat()
    except FileNotFoundError:
        return None
    under.mkdir(parents=True, exist_ok=True, mode=0o700)
    former = sorted((p for p in under.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
    place = under / str(int(former[-1].name) + 1 if former else 1)
    try:
        path.rename(place)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.move(path, place)
    for old in former[: max(0, len(former) + 1 - keep)]:
        remove(old)
    return place
