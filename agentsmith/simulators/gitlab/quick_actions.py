"""Commands in comments: lines that begin with `/`, carried out with the rights of whoever wrote the comment.

As in GitLab, carriage returns are dropped first, code blocks and quote blocks are left alone, a name counts in any
letters, and a line whose name is no command stays text. Known here: close, reopen, label(s), unlabel, relabel, title,
lock, unlock, confidential.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from agentsmith.simulators.gitlab.changes import By, Changes
from agentsmith.simulators.gitlab.state import Issue, Project

NAMES = (
    "close",
    "reopen",
    "label",
    "labels",
    "unlabel",
    "remove_label",
    "relabel",
    "title",
    "lock",
    "unlock",
    "confidential",
)
_COMMAND = re.compile(rf"/({'|'.join(NAMES)})(?: ([^\n]*))?\s*", re.I)
_LABEL = re.compile(r'~(?:"([^"]+)"|([^\s~,]+))')
_FENCES = ("```", "~~~", ">>>")


@dataclass(frozen=True, slots=True)
class Extracted:
    """What is left of a text, and the commands that were in it."""

    text: str
    commands: tuple[tuple[str, str], ...]


def extract(body: str) -> Extracted:
    """Take the commands out of a comment."""
    kept: list[str] = []
    commands: list[tuple[str, str]] = []
    fence: str | None = None
    for line in body.replace("\r", "").split("\n"):
        opening = next((mark for mark in _FENCES if line.startswith(mark)), None)
        if fence is None and opening is not None:
            fence = opening
        elif fence is not None and opening == fence:
            fence = None
        elif fence is None and (found := _COMMAND.fullmatch(line)):
            commands.append((found[1].lower(), (found[2] or "").strip()))
            continue
        kept.append(line)
    return Extracted("\n".join(kept).rstrip(), tuple(commands))


def labels_in(arguments: str) -> list[str]:
    """The labels that a command names: `~bug ~"in two words"`."""
    return [quoted or plain for quoted, plain in _LABEL.findall(arguments)]


def carry_out(changes: Changes, project: Project, iid: int, commands: tuple[tuple[str, str], ...], by: By) -> list[str]:
    """Do what the commands say, in order; answers a sentence for each."""
    summary = []
    for name, arguments in commands:
        issue = project.issue(iid)
        if issue is None:
            break
        _VERBS[name](changes, project, issue, arguments, by)
        summary.append(f"{name.capitalize()}: done.")
    return summary


_Verb = Callable[[Changes, Project, Issue, str, By], object]


def _relabel(changes: Changes, project: Project, issue: Issue, arguments: str, by: By) -> object:
    return changes.replace_labels(project, issue, by, labels_in(arguments))


def _unlabel(changes: Changes, project: Project, issue: Issue, arguments: str, by: By) -> object:
    names = labels_in(arguments) or [label.name for label in project.labels_of(issue)]
    return changes.relabel(project, issue, by, remove=names)


_VERBS: dict[str, _Verb] = {
    "close": lambda changes, project, issue, _, by: changes.set_state(project, issue, "closed", by),
    "reopen": lambda changes, project, issue, _, by: changes.set_state(project, issue, "opened", by),
    "label": lambda changes, project, issue, args, by: changes.relabel(project, issue, by, add=labels_in(args)),
    "labels": lambda changes, project, issue, args, by: changes.relabel(project, issue, by, add=labels_in(args)),
    "unlabel": _unlabel,
    "remove_label": _unlabel,
    "relabel": _relabel,
    "title": lambda changes, project, issue, args, by: changes.edit_issue(project, issue, by, title=args),
    "lock": lambda changes, project, issue, _, by: changes.edit_issue(project, issue, by, locked=True),
    "unlock": lambda changes, project, issue, _, by: changes.edit_issue(project, issue, by, locked=False),
    "confidential": lambda changes, project, issue, _, by: changes.edit_issue(project, issue, by, confidential=True),
}
