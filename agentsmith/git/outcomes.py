"""How the operations of a checkout can end when nothing is broken: small closed sets, to be matched on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pushed:
    """The server has the branch at `commit`. `moved` is False when it had it before."""

    commit: str
    moved: bool = True
    squashed: bool = False
    """A secret stood in an unpushed commit and is gone from the result: the unpushed commits were made one."""


@dataclass(frozen=True, slots=True)
class Diverged:
    """Somebody else moved the branch on the server: nothing was pushed, nothing was overwritten.

    What we have stays in the vault, and the next `open_checkout` starts from the server's branch.
    """

    ours: str
    theirs: str | None
    """The server's commit, where it told."""

    def __str__(self) -> str:
        where = f" (it is at {self.theirs[:12]})" if self.theirs else ""
        return f"the branch was moved on the server by somebody else{where}; nothing was overwritten"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that looks like a secret. The value itself is nowhere in here."""

    path: str
    line: int
    kind: str
    commit: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind} (commit {self.commit[:12]})"


@dataclass(frozen=True, slots=True)
class SecretsFound:
    """The push was stopped: the commits that would be published seem to contain secrets."""

    findings: tuple[Finding, ...]

    def __str__(self) -> str:
        shown = "; ".join(map(str, self.findings[:10]))
        more = f"; and {len(self.findings) - 10} more" if len(self.findings) > 10 else ""
        return f"the push was stopped, because the changes seem to contain secrets: {shown}{more}"


@dataclass(frozen=True, slots=True)
class UpToDate:
    """The branch already contains its base."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The base was merged into the branch without a conflict."""

    commit: str


@dataclass(frozen=True, slots=True)
class Conflicted:
    """The base could not be merged without a decision.

    The workspace is in the middle of that merge, as `git merge` leaves it: conflict markers in `paths`, the stages in
    the index, MERGE_HEAD set. Who resolves it may commit or not: our next commit has both parents.
    """

    paths: tuple[str, ...]


PushOutcome = Pushed | Diverged | SecretsFound
BaseMerge = UpToDate | Merged | Conflicted
