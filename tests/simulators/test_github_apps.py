"""GitHub Apps: the JWT must be right, the tokens expire, and nobody may count on their length."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from agentsmith.simulators import Running
from agentsmith.simulators.github import GitHubSimulator

REPO = "acme/web"
NOW = 1_800_000_000


@pytest.fixture(scope="session")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="session")
def public_key(key: rsa.RSAPrivateKey) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


@pytest.fixture
def app(hub: GitHubSimulator, public_key: str) -> dict[str, Any]:
    return hub.add_app("agent-smith", public_key)


@pytest.fixture
async def plain(running: Running) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=running.api_url, trust_env=False) as client:
        yield client


def signed(key: rsa.RSAPrivateKey, issuer: object, **changes: object) -> dict[str, str]:
    claims = {"iat": NOW - 60, "exp": NOW + 540, "iss": str(issuer)} | changes
    return {"Authorization": f"Bearer {jwt.encode(claims, key, algorithm='RS256')}"}


async def test_the_app_knows_itself(app: dict[str, Any], key: rsa.RSAPrivateKey, plain: httpx.AsyncClient) -> None:
    for issuer in (app["id"], app["client_id"]):
        body = (await plain.get("/app", headers=signed(key, issuer))).json()
        assert (body["id"], body["slug"]) == (app["id"], "agent-smith")


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"exp": NOW + 700}, "too far in the future"),
        ({"exp": NOW - 1}, "future time"),
        ({"iat": NOW + 120}, "'Issued at'"),
        ({"iat": None}, "'Issued at'"),
    ],
)
async def test_times_are_checked(
    app: dict[str, Any],
    key: rsa.RSAPrivateKey,
    plain: httpx.AsyncClient,
    claims: dict[str, object],
    words: str,
) -> None:
    answer = await plain.get("/app", headers=signed(key, app["id"], **claims))
    assert answer.status_code == 401
    assert words in answer.json()["message"]


async def test_strangers_and_forgers(app: dict[str, Any], key: rsa.RSAPrivateKey, plain: httpx.AsyncClient) -> None:
    forger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    forged = await plain.get("/app", headers=signed(forger, app["id"]))
    assert forged.status_code == 401
    assert "could not be decoded" in forged.json()["message"]
    assert (await plain.get("/app", headers=signed(key, 4711))).status_code == 404
    nonsense = await plain.get("/app", headers={"Authorization": "Bearer nonsense"})
    assert nonsense.status_code == 401
    confused = await plain.get("/user", headers=signed(key, app["id"]))
    assert confused.json()["message"] == "Bad credentials"


async def test_installation_tokens(
    hub: GitHubSimulator, app: dict[str, Any], key: rsa.RSAPrivateKey, plain: httpx.AsyncClient
) -> None:
    installation = hub.install_app(app["id"])
    number = hub.open_issue(REPO)
    tokens = []
    for _ in range(4):
        made = await plain.post(f"/app/installations/{installation}/access_tokens", headers=signed(key, app["id"]))
        assert made.status_code == 201
        assert made.json()["expires_at"] == "2027-01-15T09:00:00Z"
        tokens.append(made.json()["token"])
    assert all(token.startswith("ghs_") for token in tokens)
    assert len({len(token) for token in tokens}) >= 3
    assert tokens[0] not in repr(hub.requests)
    headers = {"Authorization": f"Bearer {tokens[1]}"}
    path = f"/repos/{REPO}/issues/{number}"
    assert (await plain.post(f"{path}/labels", json={"labels": ["x"]}, headers=headers)).status_code == 200
    (event,) = (await plain.get(f"{path}/events", headers=headers)).json()
    assert event["actor"]["login"] == "agent-smith[bot]"
    assert event["actor"]["type"] == "Bot"
    assert event["performed_via_github_app"]["slug"] == "agent-smith"
    query = {"query": "{ viewer { login __typename } }"}
    viewer = (await plain.post("/graphql", json=query, headers=headers)).json()["data"]["viewer"]
    assert viewer == {"login": "agent-smith[bot]", "__typename": "Bot"}
    user = await plain.get("/user", headers=headers)
    assert (user.status_code, user.json()["message"]) == (403, "Resource not accessible by integration")
    hub.clock.advance(3600)
    assert (await plain.get(path, headers=headers)).status_code == 401


async def test_installations_are_limited(
    hub: GitHubSimulator, app: dict[str, Any], key: rsa.RSAPrivateKey, plain: httpx.AsyncClient
) -> None:
    hub.add_repository("acme/other")
    installation = hub.install_app(app["id"], permissions={"issues": "read"}, repositories=[REPO])
    headers = signed(key, app["id"])
    address = f"/app/installations/{installation}"
    assert (await plain.get(f"/repos/{REPO}/installation", headers=headers)).json()["id"] == installation
    assert (await plain.get("/repos/acme/other/installation", headers=headers)).status_code == 404
    assert [i["id"] for i in (await plain.get("/app/installations", headers=headers)).json()] == [installation]
    assert (await plain.get(address, headers=headers)).json()["repository_selection"] == "selected"
    assert (await plain.get("/app/installations/1", headers=headers)).status_code == 404
    wider = {"permissions": {"contents": "write"}}
    assert (await plain.post(f"{address}/access_tokens", json=wider, headers=headers)).status_code == 422
    narrower = {"repositories": ["web"]}
    made = (await plain.post(f"{address}/access_tokens", json=narrower, headers=headers)).json()
    with_token = {"Authorization": f"token {made['token']}"}
    number = hub.open_issue(REPO)
    path = f"/repos/{REPO}/issues/{number}"
    assert (await plain.get(path, headers=with_token)).status_code == 200
    refused = await plain.post(f"{path}/labels", json={"labels": ["x"]}, headers=with_token)
    assert refused.json()["message"] == "Resource not accessible by integration"
    assert (await plain.get("/repos/acme/other/issues", headers=with_token)).status_code == 404
    hub.suspend_installation(installation)
    suspended = await plain.post(f"{address}/access_tokens", headers=headers)
    assert suspended.status_code == 403
