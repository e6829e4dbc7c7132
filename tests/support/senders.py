"""The four platforms as senders of webhooks: payloads of our own in their shapes, signed as they sign."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.tracker import Tracker
from agentsmith.domain.webhook import WebhookReader
from agentsmith.trackers.azuredevops.settings import AzureDevOpsSettings
from agentsmith.trackers.github.settings import GitHubSettings
from agentsmith.trackers.gitlab.settings import GitLabSettings
from agentsmith.trackers.http import Shared
from agentsmith.trackers.http.connection import connect
from agentsmith.trackers.jira.settings import JiraSettings

PUBLISHED: Final = Path(__file__).parents[3] / "shared" / "webhooks"
"""Payloads as the platforms and others publish them; not a part of the project."""
SECRET: Final = "new secret"
FORMER: Final = "old secret"
SIGNING: Final = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
LABEL: Final = "agent-smith"

Headers = dict[str, str]


@dataclass(frozen=True, slots=True)
class Sender:
    """How one platform sends; `sign` answers the headers that prove a body, `name` those that name a delivery."""

    platform: str
    settings: Any
    labelled: Callable[[], Any]
    """Ticket 7 was given the label LABEL by mona."""
    commented: Callable[[str], Any]
    """mona commented on ticket 7."""
    name: Callable[[Any, str], Headers]
    """Payload and id to the headers that say what a delivery is; an id inside the payload is put there."""
    sign: Callable[[bytes, Headers, str], Headers]
    ping: Callable[[], Any]
    """Something authentic that is about no ticket."""

    @property
    def key(self) -> str:
        """Ticket 7."""
        return "WEB-7" if self.platform == "jira" else "7"

    def tracker(self) -> Tracker:
        """The tracker that the deliveries are about; nothing is ever asked of it."""
        return self.settings.open("web", LabelSet(), connect(Shared()))  # type: ignore[no-any-return]

    def reader(self) -> WebhookReader:
        """Who reads them."""
        return self.settings.webhooks()  # type: ignore[no-any-return]

    def delivery(self, payload: Any, name: str = "d-1", secret: str = SECRET) -> tuple[Headers, bytes]:
        """A whole delivery: headers and body."""
        headers = self.name(payload, name)
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        return {"content-type": "application/json", **headers, **self.sign(body, headers, secret)}, body


def _settings(model: Any, **more: Any) -> Any:
    return model.model_validate({"token": "t", "webhook_secret": [SECRET, FORMER], **more})


def _hmac(body: bytes, secret: str) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


# --- GitHub -----------------------------------------------------------------------------------------------------------

_MONA: Final = {"login": "mona", "id": 1, "type": "User"}
_ISSUE: Final = {"number": 7, "title": "t", "state": "open", "labels": [{"name": LABEL}], "user": _MONA}
_REPOSITORY: Final = {"full_name": "Acme/Web"}


def _github_name(payload: Any, name: str) -> Headers:
    event = "issues"
    if isinstance(payload, dict):
        event = "issue_comment" if "comment" in payload else "ping" if "zen" in payload else "issues"
    return {"x-github-delivery": name, "x-github-event": event}


GITHUB: Final = Sender(
    "github",
    _settings(GitHubSettings, platform="github", repository="acme/web"),
    lambda: {
        "action": "labeled",
        "issue": _ISSUE,
        "label": {"name": LABEL},
        "repository": _REPOSITORY,
        "sender": _MONA,
    },
    lambda text: {
        "action": "created",
        "issue": _ISSUE,
        "comment": {"id": 99, "body": text, "user": _MONA},
        "repository": _REPOSITORY,
        "sender": _MONA,
    },
    _github_name,
    lambda body, _, secret: {"x-hub-signature-256": _hmac(body, secret)},
    lambda: {"zen": "Keep it logically awesome."},
)

# --- GitLab -----------------------------------------------------------------------------------------------------------

_PROJECT: Final = {"id": 15, "path_with_namespace": "acme/web"}
_USER: Final = {"id": 1, "username": "mona", "name": "Mona"}


def _gitlab_name(payload: Any, name: str) -> Headers:
    kind = payload.get("object_kind", "issue") if isinstance(payload, dict) else "issue"
    event = {"note": "Note Hook", "push": "Push Hook"}.get(str(kind), "Issue Hook")
    return {"idempotency-key": name, "x-gitlab-event": event, "webhook-id": name}


def _gitlab_sign(body: bytes, headers: Headers, secret: str, at: float | None = None) -> Headers:
    if not secret.startswith("whsec_"):
        return {"x-gitlab-token": secret}
    stamp = str(int(time.time() if at is None else at))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    text = f"{headers.get('webhook-id', '')}.{stamp}.".encode() + body
    signature = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    return {"webhook-timestamp": stamp, "webhook-signature": f"v1,{signature}"}


GITLAB: Final = Sender(
    "gitlab",
    _settings(GitLabSettings, platform="gitlab", project="acme/web"),
    lambda: {
        "object_kind": "issue",
        "user": _USER,
        "project": _PROJECT,
        "object_attributes": {"iid": 7, "action": "update", "type": "Issue", "state": "opened"},
        "labels": [{"title": LABEL}],
        "changes": {"labels": {"previous": [], "current": [{"title": LABEL}]}},
    },
    lambda text: {
        "object_kind": "note",
        "user": _USER,
        "project": _PROJECT,
        "object_attributes": {"id": 99, "note": text, "noteable_type": "Issue", "action": "create"},
        "issue": {"iid": 7, "labels": [{"title": LABEL}]},
    },
    _gitlab_name,
    _gitlab_sign,
    lambda: {"object_kind": "push", "project": _PROJECT},
)
GITLAB_SIGNED: Final = Sender(
    "gitlab",
    _settings(GitLabSettings, platform="gitlab", project="acme/web", webhook_secret=[SIGNING]),
    GITLAB.labelled,
    GITLAB.commented,
    GITLAB.name,
    lambda body, headers, secret: _gitlab_sign(
        body, headers, SIGNING if secret == SECRET else "whsec_" + base64.b64encode(secret.encode() * 4).decode()
    ),
    GITLAB.ping,
)

# --- Azure DevOps -----------------------------------------------------------------------------------------------------

_WHO: Final = {"id": "8c8c7d32", "displayName": "Mona", "uniqueName": "mona@example.com"}


def _azure(event: str, **resource: Any) -> dict[str, Any]:
    fields = {"System.TeamProject": "Web", "System.Tags": LABEL, "System.ChangedBy": "Mona <mona@example.com>"}
    kept = {"id": 7, "rev": 3, "fields": fields, **resource}
    return {"id": "", "eventType": event, "publisherId": "tfs", "resource": kept}


def _azure_name(payload: Any, name: str) -> Headers:
    if isinstance(payload, dict):
        payload["id"] = name
    return {}


def _azure_sign(_: bytes, __: Headers, secret: str) -> Headers:
    return {"authorization": "Basic " + base64.b64encode(f"agentsmith:{secret}".encode()).decode()}


AZURE: Final = Sender(
    "azure-devops",
    _settings(AzureDevOpsSettings, platform="azure-devops", organization="acme", project="Web"),
    # As it really comes: `id` is the number of the update, the work item is `workItemId`.
    lambda: _azure(
        "workitem.updated",
        id=3,
        workItemId=7,
        revisedBy=_WHO,
        fields={"System.Rev": {"oldValue": 2, "newValue": 3}, "System.Tags": {"newValue": LABEL}},
        revision={"id": 7, "rev": 3, "fields": {"System.TeamProject": "Web", "System.Tags": LABEL}},
    ),
    lambda text: _azure(
        "workitem.commented",
        fields={
            "System.TeamProject": "Web",
            "System.Tags": LABEL,
            "System.ChangedBy": "Mona <mona@example.com>",
            "System.History": text,
        },
    ),
    _azure_name,
    _azure_sign,
    lambda: _azure("git.push"),
)

# --- Jira -------------------------------------------------------------------------------------------------------------

_ACCOUNT: Final = {"accountId": "712020:mona", "accountType": "atlassian", "displayName": "Mona"}


JIRA: Final = Sender(
    "jira",
    _settings(
        JiraSettings, platform="jira", project="WEB", base_url="https://acme.atlassian.net", email="bot@acme.example"
    ),
    lambda: {
        "webhookEvent": "jira:issue_updated",
        "issue_event_type_name": "issue_updated",
        "user": _ACCOUNT,
        "issue": {"id": "10007", "key": "WEB-7", "fields": {"labels": [LABEL]}},
        "changelog": {"id": "1", "items": [{"field": "labels", "fromString": "", "toString": LABEL}]},
    },
    lambda text: {
        "webhookEvent": "comment_created",
        "comment": {"id": "99", "author": _ACCOUNT, "body": text},
        "issue": {"id": "10007", "key": "WEB-7", "fields": {}},
    },
    lambda _, name: {"x-atlassian-webhook-identifier": name},
    lambda body, _, secret: {"x-hub-signature": _hmac(body, secret)},
    lambda: {"webhookEvent": "user_created", "user": _ACCOUNT},
)

SENDERS: Final = {
    "azure-devops": AZURE,
    "github": GITHUB,
    "gitlab": GITLAB,
    "gitlab-signed": GITLAB_SIGNED,
    "jira": JIRA,
}
