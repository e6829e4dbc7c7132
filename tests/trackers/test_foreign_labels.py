"""`say` and `relabel` on the wire of each platform, and what its quirks do to them (T16, T17)."""

from __future__ import annotations

from typing import Any

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.errors import ConfigError, Refused
from agentsmith.simulators import Recorded
from agentsmith.trackers.gitlab.spelling import LabelStyle
from tests.support import simulated_azuredevops, simulated_github, simulated_gitlab, simulated_jira


def soon() -> float:
    return boottime() + 30


def written(requests: list[Recorded]) -> list[tuple[str, str, Any]]:
    """Method, path as sent with its query, and body of every write."""
    return [(r.method, r.raw_path + (f"?{r.query}" if r.query else ""), r.body) for r in requests if r.method != "GET"]


async def test_github_adds_all_at_once_and_removes_one_by_one() -> None:
    async with simulated_github.simulated_github() as github:
        tracker = github.tracker()
        ticket = await tracker.get(github.issue("old", "Older", "bug"))
        await tracker.relabel(ticket, add=["a b", "c"], remove=["old", "older", "gone"], deadline=soon())
        await tracker.say(ticket, "hello", deadline=soon())
        issue = "/repos/acme/web/issues/1"
        assert written(github.recorded()) == [
            ("POST", f"{issue}/labels", {"labels": ["a b", "c"]}),
            ("DELETE", f"{issue}/labels/old", None),
            ("DELETE", f"{issue}/labels/Older", None),
            ("POST", f"{issue}/comments", {"body": "hello"}),
        ]
        assert github.labels("1") == {"a b", "c", "bug"}


async def test_gitlab_sends_one_put_and_takes_the_teeth_out_of_commands() -> None:
    async with simulated_gitlab.simulated_gitlab() as gitlab:
        tracker = gitlab.tracker()
        ticket = await tracker.get(gitlab.issue("old", "bug"))
        await tracker.relabel(ticket, add=["a b", "c"], remove=["old", "Bug"], deadline=soon())
        await tracker.say(ticket, "/close", deadline=soon())
        issue = "/api/v4/projects/acme%2Fapps%2Fweb/issues/1"
        assert written(gitlab.recorded()) == [
            ("PUT", issue, {"add_labels": "a b,c", "remove_labels": "old"}),
            ("POST", f"{issue}/notes", {"body": "\u200b/close"}),
        ]
        assert gitlab.labels("1") == {"a b", "bug", "c"}


async def test_azure_writes_all_tags_under_the_test_of_the_revision() -> None:
    async with simulated_azuredevops.simulated_azuredevops() as azure:
        tracker = azure.tracker()
        ticket = await tracker.get(azure.item("old", "bug", "agent-smith:done"))
        await tracker.relabel(ticket, add=["a b"], remove=["OLD"], deadline=soon())
        await tracker.say(ticket, "a < b & <c", deadline=soon())
        root = "/acme/Web/_apis/wit"
        assert written(azure.recorded()) == [
            (
                "PATCH",
                f"{root}/workitems/1?api-version=7.1",
                [
                    {"op": "test", "path": "/rev", "value": 1},
                    {"op": "replace", "path": "/fields/System.Tags", "value": "agent-smith:done; bug; a b"},
                ],
            ),
            (
                "POST",
                f"{root}/workItems/1/comments?api-version=7.1-preview.4&format=markdown",
                {"text": "a &lt; b &amp; &lt;c"},
            ),
        ]


@pytest.mark.parametrize("cloud", [True, False])
async def test_jira_sends_one_edit_and_plain_text(cloud: bool) -> None:
    async with simulated_jira.simulated_jira(cloud=cloud) as jira:
        tracker = jira.tracker()
        ticket = await tracker.get(jira.issue("old", "bug"))
        await tracker.relabel(ticket, add=["a", "b"], remove=["old"], deadline=soon())
        await tracker.say(ticket, "see [~mona]", deadline=soon())
        edit, comment = written(jira.recorded())
        assert (edit[0], edit[2]) == ("PUT", {"update": {"labels": [{"add": "a"}, {"add": "b"}, {"remove": "old"}]}})
        plain = {"type": "paragraph", "content": [{"type": "text", "text": "see [~mona]"}]}
        document = {"version": 1, "type": "doc", "content": [plain]}
        path = f"{jira.api}/issue/WEB-1/comment"
        assert comment == ("POST", path, {"body": document if cloud else r"see \[\~mona\]"})


async def test_a_write_that_is_dropped_in_silence_is_a_refusal() -> None:
    async with simulated_github.simulated_github() as github:
        tracker = github.tracker()
        ticket = await tracker.get(github.issue("bug"))
        github.fail("silent_permission_loss", times=None)
        for change in ({"add": ["x"]}, {"remove": ["bug"]}):
            with pytest.raises(Refused, match="label"):
                await tracker.relabel(ticket, **change, deadline=soon())
    async with simulated_gitlab.simulated_gitlab() as gitlab:
        other = gitlab.tracker()
        ticket = await other.get(gitlab.issue("bug"))
        gitlab.fail("silent_permission_loss")
        with pytest.raises(Refused, match="may not write labels"):
            await other.relabel(ticket, add=["x"], deadline=soon())
    async with simulated_azuredevops.simulated_azuredevops() as azure:
        third = azure.tracker()
        ticket = await third.get(azure.item("bug"))
        azure.fail("silent_permission_loss")
        with pytest.raises(Refused, match="may not write"):
            await third.relabel(ticket, add=["x"], deadline=soon())
    async with simulated_jira.simulated_jira() as jira:
        fourth = jira.tracker()
        ticket = await fourth.get(jira.issue("bug"))
        jira.fail("silent_permission_loss")
        with pytest.raises(Refused, match="did not change the label x"):
            await fourth.relabel(ticket, add=["x"], deadline=soon())


async def test_gitlab_labels_that_share_our_scope_are_refused() -> None:
    async with simulated_gitlab.simulated_gitlab(premium=True) as gitlab:
        tracker = gitlab.tracker(style=LabelStyle.SCOPED)
        ticket = await tracker.get(gitlab.issue("agent-smith::done"))
        for label in ("agent-smith::failed", "agent-smith:failed", "agent-smith::anything", "Agent-Smith::x"):
            with pytest.raises(ConfigError, match="lifecycle"):
                await tracker.relabel(ticket, add=[label], deadline=soon())
        await tracker.relabel(ticket, add=["team::blue", "agent-smith:bug"], deadline=soon())
        assert gitlab.labels("1") == {"agent-smith::done", "team::blue", "agent-smith:bug"}


async def test_gitlab_a_label_that_another_write_took_away_is_written_again() -> None:
    async with simulated_gitlab.simulated_gitlab() as gitlab:
        tracker = gitlab.tracker()
        ticket = await tracker.get(gitlab.issue("bug", "old"))
        gitlab.fail("label_survives")
        after = await tracker.relabel(ticket, add=["new"], remove=["old"], deadline=soon())
        assert after.labels == {"bug", "new"} == gitlab.labels("1")


async def test_azure_a_race_is_tried_again_and_a_bad_tag_is_told() -> None:
    async with simulated_azuredevops.simulated_azuredevops() as azure:
        tracker = azure.tracker()
        ticket = await tracker.get(azure.item("bug"))
        azure.fail("revision_race", times=2)
        await tracker.relabel(ticket, add=["new"], deadline=soon())
        assert azure.tags("1") == {"bug", "new"}
        for tag in ("@me", "🧵"):
            with pytest.raises(ConfigError, match="Azure DevOps takes no tag"):
                await tracker.relabel(ticket, add=[tag], deadline=soon())


async def test_jira_a_conflict_is_tried_again_and_a_space_is_told() -> None:
    async with simulated_jira.simulated_jira() as jira:
        tracker = jira.tracker()
        ticket = await tracker.get(jira.issue("bug"))
        jira.fail("label_conflict", times=2)
        after = await tracker.relabel(ticket, add=["new"], remove=["bug"], deadline=soon())
        assert after.labels == {"new"}
        with pytest.raises(ConfigError, match="no spaces"):
            await tracker.relabel(ticket, add=["two words"], deadline=soon())
