"""What the commands in a comment do to its issue. Known here: close, reopen, label(s), unlabel, relabel, title, lock,
unlock, confidential."""

from __future__ import annotations

import re
from collections.abc import Callable

from agentsmith.simulators.gitlab.changes import By, Changes
from agentsmith.simulators.gitlab.state import Issue, Project

_LABEL = re.compile(r'~(?:"([^"]+)"|([^\s~,]+))')


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
