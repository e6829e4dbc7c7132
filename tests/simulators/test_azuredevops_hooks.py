"""Service hooks of the Azure DevOps simulator: shape, authentication, retries, probation."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentsmith.simulators import Clock, Fault, serve
from agentsmith.simulators.azuredevops import AzureDevOpsSimulator
from agentsmith.simulators.azuredevops.hooks import PROBATION_DELAY, PROBATION_TRIES, QUICK_DELAY, QUICK_TRIES
from tests.simulators.conftest import START, TLS
from tests.simulators.test_payload_shapes import missing
from tests.support.receiver import Receiver, receiving

PUBLISHED = Path(__file__).resolve().parents[2] / ".." / "shared" / "webhooks" / "azure"
TOKEN = "pat-of-smith-0123456789"


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as started:
        yield started


@pytest.fixture
def azure() -> AzureDevOpsSimulator:
    simulator = AzureDevOpsSimulator(clock=Clock(START), delivery_timeout=2.0)
    simulator.add_project("Web")
    simulator.add_token(TOKEN)
    return simulator


async def test_a_delivery_is_authenticated_and_tells_the_difference(
    azure: AzureDevOpsSimulator, receiver: Receiver
) -> None:
    azure.subscribe("Web", receiver.url, username="smith", password="s3cret", headers={"X-Token": "abc"})
    number = azure.open_item("Web", tags=["bug", "todo"])
    azure.remove_tag(number, "todo", "bob@example.com")
    await azure.outbox.settle()
    (request,) = receiver.requests
    assert request.headers["authorization"] == f"Basic {base64.b64encode(b'smith:s3cret').decode()}"
    assert request.headers["x-token"] == "abc"
    body = request.json
    assert (body["eventType"], body["publisherId"], body["notificationId"]) == ("workitem.updated", "tfs", 1)
    resource = body["resource"]
    assert (resource["id"], resource["workItemId"], resource["rev"]) == (2, number, 2)
    assert resource["fields"]["System.Tags"] == {"oldValue": "bug; todo", "newValue": "bug"}
    assert resource["revision"]["id"] == number
    assert resource["revision"]["fields"]["System.Tags"] == "bug"
    assert resource["revisedBy"]["uniqueName"] == "bob@example.com"


@pytest.mark.parametrize(
    ("event", "file"),
    [
        ("workitem.updated", "rfennell.workitem.updated.json"),
        ("workitem.updated", "DERIVED-by-us.workitem.updated.tags.json"),
        ("workitem.created", "docs.workitem.created.json"),
        ("workitem.commented", "docs.workitem.commented.json"),
    ],
)
async def test_payloads_have_every_key_that_the_published_ones_have(
    azure: AzureDevOpsSimulator, receiver: Receiver, event: str, file: str
) -> None:
    if not PUBLISHED.is_dir():
        pytest.skip(f"NOT COMPARED: the published payloads are not at {PUBLISHED}")
    azure.subscribe("Web", receiver.url, event=event)
    number = azure.open_item("Web", tags=["a"])
    azure.clock.advance(7)
    azure.add_tag(number, "b")
    azure.comment(number, "hi")
    await azure.outbox.settle()
    published = json.loads((PUBLISHED / file).read_text())
    lacking = missing(published, receiver.requests[0].json)
    # Fields of a process that is not ours, numbers that a hand-made sample wrote as text, and its own remark.
    odd = ("Severity", "Kanban", "System.Reason", "System.AssignedTo", "System.State", "_note", " instead of ")
    assert [key for key in lacking if not any(part in key for part in odd)] == []


async def test_filters(azure: AzureDevOpsSimulator, receiver: Receiver) -> None:
    azure.add_project("Other")
    azure.subscribe("Web", receiver.url, filters={"changedFields": "System.Tags", "workItemType": "Bug", "tag": "b"})
    bug, task = azure.open_item("Web", type="Bug"), azure.open_item("Web")
    azure.edit_item(bug, title="not a tag")
    azure.add_tag(task, "b")
    azure.add_tag(bug, "a")
    azure.add_tag(azure.open_item("Other", type="Bug"), "b")
    azure.add_tag(bug, "b")
    await azure.outbox.settle()
    assert [r.json["resource"]["fields"]["System.Tags"]["newValue"] for r in receiver.requests] == ["a; b"]


@pytest.mark.parametrize("status", [408, 502, 503, 504])
async def test_a_receiver_that_is_busy_is_asked_eight_times_more(
    azure: AzureDevOpsSimulator, receiver: Receiver, status: int
) -> None:
    receiver.status = status
    hook = azure.subscribe("Web", receiver.url)
    azure.add_tag(azure.open_item("Web"), "x")
    for _ in range(QUICK_TRIES):
        await azure.outbox.settle()
        assert azure.hook_status(hook) == "enabled"
        azure.clock.advance(QUICK_DELAY)
    await azure.outbox.settle()
    assert len(receiver.requests) == QUICK_TRIES + 1
    assert len({r.json["id"] for r in receiver.requests}) == 1
    assert azure.hook_status(hook) == "onProbation"


@pytest.mark.parametrize("status", [400, 401, 404, 500])
async def test_any_other_error_is_probation_and_new_events_are_lost(
    azure: AzureDevOpsSimulator, receiver: Receiver, status: int
) -> None:
    receiver.status = status
    hook = azure.subscribe("Web", receiver.url)
    number = azure.open_item("Web")
    azure.add_tag(number, "x")
    await azure.outbox.settle()
    assert azure.hook_status(hook) == "onProbation"
    azure.add_tag(number, "lost")
    azure.clock.advance(60)
    await azure.outbox.settle()
    assert len(receiver.requests) == 1
    assert azure.hooks.subscriptions[hook].lost == 1
    receiver.status = 200
    azure.clock.advance(PROBATION_DELAY)
    await azure.outbox.settle()
    assert (len(receiver.requests), azure.hook_status(hook)) == (2, "enabled")
    azure.add_tag(number, "heard")
    await azure.outbox.settle()
    assert len(receiver.requests) == 3


async def test_probation_ends_in_being_disabled(azure: AzureDevOpsSimulator, receiver: Receiver) -> None:
    receiver.status = 500
    hook = azure.subscribe("Web", receiver.url)
    azure.add_tag(azure.open_item("Web"), "x")
    for _ in range(PROBATION_TRIES + 1):
        await azure.outbox.settle()
        azure.clock.advance(PROBATION_DELAY)
    assert (len(receiver.requests), azure.hook_status(hook)) == (PROBATION_TRIES + 1, "disabledBySystem")


async def test_a_repeated_delivery_that_fails_is_sent_again_like_any_other(
    azure: AzureDevOpsSimulator, receiver: Receiver
) -> None:
    receiver.status = 503
    azure.inject(Fault("webhook_repeated"))
    azure.subscribe("Web", receiver.url)
    azure.add_tag(azure.open_item("Web"), "x")
    await azure.outbox.settle()
    assert len(receiver.requests) == 2
    receiver.status = 200
    azure.clock.advance(QUICK_DELAY)
    await azure.outbox.settle()
    assert len(receiver.requests) == 4


async def test_410_disables_at_once(azure: AzureDevOpsSimulator, receiver: Receiver) -> None:
    receiver.status = 410
    hook = azure.subscribe("Web", receiver.url)
    azure.add_tag(azure.open_item("Web"), "x")
    await azure.outbox.settle()
    assert azure.hook_status(hook) == "disabledBySystem"
    assert azure.outbox.held == []


async def test_subscriptions_over_the_api(azure: AzureDevOpsSimulator, receiver: Receiver) -> None:
    project = azure.hub.world.project("Web").id
    body: dict[str, Any] = {
        "publisherId": "tfs",
        "eventType": "workitem.updated",
        "resourceVersion": "1.0",
        "consumerId": "webHooks",
        "consumerActionId": "httpRequest",
        "publisherInputs": {"projectId": project, "changedFields": "System.Tags"},
        "consumerInputs": {"url": receiver.url, "basicAuthUsername": "u", "basicAuthPassword": "hunter22"},
    }
    async with serve(azure) as running, httpx.AsyncClient(auth=("", TOKEN), verify=TLS) as client:
        url, params = f"{running.url}/acme/_apis/hooks/subscriptions", {"api-version": "7.1"}
        made = (await client.post(url, params=params, json=body)).json()
        assert made["status"] == "enabled"
        assert made["consumerInputs"]["basicAuthPassword"] == "********"
        assert "hunter22" not in str(azure.requests)
        azure.add_tag(azure.open_item("Web"), "x")
        await azure.outbox.settle()
        assert receiver.requests[0].headers["authorization"] == f"Basic {base64.b64encode(b'u:hunter22').decode()}"
        azure.hooks.subscriptions[made["id"]].status = "disabledBySystem"
        again = {**body, "status": "enabled"}
        assert (await client.put(f"{url}/{made['id']}", params=params, json=again)).json()["status"] == "enabled"
        assert azure.hooks.subscriptions[made["id"]].password == "hunter22"
        assert (await client.get(url, params=params)).json()["count"] == 1
        assert (await client.delete(f"{url}/{made['id']}", params=params)).status_code == 200
        assert (await client.get(f"{url}/{made['id']}", params=params)).status_code == 404
        bad = {**body, "consumerId": "slack"}
        assert (await client.post(url, params=params, json=bad)).status_code == 400
    azure.assert_understood()
