"""JSON as Azure DevOps shows it: work items, comments, history, people."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote

from agentsmith.simulators.azuredevops.state import (
    Comment,
    GitRepository,
    Project,
    PullRequest,
    Relation,
    Revision,
    User,
    WorkItem,
    World,
)

Json = dict[str, Any]
FOREVER = "9999-01-01T00:00:00Z"
LINK_NAMES = {
    "System.LinkTypes.Dependency-Reverse": "Predecessor",
    "System.LinkTypes.Dependency-Forward": "Successor",
    "System.LinkTypes.Hierarchy-Reverse": "Parent",
    "System.LinkTypes.Hierarchy-Forward": "Child",
    "System.LinkTypes.Related": "Related",
}


def iso(at: datetime) -> str:
    """A date as the service prints it."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.000Z").replace(".000Z", "Z")


class Renderer:
    """Shows the state of one organization; `root` is the organization's own address."""

    def __init__(self, world: World, root: str) -> None:
        self.world, self.root = world, root

    def user(self, user: User) -> Json:
        """An identity."""
        avatar = f"{self.root}/_apis/GraphProfile/MemberAvatars/{user.descriptor}"
        return {
            "displayName": user.display,
            "url": f"{self.root}/_apis/Identities/{user.id}",
            "_links": {"avatar": {"href": avatar}},
            "id": user.id,
            "uniqueName": user.name,
            "imageUrl": avatar,
            "descriptor": user.descriptor,
        }

    def fields(self, item: WorkItem, revision: Revision, *, flat: bool = False) -> Json:
        """The fields of a revision, the system's own included; `flat`: identities as text, as webhooks have them."""
        first = item.revisions[0]
        shown = {
            "System.Id": item.id,
            "System.Rev": revision.rev,
            "System.TeamProject": item.project,
            "System.CreatedDate": iso(first.at),
            "System.CreatedBy": self._who(first.by, flat),
            "System.ChangedDate": iso(revision.at),
            "System.ChangedBy": self._who(revision.by, flat),
            "System.CommentCount": sum(not comment.deleted for comment in revision.comments),
            "System.Watermark": item.id * 1000 + revision.rev,
            **revision.fields,
        }
        if isinstance(assigned := shown.get("System.AssignedTo"), str):
            shown["System.AssignedTo"] = self._who(self.world.user(assigned), flat)
        comment = next((c for c in revision.comments if c.id == revision.comment), None)
        if comment is not None and comment.version == 1:
            shown["System.History"] = comment.text
        return shown

    def item(self, item: WorkItem, revision: Revision, *, expand: str = "none", only: list[str] | None = None) -> Json:
        """A work item; `only` names the fields that were asked for."""
        fields = self.fields(item, revision)
        fields.pop("System.Watermark")
        if expand != "all":
            fields.pop("System.Id"), fields.pop("System.Rev")
        if only is not None:
            wanted = {name.casefold() for name in only}
            fields = {k: v for k, v in self.fields(item, revision).items() if k.casefold() in wanted}
        url = f"{self.project_url(item)}/_apis/wit/workItems/{item.id}"
        shown: Json = {"id": item.id, "rev": revision.rev, "fields": fields}
        if expand in ("relations", "all") and revision.relations:
            shown["relations"] = [self.relation(relation) for relation in revision.relations]
        comment = next((c for c in revision.comments if c.id == revision.comment), None)
        if comment is not None:
            shown["commentVersionRef"] = {
                "commentId": comment.id,
                "version": comment.version,
                "url": f"{url}/comments/{comment.id}/versions/{comment.version}",
            }
        if only is None:
            shown["_links"] = self.links(item)
        shown["url"] = url
        return shown

    def links(self, item: WorkItem) -> Json:
        """Where to read more."""
        url = f"{self.project_url(item)}/_apis/wit/workItems/{item.id}"
        type_ = quote(str(item.now.fields["System.WorkItemType"]))
        return {
            "self": {"href": url},
            "workItemUpdates": {"href": f"{url}/updates"},
            "workItemRevisions": {"href": f"{url}/revisions"},
            "workItemComments": {"href": f"{url}/comments"},
            "html": {"href": f"{self.project_url(item)}/_workitems/edit/{item.id}"},
            "workItemType": {"href": f"{self.project_url(item)}/_apis/wit/workItemTypes/{type_}"},
            "fields": {"href": f"{self.project_url(item)}/_apis/wit/fields"},
        }

    def relation(self, relation: Relation) -> Json:
        """A link to another work item."""
        if relation.artifact:
            return {"rel": relation.rel, "url": relation.artifact, "attributes": {"name": "Pull Request"}}
        return {
            "rel": relation.rel,
            "url": f"{self.root}/_apis/wit/workItems/{relation.target}",
            "attributes": {"isLocked": False, "name": LINK_NAMES.get(relation.rel, relation.rel)},
        }

    def repository(self, project: Project, repository: GitRepository, *, empty: bool) -> Json:
        """A git repository; an empty one names no default branch."""
        web = f"{self.root}/{quote(project.name)}/_git/{quote(repository.name)}"
        shown: Json = {
            "id": repository.id,
            "name": repository.name,
            "url": f"{self.root}/{project.id}/_apis/git/repositories/{repository.id}",
            "project": {"id": project.id, "name": project.name, "state": "wellFormed", "visibility": "private"},
            "size": 0 if empty else 1024,
            "remoteUrl": web,
            "webUrl": web,
            "isDisabled": repository.disabled,
        }
        if not empty:
            shown["defaultBranch"] = f"refs/heads/{repository.default_branch}"
        return shown

    def pull(self, project: Project, repository: GitRepository, pull: PullRequest, *, empty: bool) -> Json:
        """A pull request."""
        whole = self.repository(project, repository, empty=empty)
        shown: Json = {
            "repository": {name: whole[name] for name in ("id", "name", "url", "project")},
            "pullRequestId": pull.id,
            "codeReviewId": pull.id,
            "status": pull.status,
            "createdBy": self.user(pull.by),
            "creationDate": iso(pull.at),
            "title": pull.title,
            "description": pull.text,
            "sourceRefName": pull.source,
            "targetRefName": pull.target,
            "mergeStatus": "queued",
            "isDraft": pull.draft,
            "reviewers": [],
            "labels": [],
            "url": f"{whole['url']}/pullRequests/{pull.id}",
            "supportsIterations": True,
            "artifactId": repository.artifact(project, pull),
        }
        if pull.fork is not None:
            shown["forkSource"] = {"name": pull.source, "repository": {**shown["repository"], "id": pull.fork}}
        return shown

    def update(self, item: WorkItem, index: int) -> Json:
        """One step of the history: what the revision with that index changed."""
        after = item.revisions[index]
        before = item.revisions[index - 1] if index else None
        later = item.revisions[index + 1] if index + 1 < len(item.revisions) else None
        shown: Json = {
            "id": index + 1,
            "workItemId": item.id,
            "rev": after.rev,
            "revisedBy": {**self.user(after.by), "name": f"{after.by.display} <{after.by.name}>"},
            "revisedDate": iso(later.at) if later else FOREVER,
            # The service counts in milliseconds, so that this is never the same twice.
            "fields": {**self.difference(item, before, after), "System.ChangedDate": self._changed(before, after)},
            "url": f"{self.project_url(item)}/_apis/wit/workItems/{item.id}/updates/{index + 1}",
        }
        old, new = set(before.relations if before else ()), set(after.relations)
        if old != new:
            shown["relations"] = {
                "added": [self.relation(link) for link in after.relations if link in new - old],
                "removed": [self.relation(link) for link in (before.relations if before else ()) if link in old - new],
            }
        return shown

    def _changed(self, before: Revision | None, after: Revision) -> Json:
        return {**({"oldValue": iso(before.at)} if before else {}), "newValue": iso(after.at)}

    def difference(self, item: WorkItem, before: Revision | None, after: Revision, *, flat: bool = False) -> Json:
        """Every field that changed, with its old and its new value; what was empty has no old value."""
        old = self.fields(item, before, flat=flat) if before else {}
        new = self.fields(item, after, flat=flat)
        old.pop("System.History", None)
        found: Json = {}
        for name in {**old, **new}:
            if old.get(name) != new.get(name):
                found[name] = {}
                if name in old:
                    found[name]["oldValue"] = old[name]
                if name in new:
                    found[name]["newValue"] = new[name]
        return found

    def comment(self, item: WorkItem, comment: Comment) -> Json:
        """A comment."""
        return {
            "mentions": [],
            "workItemId": item.id,
            "id": comment.id,
            "version": comment.version,
            "text": comment.text,
            "createdBy": self.user(comment.by),
            "createdDate": iso(comment.at),
            "modifiedBy": self.user(comment.changed_by),
            "modifiedDate": iso(comment.changed_at),
            "format": comment.format,
            "isDeleted": comment.deleted,
            "url": f"{self.project_url(item)}/_apis/wit/workItems/{item.id}/comments/{comment.id}",
        }

    def project_url(self, item: WorkItem) -> str:
        """The address of the project that a work item is in; the service writes its id there."""
        return f"{self.root}/{self.world.project(item.project).id}"

    def _who(self, user: User, flat: bool) -> Any:
        return f"{user.display} <{user.name}>" if flat else self.user(user)
