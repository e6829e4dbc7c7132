"""A GitHub App instead of a token: signed, exchanged, renewed in time, and never twice at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from agentsmith.boottime import boottime
from agentsmith.domain.errors import ConfigError, Refused, TrackerUnavailable, Unauthorized
from agentsmith.simulators.clock import Clock
from agentsmith.trackers.github.auth import AppKey, Token
from agentsmith.trackers.github.login import AppLogin
from agentsmith.trackers.http import LocalLedger, Pace, Shared
from tests.support.edges import CLAIM, MEMO, TRIGGER, applied, edge
from tests.support.simulated_github import REPOSITORY, SimulatedGitHub, simulated_github


def new_key() -> tuple[str, str]:
    """A private key and its public half, as PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private.decode(), public.decode()


PRIVATE, PUBLIC = new_key()


class Registered:
    """An App on the simulator, and a boot-time clock that jumps with the simulated one."""

    def __init__(self, github: SimulatedGitHub) -> None:
        self.github = github
        self.app = github.simulator.apps.add("smith", PUBLIC, "acme")
        self.installation = github.simulator.apps.install(self.app, None, None)
        self.ahead = 0.0
        self.pace = Pace(first_delay=0.001, longest_delay=0.002, now=lambda: boottime() + self.ahead)

    def login(self, key: str = PRIVATE) -> AppLogin:
        """How the App authenticates."""
        return AppLogin(self.app.client_id, str(self.installation.id), key)

    def pass_time(self, seconds: float) -> None:
        """On both sides; the wall clock of this machine stays behind, as a wrong clock does."""
        self.ahead += seconds
        self.github.simulator.clock.advance(seconds)


@pytest.fixture
async def app() -> AsyncIterator[Registered]:
    async with simulated_github(clock=Clock()) as github:
        yield Registered(github)


def exchanges(github: SimulatedGitHub) -> int:
    """How many tokens were fetched."""
    return sum(line.startswith("POST /app/installations/") for line in github.sent())


async def test_an_app_moves_and_comments_as_its_bot(app: Registered) -> None:
    github, tracker = app.github, app.github.tracker(login=app.login(), pace=app.pace)
    number = github.issue(TRIGGER)
    me = await tracker.me()
    assert (me.name, me.bot) == ("smith[bot]", True)
    ticket = applied(await tracker.move(await tracker.get(number), edge(*CLAIM, within=1000))).ticket
    made = await tracker.write_sticky(ticket, "queued", MEMO, known=None, deadline=boottime() + 1000)
    (comment,) = github.simulator.comments(REPOSITORY, int(number))
    assert comment["user"] == "smith[bot]"
    assert made.ref.endswith(f".{me.id}")
    other = github.tracker(login=app.login(), pace=app.pace)
    assert await other.read_sticky(ticket) == made
    by = await tracker.labelled_by(ticket, "agent-smith:enqueued")
    assert by is not None
    assert by.actor.id == me.id


async def test_many_requests_at_once_fetch_one_token(app: Registered) -> None:
    tracker = app.github.tracker(login=app.login(), pace=app.pace)
    number = app.github.issue(TRIGGER)
    await asyncio.gather(*(tracker.get(number) for _ in range(10)))
    assert exchanges(app.github) == 1


async def test_a_token_is_renewed_before_it_ends_whatever_its_length(app: Registered) -> None:
    tracker = app.github.tracker(login=app.login(), pace=app.pace)
    number = app.github.issue(TRIGGER)
    for seconds, fetched in ((0, 1), (3200, 0), (200, 1), (3200, 0), (3600, 1), (0, 0)):
        app.pass_time(seconds)
        await tracker.get(number)
        lines = app.github.sent()
        # This machine's wall clock stays behind: a JWT may have to be signed again first.
        assert sum(line.endswith("201") for line in lines) == fetched
        assert not any(line.endswith("401") and "access_tokens" not in line for line in lines)


async def test_a_token_that_was_revoked_is_replaced_and_the_request_sent_again(app: Registered) -> None:
    tracker = app.github.tracker(login=app.login(), pace=app.pace)
    number = app.github.issue(TRIGGER)
    await tracker.get(number)
    for token in list(app.github.simulator.hub.credentials._tokens):
        if token.startswith("ghs_"):
            app.github.simulator.revoke_token(token)
    app.github.sent()
    applied(await tracker.move(await tracker.get(number), edge(*CLAIM, within=1000)))
    assert exchanges(app.github) == 1


async def test_a_wrong_clock_is_corrected_by_githubs(app: Registered) -> None:
    """The JWT of a machine that is an hour behind has ended before it was signed."""
    app.pass_time(5000)
    tracker = app.github.tracker(login=app.login(), pace=app.pace)
    number = app.github.issue(TRIGGER)
    assert (await tracker.get(number)).key == number
    assert [line.split()[-1] for line in app.github.sent()] == ["401", "201", "200"]


async def test_a_key_that_is_not_the_apps_is_refused_without_showing_it(app: Registered) -> None:
    other, _ = new_key()
    tracker = app.github.tracker(login=app.login(other), pace=app.pace)
    with pytest.raises(Unauthorized, match="could not be decoded") as caught:
        await tracker.get("1")
    assert "BEGIN" not in str(caught.value)


async def test_an_app_that_is_suspended_or_unknown_is_refused(app: Registered) -> None:
    app.installation.suspended = True
    tracker = app.github.tracker(login=app.login(), pace=app.pace)
    with pytest.raises(Refused, match="suspended"):
        await tracker.get("1")
    nobody = app.github.tracker(login=AppLogin(app.app.client_id, "999999", PRIVATE), pace=app.pace)
    with pytest.raises(Refused, match="Not Found"):
        await nobody.get("1")


async def test_github_being_away_while_a_token_is_fetched_is_an_outage(app: Registered) -> None:
    tracker = app.github.tracker(login=app.login(), pace=app.pace)
    app.github.fail("status", status=502, path="access_tokens", times=None)
    with pytest.raises(TrackerUnavailable):
        await tracker.get("1")
    app.github.simulator.clear_faults()
    number = app.github.issue(TRIGGER)
    assert (await tracker.get(number)).key == number


async def test_requests_are_booked_under_names_without_secrets(app: Registered) -> None:
    ledger = LocalLedger()
    tracker = app.github.tracker(login=app.login(), pace=app.pace, shared=Shared(ledger=ledger))
    number = app.github.issue(TRIGGER)
    await tracker.get(number)
    host = app.github.running.url.removeprefix("http://")
    client = app.app.client_id
    names = {f"{host}:app-{client}", f"{host}:app-{client}-installation-{app.installation.id}"}
    assert {s.credential for s in ledger.spent()} == names


@pytest.mark.parametrize("key", ["", "nonsense", PUBLIC, PRIVATE[:200]])
def test_a_key_that_is_none_is_a_configuration_error(key: str) -> None:
    with pytest.raises(ConfigError, match="private key cannot be used"):
        AppKey("1", key, host="github.com")


async def test_a_jwt_is_short_lived_and_dated_back() -> None:
    import jwt

    key = AppKey("Iv23", PRIVATE, host="github.com")
    token = (await key.headers())["Authorization"].removeprefix("Bearer ")
    claims = jwt.decode(token, PUBLIC, algorithms=["RS256"])
    assert claims["iss"] == "Iv23"
    assert claims["iat"] == pytest.approx(time.time() - 60, abs=5)
    assert claims["exp"] - time.time() <= 600
    assert jwt.get_unverified_header(token)["alg"] == "RS256"
    assert not await key.renew({}, server_time=time.time())
    assert not await key.renew({}, server_time=None)


@pytest.mark.parametrize("token", ["", "two words", "line\nend", "smärt"])
def test_a_token_that_cannot_be_one_is_a_configuration_error(token: str) -> None:
    with pytest.raises(ConfigError):
        Token(token, host="github.com")


def test_a_token_is_named_without_being_told() -> None:
    one, two = Token("ghp_one_1234567890", host="github.com"), Token("ghp_two_1234567890", host="github.com")
    assert one.name != two.name
    assert "ghp" not in one.name
