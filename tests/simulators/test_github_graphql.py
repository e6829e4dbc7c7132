"""The GraphQL endpoint: identity, labels in one request, and errors as GitHub words them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from agentsmith.simulators import Fault, Running
from agentsmith.simulators.github import GitHubSimulator

REPO = "acme/web"
MOVE = """
mutation Move($issue: ID!, $to: [ID!]!, $from: [ID!]!) {
  added: addLabelsToLabelable(input: {labelableId: $issue, labelIds: $to}) { clientMutationId }
  removed: removeLabelsFromLabelable(input: {labelableId: $issue, labelIds: $from, clientMutationId: "m1"}) {
    clientMutationId
    labelable { __typename ... on Issue { number labels(first: 100) { nodes { ...named } totalCount } } }
  }
}
fragment named on Label { id name }
"""


class Graph:
    """Asks the endpoint."""

    def __init__(self, api: httpx.AsyncClient, url: str) -> None:
        self.api, self.url = api, url

    async def __call__(self, query: object, **variables: Any) -> dict[str, Any]:
        answer = await self.api.post(self.url, json={"query": query, "variables": variables})
        assert answer.status_code == 200
        body: dict[str, Any] = answer.json()
        return body


@pytest.fixture
def ask(api: httpx.AsyncClient, running: Running) -> Graph:
    return Graph(api, f"{running.url}/graphql")


async def test_who_am_i(ask: Graph, hub: GitHubSimulator) -> None:
    body = await ask("query { viewer { login databaseId __typename } }")
    identity = hub.hub.world.user("smith-bot").id
    assert body == {"data": {"viewer": {"login": "smith-bot", "databaseId": identity, "__typename": "User"}}}
    assert hub.requests[0].counted
    assert (await ask("{ rateLimit { limit remaining cost } }"))["data"]["rateLimit"]["remaining"] == 4999


async def ids(ask: Graph, number: int) -> tuple[str, dict[str, str]]:
    query = """query Find($owner: String!, $name: String!, $number: Int!) {
      repository(owner: $owner, name: $name) {
        id databaseId nameWithOwner
        issue(number: $number) { id databaseId title state closed url author { login } updatedAt }
        labels(first: 100) { nodes { id name } pageInfo { hasNextPage } }
        missing: label(name: "no such") { id }
      } }"""
    body = await ask(query, owner="acme", name="web", number=number)
    repository = body["data"]["repository"]
    assert repository["missing"] is None
    assert repository["issue"]["author"] == {"login": "mona"}
    labels = {label["name"]: label["id"] for label in repository["labels"]["nodes"]}
    return repository["issue"]["id"], labels


async def test_one_request_moves_a_label(ask: Graph, hub: GitHubSimulator) -> None:
    hub.open_issue(REPO, labels=["to"])
    number = hub.open_issue(REPO, labels=["from", "foreign"])
    issue, labels = await ids(ask, number)
    body = await ask(MOVE, issue=issue, to=[labels["to"]], **{"from": [labels["from"]]})
    assert body["data"]["added"] == {"clientMutationId": None}
    removed = body["data"]["removed"]
    assert removed["clientMutationId"] == "m1"
    assert removed["labelable"]["__typename"] == "Issue"
    assert [label["name"] for label in removed["labelable"]["labels"]["nodes"]] == ["foreign", "to"]
    assert hub.labels(REPO, number) == ["foreign", "to"]
    assert "errors" not in body
    # Removing what is not there is no error here, unlike in REST.
    assert "errors" not in await ask(MOVE, issue=issue, to=[labels["to"]], **{"from": [labels["from"]]})


async def test_mutations_are_no_transaction(ask: Graph, hub: GitHubSimulator) -> None:
    number = hub.open_issue(REPO, labels=["from"])
    hub.open_issue(REPO, labels=["to"])
    issue, labels = await ids(ask, number)
    body = await ask(MOVE, issue=issue, to=[labels["to"]], **{"from": ["LA_999999"]})
    assert body["data"]["removed"] is None
    (error,) = body["errors"]
    assert (error["type"], error["path"]) == ("NOT_FOUND", ["removed"])
    assert hub.labels(REPO, number) == ["from", "to"]


async def test_permissions(ask: Graph, hub: GitHubSimulator) -> None:
    number = hub.open_issue(REPO, labels=["from", "to"])
    issue, labels = await ids(ask, number)
    given = {"issue": issue, "to": [labels["to"]], "from": [labels["from"]]}
    hub.inject(Fault("silent_permission_loss"))
    assert "errors" not in await ask(MOVE, **given)
    assert hub.labels(REPO, number) == ["from", "to"]
    hub.set_permission(REPO, "smith-bot", "read")
    body = await ask(MOVE, **given)
    assert {error["type"] for error in body["errors"]} == {"FORBIDDEN"}
    hub.set_permission(REPO, "smith-bot", "none")
    body = await ask('{ repository(owner: "acme", name: "web") { id } }')
    assert body["errors"][0]["type"] == "NOT_FOUND"


async def test_nodes(ask: Graph, hub: GitHubSimulator) -> None:
    number = hub.open_issue(REPO, labels=["a"])
    pull = hub.open_pull_request(REPO)
    issue, labels = await ids(ask, number)
    query = "query($id: ID!) { node(id: $id) { id __typename ... on Label { name } ... on Issue { number } } }"
    assert (await ask(query, id=labels["a"]))["data"]["node"]["name"] == "a"
    assert (await ask(query, id=issue))["data"]["node"]["number"] == number
    identity = f"PR_{hub.issue(REPO, pull).id}"
    assert (await ask(query, id=identity))["data"]["node"] == {"id": identity, "__typename": "PullRequest"}
    repository = f"R_{hub.repository(REPO).id}"
    assert (await ask(query, id=repository))["data"]["node"]["id"] == repository
    assert (await ask(query, id="nonsense"))["errors"][0]["type"] == "NOT_FOUND"
    old = 'query { repository(owner: "acme", name: "web") { nameWithOwner } }'
    hub.rename_repository(REPO, "site")
    assert (await ask(old))["data"]["repository"]["nameWithOwner"] == "acme/site"


async def test_labels_need_a_page_size(ask: Graph, hub: GitHubSimulator) -> None:
    number = hub.open_issue(REPO, labels=["a", "b"])
    query = 'query($n: Int!, $f: Int) {repository(owner:"acme",name:"web"){issue(number:$n){labels(first:$f)'
    tail = "{nodes{name} pageInfo{hasNextPage}}}}}"
    first = await ask(query + tail, n=number, f=1)
    shown = first["data"]["repository"]["issue"]["labels"]
    assert shown == {"nodes": [{"name": "a"}], "pageInfo": {"hasNextPage": True}}
    none = await ask(query + tail, n=number)
    assert none["errors"][0]["type"] == "MISSING_PAGINATION_BOUNDARIES"
    assert (await ask(query + tail, n=99, f=1))["errors"][0]["type"] == "NOT_FOUND"


@pytest.mark.parametrize(
    "query",
    [
        None,
        "",
        "{",
        "{ }",
        "subscription { x }",
        "{ viewer { login",
        "query($x: Int = 1) { viewer { login } }",
        "query($x: [ID!]!) { viewer { login } }",
        "query A { viewer { login } } query B { viewer { login } }",
        "{ viewer { login } } ~",
        "{ node(id: }) { id } }",
    ],
)
async def test_documents_that_cannot_be_read(ask: Graph, hub: GitHubSimulator, query: object) -> None:
    body = await ask(query)
    assert body["errors"][0]["message"]
    assert "data" not in body
    assert not hub.unknown_requests


@pytest.mark.parametrize(
    "query",
    [
        "{ viewer { login bio } }",
        "{ viewer }",
        "{ viewer { login { x } } }",
        "{ nonsense }",
        "{ ... on Martian { id } }",
        "{ viewer { ...unknown } }",
    ],
)
async def test_fields_nobody_knows_fail_the_test(ask: Graph, hub: GitHubSimulator, query: str) -> None:
    assert "doesn't exist on type" in (await ask(query))["errors"][0]["message"]
    assert len(hub.unknown_requests) == 1


async def test_arguments_of_all_kinds(ask: Graph) -> None:
    query = '# comment\n{ node(id: """ x """, a: 1.5, b: true, c: null, d: [1, "é\\n"], e: {f: ENUM}) { id } }'
    assert (await ask(query))["errors"][0]["message"].endswith("'x'")


async def test_the_named_operation_runs(api: httpx.AsyncClient, running: Running) -> None:
    query = "query A { viewer { login } } query B { viewer { databaseId } }"
    answer = await api.post(f"{running.url}/graphql", json={"query": query, "operationName": "A"})
    assert answer.json() == {"data": {"viewer": {"login": "smith-bot"}}}
    answer = await api.post(f"{running.url}/graphql", json={"query": query, "operationName": "C"})
    assert "No operation named" in answer.json()["errors"][0]["message"]


async def test_the_limit_speaks_graphql(ask: Graph, hub: GitHubSimulator) -> None:
    hub.inject(Fault("primary_limit"))
    assert (await ask("{ viewer { login } }"))["errors"][0]["type"] == "RATE_LIMITED"
    assert hub.requests[-1].answer_headers["x-ratelimit-remaining"] == "0"
    assert hub.requests[-1].answer_headers["x-ratelimit-resource"] == "graphql"
