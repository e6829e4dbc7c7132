"""JSON Patch as work items take it: a test of the revision, fields, links. All or nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentsmith.simulators.azuredevops.answers import refuse
from agentsmith.simulators.azuredevops.state import TAGS, Project, Relation, Revision, split_tags
from agentsmith.simulators.frame import Unsupported

MOST_TAGS = 100
LONGEST_TAG = 400
READ_ONLY = frozenset({"System.Id", "System.Rev", "System.ChangedBy", "System.CreatedBy", "System.CreatedDate"})
_SYSTEM = (
    "AreaId AreaPath AssignedTo BoardColumn BoardLane Description History IterationId IterationPath Parent Reason "
    "State Tags TeamProject Title WorkItemType"
)
_COMMON = "AcceptanceCriteria Activity ActivatedDate BusinessValue ClosedDate Priority Rating Resolution Risk Severity"
_COMMON += " StackRank TimeCriticality Triage ValueArea"
_SCHEDULING = "CompletedWork DueDate Effort FinishDate OriginalEstimate RemainingWork Size StartDate StoryPoints"
_TESTING = "Microsoft.VSTS.TCM.ReproSteps Microsoft.VSTS.TCM.SystemInfo Microsoft.VSTS.TCM.Steps"
_BUILDING = "Microsoft.VSTS.Build.FoundIn Microsoft.VSTS.Build.IntegrationBuild"
KNOWN = frozenset(
    name.casefold()
    for name in (
        *(f"System.{word}" for word in _SYSTEM.split()),
        *(f"Microsoft.VSTS.Common.{word}" for word in _COMMON.split()),
        *(f"Microsoft.VSTS.Scheduling.{word}" for word in _SCHEDULING.split()),
        *_TESTING.split(),
        *_BUILDING.split(),
    )
)
"""The fields of the types that a new project has, folded: their names ignore case."""
_TARGET = re.compile(r"/_apis/wit/workItems/(\d+)$", re.I)


@dataclass(slots=True)
class Patch:
    """What a document asks for."""

    fields: dict[str, Any] = field(default_factory=dict)
    relations: tuple[Relation, ...] | None = None
    history: str | None = None


def read_patch(document: Any, before: Revision | None, project: Project, *, add_overwrites: bool = False) -> Patch:
    """The document's wishes, checked against the revision; refuses as the service does."""
    if not isinstance(document, list) or not document:
        raise refuse(
            400, "You must pass a valid patch document in the body of the request.", "VssPropertyValidationException"
        )
    patch = Patch()
    for operation in document:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise refuse(400, "The patch document is malformed.", "VssPropertyValidationException")
        _apply(patch, operation, before, project, add_overwrites=add_overwrites)
    return patch


def _apply(
    patch: Patch, operation: Mapping[str, Any], before: Revision | None, project: Project, *, add_overwrites: bool
) -> None:
    op, path, value = str(operation.get("op")).lower(), str(operation["path"]), operation.get("value")
    if op == "test":
        _test(path, value, before)
    elif path.startswith("/fields/"):
        _field(patch, op, path.removeprefix("/fields/"), value, before, project, add_overwrites=add_overwrites)
    elif path.startswith("/relations/"):
        _relation(patch, op, path.removeprefix("/relations/"), value, before)
    else:
        raise Unsupported(f"{op} {path} in a patch")


def _test(path: str, value: Any, before: Revision | None) -> None:
    """The compare in compare-and-set: the first operation that fails ends everything with 412."""
    actual: Any = None
    if path == "/rev":
        actual = before.rev if before else 0
    elif path.startswith("/fields/"):
        actual = before.fields.get(path.removeprefix("/fields/")) if before else None
    else:
        raise Unsupported(f"test {path} in a patch")
    if actual != value:
        message = (
            f"VS403351: Test Operation for path {path} failed, value {actual} was not equal to test value {value}."
        )
        raise refuse(412, message, "TestPatchOperationFailedException")


def _field(
    patch: Patch, op: str, name: str, value: Any, before: Revision | None, project: Project, *, add_overwrites: bool
) -> None:
    if name in READ_ONLY:
        raise refuse(400, f"TF401326: Invalid field status 'ReadOnly' for field '{name}'.", "RuleValidationException")
    if name.casefold() not in KNOWN | {custom.casefold() for custom in project.custom_fields}:
        message = f"TF51535: Cannot find field {name}."
        raise refuse(400, message, "WorkItemTrackingFieldDefinitionNotFoundException")
    if op == "remove":
        patch.fields[name] = ""
        return
    if op not in ("add", "replace"):
        raise Unsupported(f"{op} /fields/{name} in a patch")
    if name == "System.History":
        patch.history = str(value)
    elif name == TAGS:
        patch.fields[name] = _tags(op, value, before, add_overwrites=add_overwrites)
    elif name == "System.State":
        _check_state(project, patch, before, value)
        patch.fields[name] = value
    else:
        patch.fields[name] = value


def _tags(op: str, value: Any, before: Revision | None, *, add_overwrites: bool) -> str:
    """`add` merges with what is there, `replace` replaces: the trap for whoever thinks that add sets."""
    if not isinstance(value, str):
        raise refuse(400, "TF20012: The tags are not text.", "RuleValidationException")
    names = split_tags(value.replace(",", ";"))
    if op == "add" and not add_overwrites:
        names = split_tags("; ".join([*split_tags(before.fields.get(TAGS) if before else ""), *names]))
    for name in names:
        if len(name) > LONGEST_TAG or name.startswith("@") or any(ord(c) > 0xFFFF or ord(c) < 32 for c in name):
            raise refuse(400, "TF401407: The tag name is not valid.", "InvalidTagNameException")
    if len(names) > MOST_TAGS:
        message = f"VS403692: A work item can have {MOST_TAGS} tags at most."
        raise refuse(400, message, "WorkItemTagLimitExceededException")
    return "; ".join(names)


def _check_state(project: Project, patch: Patch, before: Revision | None, value: Any) -> None:
    type_ = patch.fields.get("System.WorkItemType") or (before.fields["System.WorkItemType"] if before else None)
    if type_ is not None and value not in project.types[type_]:
        message = f"The field 'State' contains the value '{value}' that is not in the list of supported values"
        raise refuse(400, message, "RuleValidationException")


def _relation(patch: Patch, op: str, where: str, value: Any, before: Revision | None) -> None:
    links = list(patch.relations if patch.relations is not None else (before.relations if before else ()))
    if op == "add" and where == "-" and isinstance(value, dict):
        url, rel = str(value.get("url")), str(value.get("rel"))
        target = _TARGET.search(url)
        if target is None and not (rel == "ArtifactLink" and url.startswith("vstfs:///Git/PullRequestId/")):
            raise Unsupported(f"a link to {url}")
        link = Relation(rel, int(target[1])) if target else Relation(rel, artifact=url)
        if link in links:
            raise refuse(400, "TF401326: Relation already exists.", "RuleValidationException")
        links.append(link)
    elif op == "remove" and where.isdecimal() and int(where) < len(links):
        links.pop(int(where))
    else:
        raise refuse(400, "TF401349: The link does not exist.", "WorkItemLinkInvalidException")
    patch.relations = tuple(links)
