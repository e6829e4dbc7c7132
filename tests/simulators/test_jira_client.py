"""Somebody else's client, unchanged, against the simulator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from jira import JIRA, JIRAError

from agentsmith.simulators import Running
from agentsmith.simulators.jira import JiraSimulator
from tests.support.jira_simulator import PROJECT, TOKEN, cloud, running, site

__all__ = ["cloud", "running", "site"]
T = TypeVar("T")


@pytest.fixture
def judge_requests() -> bool:
    """What the library sends is its own business; our answers are ours."""
    return False


async def run(work: Callable[[], T]) -> T:
    """The library blocks, so it works beside the loop that serves it."""
    return await asyncio.to_thread(work)


def connect(running: Running, *, cloud: bool, version: str = "2") -> JIRA:
    """The library, logged in; it speaks version 2 by default."""
    login: dict[str, Any] = {"basic_auth": ("smith-bot@example.com", TOKEN)} if cloud else {"token_auth": TOKEN}
    return JIRA(server=running.api_url, options={"rest_api_version": version}, max_retries=0, **login)


@pytest.mark.parametrize("version", ["2", "3"])
async def test_labels_comments_and_transitions(running: Running, site: JiraSimulator, version: str) -> None:
    key = site.open_issue(PROJECT, labels=["bug"], description="text")

    def work() -> None:
        jira = connect(running, cloud=True, version=version)
        assert jira.myself()["displayName"] == "smith-bot"
        assert jira.project(PROJECT).key == PROJECT
        issue = jira.issue(key)
        issue.update(update={"labels": [{"add": "agent-smith:enqueued"}, {"remove": "bug"}]}, notify=False)
        assert issue.fields.labels == ["agent-smith:enqueued"]
        issue.add_field_value("labels", "more")
        with pytest.raises(JIRAError, match="contains spaces"):
            issue.add_field_value("labels", "two words")
        jira.add_issue_property(key, "p", {"x": 1})
        assert jira.issue_property(key, "p").value.x == 1
        ways = {way["to"]["name"]: way["id"] for way in jira.transitions(issue)}
        jira.transition_issue(issue, ways["In Progress"])
        assert jira.issue(key).fields.status.name == "In Progress"
        with pytest.raises(JIRAError, match="not valid"):
            jira.transition_issue(issue, ways["In Progress"])
        changes = jira.issue(key, expand="changelog").changelog.histories
        assert [item.field for change in changes for item in change.items] == ["labels", "labels", "status"]

    await run(work)
    assert site.labels(key) == ["agent-smith:enqueued", "more"]
    site.assert_understood()


async def test_comments_by_text(running: Running, site: JiraSimulator) -> None:
    key = site.open_issue(PROJECT)

    def work() -> list[str]:
        jira = connect(running, cloud=True)
        comment = jira.add_comment(key, "one")
        comment.update(body="uno")
        jira.add_comment(key, "two").delete()
        return [c.body for c in jira.comments(key)]

    assert await run(work) == ["uno"]
    site.assert_understood()


async def test_search_pages_to_the_end(running: Running, site: JiraSimulator) -> None:
    keys = [site.open_issue(PROJECT, labels=["x"]) for _ in range(120)]

    def work() -> list[str]:
        jira = connect(running, cloud=True, version="3")
        found = jira.enhanced_search_issues(
            f'project = {PROJECT} AND labels = "x" ORDER BY created ASC', maxResults=0, fields="labels"
        )
        return [issue.key for issue in found]

    assert await run(work) == keys
    site.assert_understood()


async def test_links_and_new_issues(running: Running, site: JiraSimulator) -> None:
    def work() -> tuple[str, str]:
        jira = connect(running, cloud=True)
        fields = {"project": {"key": PROJECT}, "summary": "made", "issuetype": {"name": "Task"}, "labels": ["a"]}
        one, two = jira.create_issue(fields=fields), jira.create_issue(fields=fields)
        jira.create_issue_link("Blocks", inwardIssue=one.key, outwardIssue=two.key)
        (link,) = jira.issue(two.key).fields.issuelinks
        assert link.type.inward == "is blocked by"
        return link.inwardIssue.key, one.key

    blocker, one = await run(work)
    assert blocker == one
    site.assert_understood()


class TestDataCenter:
    """The same library with a personal access token."""

    @pytest.fixture
    def cloud(self) -> bool:
        """No."""
        return False

    async def test_search_labels_and_comments(self, running: Running, site: JiraSimulator) -> None:
        keys = [site.open_issue(PROJECT, labels=["x"]) for _ in range(7)]

        def work() -> list[str]:
            jira = connect(running, cloud=False)
            issue = jira.issue(keys[0])
            issue.update(update={"labels": [{"add": "y"}]})
            jira.add_comment(issue, "h1. *markup*")
            found = jira.search_issues("labels = x ORDER BY created ASC", maxResults=3, startAt=3)
            return [issue.key for issue in found]

        assert await run(work) == keys[3:6]
        assert site.labels(keys[0]) == ["x", "y"]
        assert site.comments(keys[0])[0]["body"] == "h1. *markup*"
        site.assert_understood()
