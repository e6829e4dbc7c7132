"""Our webhook payloads have every key that the published ones have, all the way down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentsmith.simulators.github import GitHubSimulator

REPO = "acme/web"
PUBLISHED = Path(__file__).resolve().parents[2] / ".." / "shared" / "webhooks" / "github"
SILENT = {"sub_issues_summary", "issue_dependencies_summary"}
"""Keys that only newer captures have."""


def missing(published: Any, ours: Any, where: str = "") -> list[str]:
    """The keys of a published payload that ours lacks. What is null on either side may have any shape inside."""
    if isinstance(published, dict) and isinstance(ours, dict):
        found = [f"{where}.{key}" for key in published if key not in ours and key not in SILENT]
        for key in published.keys() & ours.keys():
            found += missing(published[key], ours[key], f"{where}.{key}")
        return found
    if isinstance(published, list) and isinstance(ours, list):
        return missing(published[0], ours[0], f"{where}[]") if published and ours else []
    if published is not None and ours is not None and type(published) is not type(ours):
        return [f"{where}: {type(ours).__name__} instead of {type(published).__name__}"]
    return []


@pytest.fixture
def sent(hub: GitHubSimulator) -> dict[str, Any]:
    """One payload of each event, by `event.action`."""
    app = hub.add_app("agent-smith", "no key needed here")
    hub.install_app(int(app["id"]), webhook_url="http://127.0.0.1:9/nobody")
    hub.register_webhook(REPO, "http://127.0.0.1:9/nobody", ping=True)
    number = hub.open_issue(REPO, labels=["a", "b"], body="text")
    hub.repository(REPO).save(hub.hub.changes.edit_issue(*_assigned(hub, number), assignees=("mona",)))
    hub.remove_label(REPO, number, "b")
    hub.edit_issue(REPO, number, title="New")
    hub.comment(REPO, number, "hi")
    hub.close_issue(REPO, number)
    hub.reopen_issue(REPO, number)
    hub.open_pull_request(REPO, labels=["a"])
    payloads: dict[str, Any] = {}
    for delivery in hub.outbox.log:
        # The App's deliveries come first and carry the installation; of each event the last one counts.
        if delivery.details["installation"] or delivery.event == "ping":
            payloads[delivery.event] = json.loads(delivery.body)
    return payloads


def _assigned(hub: GitHubSimulator, number: int) -> tuple[Any, ...]:
    from agentsmith.simulators.github.changes import By

    return hub.repository(REPO), hub.issue(REPO, number), By("mona")


@pytest.mark.parametrize(
    "name",
    [
        "issues.opened",
        "issues.edited",
        "issues.labeled",
        "issues.unlabeled",
        "issues.reopened",
        "issue_comment.created",
        "pull_request.labeled",
        "ping.none",
    ],
)
def test_shape(sent: dict[str, Any], name: str) -> None:
    if not PUBLISHED.is_dir():
        pytest.skip(f"NOT COMPARED: the published payloads are not at {PUBLISHED}")
    files = sorted(PUBLISHED.glob(f"{name}.*.json"))
    assert files, f"nothing published for {name}"
    for file in files:
        assert missing(json.loads(file.read_text()), sent[name.removesuffix(".none")]) == []


SEEN_SINCE = {"draft", "type", "state_reason", "sub_issues_summary", "issue_dependencies_summary"}
"""Keys of issues that GitHub's schema of webhooks names, and older captures do not have."""


def test_nothing_is_sent_that_github_does_not_send(sent: dict[str, Any]) -> None:
    """The published schemas are closed: a client that reads strictly refuses an issue with a `closed_by`."""
    if not PUBLISHED.is_dir():
        pytest.skip(f"NOT COMPARED: the published payloads are not at {PUBLISHED}")
    issues = [json.loads(file.read_text()).get("issue", {}) for file in PUBLISHED.glob("issue*.json")]
    known = {key for issue in issues for key in issue} | SEEN_SINCE
    labels = {key for issue in issues for label in issue["labels"] for key in label}
    ours = {name: payload for name, payload in sent.items() if "issue" in payload}
    assert len(ours) > 5
    for name, payload in ours.items():
        assert set(payload["issue"]) <= known, name
        assert all(set(label) <= labels for label in [*payload["issue"]["labels"], payload.get("label", {})]), name


def test_the_comparison_has_teeth() -> None:
    published = {"a": [{"b": 1, "c": {"d": None}}], "e": "x"}
    found = missing(published, {"a": [{"b": "1", "c": {}}]})
    assert sorted(found) == [".a[].b: str instead of int", ".a[].c.d", ".e"]
