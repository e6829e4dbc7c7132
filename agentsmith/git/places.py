"""Where things are below the root, and how they are called: safe names, one for each, never outside."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentsmith.git.errors import BranchRefused

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_BAD_IN_REF: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")
_LONGEST_PART: Final = 240
_LONGEST_NAME: Final = 900


@dataclass(frozen=True, slots=True)
class Places:
    """The folders below the root."""

    root: Path

    @property
    def mirrors(self) -> Path:
        """One bare repository per repository."""
        return self.root / "mirrors"

    @property
    def vaults(self) -> Path:
        """One bare repository per workspace."""
        return self.root / "vaults"

    @property
    def aside(self) -> Path:
        """What was in the way of a checkout and is nobody's: kept for a while, by workspace."""
        return self.root / "aside"

    @property
    def locks(self) -> Path:
        """One file per ticket's folder, for who uses it and who removes it."""
        return self.root / "locks"

    @property
    def reserved(self) -> frozenset[str]:
        """Names below the root that no workspace may have."""
        return frozenset(folder.name for folder in (self.mirrors, self.vaults, self.aside, self.locks))

    def vault_name(self, workspace: Path) -> str:
        """A name for the vault of a workspace: readable, and its own even where letter case does not count."""
        parent = os.path.relpath(os.path.realpath(workspace.parent), os.path.realpath(self.root))
        inside = os.path.normpath(os.path.join(parent, workspace.name))
        digest = hashlib.sha256(os.fsencode(inside)).hexdigest()[:16]
        readable = _UNSAFE.sub("-", inside).strip("-.")[:60] or "workspace"
        return f"{readable}-{digest}"


def check_branch(name: str) -> None:
    """Refuse a name that git would not take for a branch, or that could be read as something else."""
    parts = name.split("/")
    why = None
    if not name:
        why = "it is empty"
    elif _BAD_IN_REF.search(name):
        why = "it holds a space, a control character, `..`, `//`, `@{` or one of ~ ^ : ? * [ \\"
    elif name.startswith(("-", "refs/")) or name in ("@", "HEAD"):
        why = "git would read it as something else"
    elif any(part.startswith(".") or part.endswith(".lock") or not part for part in parts) or name.endswith("."):
        why = "a part of it begins with a dot, ends with `.lock` or is empty, or it ends with a dot"
    elif len(os.fsencode(name)) > _LONGEST_NAME or any(len(os.fsencode(part)) > _LONGEST_PART for part in parts):
        why = "it is too long"
    elif not name.isprintable():
        why = "it holds a character that cannot be seen"
    if why is not None:
        raise BranchRefused(f"`{_shown(name)}` cannot be the name of a branch: {why}")


def check_beside(name: str, others: dict[str, str]) -> None:
    """Refuse a branch that cannot exist beside the server's branches: git keeps them like files in folders."""
    parts = name.split("/")
    above = next((up for n in range(1, len(parts)) if (up := "/".join(parts[:n])) in others), None)
    below = next((other for other in others if other.startswith(name + "/")), None)
    if above or below:
        raise BranchRefused(
            f"`{_shown(name)}` cannot exist while the server has a branch `{_shown(above or below or '')}`"
        )


def _shown(name: str) -> str:
    return "".join(c if c.isprintable() and c != "`" else "?" for c in name[:200])
