"""Microsoft's own client for Python works against the simulator unchanged."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

import pytest

from agentsmith.simulators import Running, serve
from agentsmith.simulators.azuredevops import AzureDevOpsSimulator
from tests.support.azuredevops_judge import AzureDevOpsJudge

pytest.importorskip("azure.devops")

TOKEN = "pat-of-smith-0123456789"


@pytest.fixture
def azure() -> AzureDevOpsSimulator:
    simulator = AzureDevOpsSimulator()
    simulator.add_project("Fabrikam Fiber")
    simulator.add_token(TOKEN, user="smith@example.com")
    return simulator


@pytest.fixture
async def running(azure: AzureDevOpsSimulator) -> AsyncIterator[Running]:
    async with serve(azure) as started:
        yield started
    azure.assert_understood()


def client_of(running: Running, token: str = TOKEN, *, kind: str = "work_item_tracking") -> Any:
    """A client, as its readme makes it; without its cache on disk."""
    files = import_module("azure.devops._file_cache")
    for cache in (files.OPTIONS_CACHE, files.RESOURCE_CACHE):
        cache.clear()
    login = import_module("msrest.authentication").BasicAuthentication("", token)
    connection = import_module("azure.devops.connection").Connection(base_url=f"{running.url}/acme", creds=login)
    return getattr(connection.clients_v7_1, f"get_{kind}_client")()


async def in_thread(work: Any) -> Any:
    """Run blocking code while the simulator goes on being served."""
    assert threading.current_thread() is threading.main_thread()
    return await asyncio.to_thread(work)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_tour_by_microsofts_own_client(azure: AzureDevOpsSimulator, running: Running) -> None:
    failure = import_module("azure.devops.exceptions").AzureDevOpsServiceError
    models = import_module("azure.devops.v7_1.work_item_tracking.models")
    project = "Fabrikam Fiber"

    def tour() -> None:
        client = client_of(running)

        def op(kind: str, path: str, value: Any) -> Any:
            return models.JsonPatchOperation(op=kind, path=path, value=value)

        made = client.create_work_item([op("add", "/fields/System.Title", "Made by a client")], project, "Bug")
        assert (made.rev, made.fields["System.Title"]) == (1, "Made by a client")
        tags = [op("test", "/rev", 1), op("add", "/fields/System.Tags", "a; b")]
        assert client.update_work_item(tags, made.id, project).fields["System.Tags"] == "a; b"
        with pytest.raises(failure, match="VS403351"):
            client.update_work_item(tags, made.id, project)
        assert client.get_work_item(made.id, expand="relations").rev == 2
        assert [w.id for w in client.get_work_items([made.id], project, fields=["System.Tags"])] == [made.id]
        request = models.WorkItemBatchGetRequest(ids=[made.id], fields=["System.Id"], error_policy="omit")
        assert client.get_work_items_batch(request, project)[0].fields == {"System.Id": made.id}
        text = "SELECT [System.Id] FROM WorkItems WHERE [System.Tags] CONTAINS 'B'"
        found = client.query_by_wiql(models.Wiql(query=text), models.TeamContext(project=project), top=5)
        assert [hit.id for hit in found.work_items] == [made.id]
        comment = client.add_comment(models.CommentCreate(text="hello <!-- gone -->"), project, made.id)
        assert comment.text == "hello "
        client.update_comment(models.CommentUpdate(text="edited"), project, made.id, comment.id)
        assert [c.text for c in client.get_comments(project, made.id).comments] == ["edited"]
        updates = client.get_updates(made.id, project)
        assert updates[1].fields["System.Tags"].new_value == "a; b"
        assert updates[1].revised_by.unique_name == "smith@example.com"
        assert [r.rev for r in client.get_revisions(made.id, project)] == [1, 2, 3, 4]
        states = client.get_work_item_type_states(project, "Bug")
        assert {s.category for s in states} == {"Proposed", "InProgress", "Resolved", "Completed"}
        assert "Task" in {t.name for t in client.get_work_item_types(project)}
        with pytest.raises(failure, match="TF401232"):
            client.get_work_item(4711)

    await in_thread(tour)
    assert azure.comments(1) == [{"id": 7001, "user": "smith@example.com", "text": "edited"}]


async def test_answers_to_microsofts_client_are_what_was_published(
    azure: AzureDevOpsSimulator, running: Running
) -> None:
    judge = AzureDevOpsJudge(judge_requests=False)
    number = azure.open_item("Fabrikam Fiber", tags=["a"])
    azure.comment(number, "hi")

    def look() -> None:
        client = client_of(running)
        client.get_work_item(number, "Fabrikam Fiber")
        client.get_updates(number, "Fabrikam Fiber")
        client.get_revisions(number, "Fabrikam Fiber")

    await in_thread(look)
    for entry in azure.requests:
        judge.check_recorded(entry)
    assert judge.judged == 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_pull_requests_by_microsofts_own_client(azure: AzureDevOpsSimulator, running: Running) -> None:
    failure = import_module("azure.devops.exceptions").AzureDevOpsServiceError
    models = import_module("azure.devops.v7_1.git.models")
    project = "Fabrikam Fiber"
    number = azure.open_item(project)
    azure.push(project, "topic", {"new.txt": "new\n"})

    def tour() -> None:
        client = client_of(running, kind="git")
        assert [r.name for r in client.get_repositories(project)] == [project]
        assert client.get_repository(project, project).default_branch == "refs/heads/main"

        def wanted(**more: Any) -> Any:
            refs = {"source_ref_name": "refs/heads/topic", "target_ref_name": "refs/heads/main"}
            return models.GitPullRequest(**{**refs, "title": "T", "description": "x" * 1000, **more})

        linked = wanted(is_draft=True, work_item_refs=[models.ResourceRef(id=str(number))])
        made = client.create_pull_request(linked, project, project)
        assert (made.is_draft, made.status) == (True, "active")
        with pytest.raises(failure, match="TF401179"):
            client.create_pull_request(wanted(), project, project)
        with pytest.raises(failure, match="TF401398"):
            client.create_pull_request(wanted(source_ref_name="refs/heads/none"), project, project)
        with pytest.raises(failure, match="must not be longer than 4000 characters"):
            client.create_pull_request(wanted(description="x" * 4001), project, project)
        criteria = models.GitPullRequestSearchCriteria(status="active", source_ref_name="refs/heads/topic")
        (found,) = client.get_pull_requests(project, criteria, project)
        assert len(found.description) == 400
        assert len(client.get_pull_request_by_id(made.pull_request_id).description) == 1000
        assert [ref.id for ref in client.get_pull_request_work_item_refs(project, made.pull_request_id, project)] == [
            str(number)
        ]
        change = models.GitPullRequest(title="U", is_draft=False)
        client.update_pull_request(change, project, made.pull_request_id, project)
        whole = client.get_pull_request(project, made.pull_request_id, project, include_work_item_refs=True)
        assert (whole.title, whole.is_draft, [ref.id for ref in whole.work_item_refs]) == ("U", False, [str(number)])
        client.update_pull_request(models.GitPullRequest(status="abandoned"), project, made.pull_request_id, project)
        client.create_pull_request(wanted(title="Once more"), project, project)
        with pytest.raises(failure, match="TF401019"):
            client.get_repository("none", project)

    await in_thread(tour)
    shown = [(p["state"], p["title"], p["items"]) for p in azure.pull_requests(project)]
    assert shown == [("abandoned", "U", [number]), ("active", "Once more", [])]
    judge = AzureDevOpsJudge(judge_requests=False)
    for entry in azure.requests:
        judge.check_recorded(entry)
    assert judge.judged == 10
