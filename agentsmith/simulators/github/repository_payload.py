"""GitHub's JSON for repositories and pull requests, which is mostly addresses."""

from __future__ import annotations

from agentsmith.simulators.github.payloads import Json, Renderer, author_association, iso
from agentsmith.simulators.github.state import Issue, Pull, Repository, at_least

ADDRESSES = {
    "forks_url": "/forks",
    "keys_url": "/keys{/key_id}",
    "collaborators_url": "/collaborators{/collaborator}",
    "teams_url": "/teams",
    "hooks_url": "/hooks",
    "issue_events_url": "/issues/events{/number}",
    "events_url": "/events",
    "assignees_url": "/assignees{/user}",
    "branches_url": "/branches{/branch}",
    "tags_url": "/tags",
    "blobs_url": "/git/blobs{/sha}",
    "git_tags_url": "/git/tags{/sha}",
    "git_refs_url": "/git/refs{/sha}",
    "trees_url": "/git/trees{/sha}",
    "statuses_url": "/statuses/{sha}",
    "languages_url": "/languages",
    "stargazers_url": "/stargazers",
    "contributors_url": "/contributors",
    "subscribers_url": "/subscribers",
    "subscription_url": "/subscription",
    "commits_url": "/commits{/sha}",
    "git_commits_url": "/git/commits{/sha}",
    "comments_url": "/comments{/number}",
    "issue_comment_url": "/issues/comments{/number}",
    "contents_url": "/contents/{+path}",
    "compare_url": "/compare/{base}...{head}",
    "merges_url": "/merges",
    "archive_url": "/{archive_format}{/ref}",
    "downloads_url": "/downloads",
    "issues_url": "/issues{/number}",
    "pulls_url": "/pulls{/number}",
    "milestones_url": "/milestones{/number}",
    "notifications_url": "/notifications{?since,all,participating}",
    "labels_url": "/labels{/name}",
    "releases_url": "/releases{/id}",
    "deployments_url": "/deployments",
}
FLAGS = {
    "has_projects": True,
    "has_downloads": True,
    "has_wiki": True,
    "has_pages": False,
    "has_discussions": False,
    "archived": False,
    "disabled": False,
    "allow_forking": True,
    "is_template": False,
    "web_commit_signoff_required": False,
}
COUNTS = ("size", "stargazers_count", "watchers_count", "forks_count", "forks", "watchers")
MERGE_RULES = {
    "allow_squash_merge": True,
    "allow_merge_commit": True,
    "allow_rebase_merge": True,
    "allow_auto_merge": False,
    "delete_branch_on_merge": False,
    "allow_update_branch": False,
    "use_squash_pr_title_as_default": False,
    "squash_merge_commit_message": "COMMIT_MESSAGES",
    "squash_merge_commit_title": "COMMIT_OR_PR_TITLE",
    "merge_commit_message": "PR_TITLE",
    "merge_commit_title": "MERGE_MESSAGE",
}


def repository_json(render: Renderer, repository: Repository, role: str | None = None) -> Json:
    """A repository; with `role` also what its holder may do."""
    url, html = render.repo_url(repository), f"{render.web}/{repository.full_name}"
    open_issues = repository.open_issues
    host = render.web.partition("://")[2]
    body: Json = {
        "id": repository.id,
        "node_id": f"R_{repository.id}",
        "name": repository.name,
        "full_name": repository.full_name,
        "private": repository.private,
        "owner": render.user(repository.owner),
        "html_url": html,
        "description": None,
        "fork": False,
        "url": url,
        **{name: url + tail for name, tail in ADDRESSES.items()},
        "created_at": iso(repository.created_at),
        "updated_at": iso(repository.created_at),
        "pushed_at": iso(repository.created_at),
        "git_url": f"git://{host}/{repository.full_name}.git",
        "ssh_url": f"git@{host}:{repository.full_name}.git",
        "clone_url": f"{html}.git",
        "svn_url": html,
        "homepage": None,
        **dict.fromkeys(COUNTS, 0),
        "language": None,
        "has_issues": repository.has_issues,
        **FLAGS,
        "mirror_url": None,
        "open_issues_count": open_issues,
        "open_issues": open_issues,
        "license": None,
        "default_branch": repository.default_branch,
        "topics": [],
        "visibility": "private" if repository.private else "public",
        "custom_properties": {},
    }
    if role is not None:
        names = {"admin": "admin", "maintain": "maintain", "push": "write", "triage": "triage", "pull": "read"}
        body["permissions"] = {word: at_least(role, needed) for word, needed in names.items()}
    return body


def pull_json(render: Renderer, repository: Repository, issue: Issue, *, full: bool = True) -> Json:
    """A pull request as the pull endpoints and webhooks show it; the short form is for lists."""
    pull = issue.pull
    if pull is None:
        raise ValueError(f"#{issue.number} is no pull request")
    repo = render.repo_url(repository)
    url, issue_url = f"{repo}/pulls/{issue.number}", f"{repo}/issues/{issue.number}"
    html = f"{render.web}/{repository.full_name}/pull/{issue.number}"
    base_sha = repository.ref(f"refs/heads/{pull.base}") or "0" * 40
    related = {
        "self": url,
        "html": html,
        "issue": issue_url,
        "comments": f"{issue_url}/comments",
        "review_comments": f"{url}/comments",
        "review_comment": f"{repo}/pulls/comments{{/number}}",
        "commits": f"{url}/commits",
        "statuses": f"{repo}/statuses/{pull.head_sha}",
    }
    assignees = [render.user(login) for login in issue.assignees]
    role = render.world.role_of(issue.user, repository)
    short: Json = {
        "url": url,
        "id": issue.id,
        "node_id": f"PR_{issue.id}",
        "html_url": html,
        "diff_url": f"{html}.diff",
        "patch_url": f"{html}.patch",
        "issue_url": issue_url,
        "number": issue.number,
        "state": issue.state,
        "locked": issue.locked,
        "title": issue.title,
        "user": render.user(issue.user),
        "body": issue.body,
        "created_at": iso(issue.created_at),
        "updated_at": iso(issue.updated_at),
        "closed_at": iso(issue.closed_at),
        "merged_at": iso(pull.merged_at),
        "merge_commit_sha": None,
        "assignee": assignees[0] if assignees else None,
        "assignees": assignees,
        "requested_reviewers": [],
        "requested_teams": [],
        "labels": [{**label, "description": label["description"] or ""} for label in render.labels(repository, issue)],
        "milestone": None,
        "draft": pull.draft,
        "commits_url": related["commits"],
        "review_comments_url": related["review_comments"],
        "review_comment_url": related["review_comment"],
        "comments_url": related["comments"],
        "statuses_url": related["statuses"],
        "head": _side(render, repository, pull.head, pull.head_sha, pull.fork),
        "base": _side(render, repository, pull.base, base_sha),
        "_links": {name: {"href": address} for name, address in related.items()},
        "author_association": author_association(role, issue.user, repository),
        "auto_merge": None,
        "active_lock_reason": issue.lock_reason,
    }
    return {**short, **_only_in_full(issue, pull)} if full else short


def _side(render: Renderer, repository: Repository, ref: str, sha: str, fork: str | None = None) -> Json:
    """The branch that a pull request comes from, or goes to."""
    owner = repository.owner if fork is None else fork.partition("/")[0]
    place = {**repository_json(render, repository), **MERGE_RULES}
    if fork is not None:
        place |= {"full_name": fork, "name": fork.partition("/")[2], "fork": True}
    return {"label": f"{owner}:{ref}", "ref": ref, "sha": sha, "user": render.user(owner), "repo": place}


def _only_in_full(issue: Issue, pull: Pull) -> Json:
    """What lists leave out."""
    counts = {"comments": len(issue.comments), "review_comments": 0, "commits": 1}
    sizes = {"additions": 0, "deletions": 0, "changed_files": 0}
    merging = {"merged": pull.merged_at is not None, "mergeable": None, "rebaseable": None}
    state = {"mergeable_state": "unknown", "merged_by": None, "maintainer_can_modify": False}
    return {**merging, **state, **counts, **sizes}
