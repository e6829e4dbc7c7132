"""`agentsmith webhooks`, `replay` and `labels`: what people do once per platform, on each platform's simulator.

The commands run in a thread of this process, because the loop serves what they talk to.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from agentsmith.cli import app
from agentsmith.domain.signal import Signal, SignalKind
from agentsmith.simulators import Running, serve
from agentsmith.simulators.playground import Playground
from agentsmith.simulators.playgrounds import PLAYGROUNDS
from agentsmith.store import Store
from agentsmith.web.app import make_app
from agentsmith.web.receiver import Endpoint, Receiver
from tests.support.cli import Cli, run_here
from tests.support.json_answers import parsed
from tests.support.senders import SECRET, SENDERS, Sender

ROOT: Final = Path(__file__).parents[2]
PUBLIC: Final = "https://agentsmith.example.com"
HOSTED: Final = sorted(PLAYGROUNDS)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    with run_here(cli, monkeypatch):
        yield cli


@dataclass(frozen=True, slots=True)
class Said:
    """What a command said."""

    command: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return parsed(self.command, self.out, code=self.code)


Say = Callable[..., Awaitable[Said]]


@pytest.fixture
def say(cli: Cli, capsys: pytest.CaptureFixture[str]) -> Say:
    """Runs a command in the folder of `cli`; nothing secret is ever shown."""

    async def run(*command: str, code: int = 0) -> Said:
        got = await asyncio.to_thread(app.run, command)
        shown = capsys.readouterr()
        assert got == code, (got, shown)
        for secret in ("simulated-webhook-secret", SECRET):
            assert secret not in shown.out + shown.err
        return Said(command, got, shown.out, shown.err)

    return run


def configure(cli: Cli, block: dict[str, Any], **more: Any) -> None:
    cli.configure(yaml.safe_dump({"trackers": {"web": block}, "server": {"port": 0, "public_url": PUBLIC}, **more}))


# --- webhooks ---------------------------------------------------------------------------------------------------------


@pytest.fixture(params=HOSTED)
async def stage(request: pytest.FixtureRequest, cli: Cli) -> AsyncIterator[Playground]:
    """A platform that is served, and configured as the tracker `web`; our account may not look after webhooks yet."""
    stage = PLAYGROUNDS[request.param]()
    async with serve(stage.simulator):
        configure(cli, stage.tracker())
        yield stage
    stage.simulator.assert_understood()


def hooks_of(stage: Any) -> list[Any]:
    """What the platform has."""
    hooks = stage.simulator.hooks
    return list((hooks.subscriptions if stage.title == "Azure DevOps" else hooks.hooks).values())


def switch_off(stage: Any) -> None:
    """As platforms do with webhooks that fail for too long, and people by mistake."""
    for hook in hooks_of(stage):
        match stage.title:
            case "GitHub":
                hook.active = False
            case "GitLab":
                hook.failures = 1000
            case "Azure DevOps":
                hook.status = "disabledBySystem"
            case "Jira":
                hook.enabled = False


async def test_webhooks_are_installed_checked_mended_and_removed(stage: Playground, say: Say) -> None:
    stage.let_look_after_webhooks()
    [missing] = (await say("webhooks", "check", "--json", code=1)).json
    assert (missing["tracker"], missing["outcome"], missing["url"]) == ("web", "missing", None)
    assert "agentsmith webhooks install" in missing["message"]
    [installed] = (await say("webhooks", "install", "--json")).json
    assert (installed["outcome"], installed["url"]) == ("installed", f"{PUBLIC}/webhooks/web")
    [fine] = (await say("webhooks", "check", "--json")).json
    assert (fine["ok"], fine["outcome"]) == (True, "fine")
    switch_off(stage)
    [broken] = (await say("webhooks", "check", "--json", code=1)).json
    assert broken["outcome"] == "broken"
    assert "mend it: agentsmith webhooks install" in broken["message"]
    [mended] = (await say("webhooks", "install", "web", "--json")).json
    assert mended["outcome"] == "repaired"
    assert "fine" in (await say("webhooks", "check")).out
    [removed] = (await say("webhooks", "remove", "--json")).json
    assert removed["outcome"] == "removed"
    assert hooks_of(stage) == []
    [none] = (await say("webhooks", "remove", "--json")).json
    assert (none["ok"], none["outcome"]) == (True, "none")


async def test_whoever_may_not_is_told_so_and_where_to_read_on(stage: Any, say: Say) -> None:
    if stage.title == "Azure DevOps":
        stage.simulator.deny_hooks("smith-bot@example.com")
    for what in ("install", "check", "remove"):
        [refused] = (await say("webhooks", what, "--json", code=1)).json
        assert (refused["ok"], refused["outcome"]) == (False, "not allowed"), refused
        page = f"docs/trackers/{stage.tracker()['platform']}.md"
        assert page in refused["message"]
        assert "webhook" in (ROOT / page).read_text().lower(), "the page tells how it is done by hand"


async def test_webhooks_of_one_tracker_beside_others(cli: Cli, say: Say) -> None:
    stage = PLAYGROUNDS["github"]()
    stage.let_look_after_webhooks()
    async with serve(stage.simulator):
        block = stage.tracker()
        mute = {**block, "repository": "acme/other"}
        del mute["webhook_secret"]
        cli.configure(yaml.safe_dump({"trackers": {"web": block, "mute": mute, "here": {"platform": "local"}}}))
        assert "set server.public_url, or give --url" in (await say("webhooks", "install", code=2)).err.lower()
        told = (await say("webhooks", "install", "--url", f"{PUBLIC}/", "--json", code=1)).json
        assert {one["tracker"]: (one["outcome"], one["ok"]) for one in told} == {
            "web": ("installed", True),
            "mute": ("no secret", False),
            "here": ("not needed", True),
        }
        assert "trackers.mute.webhook_secret" in next(one["message"] for one in told if one["tracker"] == "mute")
        assert (await say("webhooks", "check", "web", "--json")).json[0]["url"] == f"{PUBLIC}/webhooks/web"
        [away] = (await say("webhooks", "check", "web", "--url", "https://b.example", "--json", code=1)).json
        assert away["outcome"] == "missing", "another address is another's"
        assert "there is no tracker 'wbe'; did you mean" in (await say("webhooks", "check", "wbe", code=2)).err
    [failed] = (await say("webhooks", "check", "web", "--json", code=1)).json
    assert failed["outcome"] == "failed", "a platform that is away is no missing webhook (P9)"


# --- replay -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Mail:
    """A platform that delivers to a receiver on the store that the commands use."""

    sender: Sender
    client: httpx.AsyncClient
    store: Store

    async def deliver(self, payload: Any, name: str) -> None:
        headers, body = self.sender.delivery(payload, name)
        assert (await self.client.post("/webhooks/web", content=body, headers=headers)).status_code == 202

    async def inbox(self) -> list[Signal]:
        """What waits there; it is empty then."""
        found = await self.store.redis.lrange(self.store.keys.inbox, 0, -1)
        await self.store.redis.delete(self.store.keys.inbox, self.store.keys.inbox_index)
        return [Signal.from_json(text) for text in found]


async def _ready() -> None:
    return None


def block_of(sender: Sender) -> dict[str, Any]:
    """The sender's settings as they stand in a file."""
    names = ("platform", "repository", "project", "organization", "base_url", "email")
    told = {name: str(value) for name in names if (value := getattr(sender.settings, name, None))}
    return {**told, "token": "t", "webhook_secret": sender.settings.webhook_secrets()}


@pytest.fixture(params=sorted(SENDERS))
async def mail(
    request: pytest.FixtureRequest, cli: Cli, store: Store, redis_url: str, namespace: str
) -> AsyncIterator[Mail]:
    sender = SENDERS[request.param]
    configure(cli, block_of(sender), redis={"url": redis_url, "namespace": namespace})
    receiver = Receiver(store, {"web": Endpoint(sender.tracker(), sender.reader())})
    transport = httpx.ASGITransport(app=make_app(receiver, ready=_ready))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield Mail(sender, client, store)


async def test_a_delivery_that_was_taken_can_be_fed_in_again(mail: Mail, say: Say) -> None:
    assert "no webhook was taken" in (await say("replay")).out
    await mail.deliver(mail.sender.labelled(), "d-1")
    await mail.deliver(mail.sender.commented("/agent-smith retry"), "d-2")
    first, second = await mail.inbox()
    told = (await say("replay", "--json")).json
    assert [(one["id"], one["tracker"], one["key"]) for one in told] == [
        ("d-1", "web", mail.sender.key),
        ("d-2", "web", mail.sender.key),
    ]
    assert all(one["event"] and one["at"] for one in told)
    assert "d-1" in (await say("replay")).out
    answer = await say("replay", "d-1")
    assert f"{first.ticket}: accepted; see what came of it: agentsmith why {first.ticket}" in answer.out
    assert (await say("replay", "d-1", "--json")).json["answer"] == "merged"
    assert await mail.inbox() == [first]
    # A command is fed in as one; that it is carried out once is seen to where comments are obeyed.
    assert (await say("replay", "d-2", "--tracker", "web", "--json")).json["ticket"] == second.ticket
    assert await mail.inbox() == [second]
    assert second.kind is SignalKind.COMMAND
    assert len((await say("replay", "--json")).json) == 2, "feeding one in again is no delivery"


@pytest.mark.parametrize("mail", ["github"], indirect=True)
async def test_what_cannot_be_replayed_says_why(mail: Mail, say: Say, cli: Cli) -> None:
    await mail.deliver(mail.sender.labelled(), "d-1")
    large = mail.sender.labelled()
    large["filler"] = "x" * 70_000
    await mail.deliver(large, "d-2")
    assert "list them: agentsmith replay" in (await say("replay", "d-3", code=2)).err
    assert "too large to be kept" in (await say("replay", "d-2", code=2)).err
    assert "there is no tracker 'wbe'" in (await say("replay", "--tracker", "wbe", code=2)).err
    block = block_of(mail.sender)
    redis = yaml.safe_load((cli.folder / "agentsmith.yaml").read_text())["redis"]
    configure(cli, {**block, "repository": "acme/elsewhere"}, redis=redis)
    assert (await say("replay", "d-1", "--json")).json["answer"] == "ignored: it is about another repository"
    del block["webhook_secret"]
    configure(cli, block, redis=redis)
    assert "takes no webhooks any more" in (await say("replay", "d-1", code=2)).err


async def test_without_redis_no_delivery_is_known(cli: Cli, say: Say) -> None:
    configure(cli, {"platform": "local"})
    assert "no delivery is known; start agentsmith: agentsmith up" in (await say("replay", code=2)).err


# --- labels -----------------------------------------------------------------------------------------------------------

LIFECYCLE: Final = ["pending", "enqueued", "in-progress", "waiting", "done", "failed"]


async def test_labels_are_shown_with_their_meaning(cli: Cli, say: Say) -> None:
    triggers = [{"label": "bot:fix", "pipeline": "hello"}]
    configure(cli, {"platform": "local"}, label_prefix="bot", triggers=triggers)
    told = (await say("labels", "--json")).json
    assert [(one["label"], one["status"]) for one in told["labels"]] == [(f"bot:{name}", name) for name in LIFECYCLE]
    assert all(one["means"] for one in told["labels"])
    assert (told["triggers"], told["made"]) == ([{**triggers[0], "on": {"web": None}}], [])
    shown = (await say("labels")).out
    assert "bot:in-progress" in shown
    assert "bot:fix" in shown


async def test_labels_are_made_where_a_platform_wants_that(stage: Any, say: Say) -> None:
    stage.let_look_after_webhooks()
    told = (await say("labels", "--create", "--json")).json
    [made] = told["made"]
    assert made["ok"], made
    if stage.title in ("GitHub", "GitLab"):
        assert set(made["made"]) == {one["label"] for one in (*told["labels"], *told["triggers"])}
        assert {there for one in (*told["labels"], *told["triggers"]) for there in one["on"].values()} == {True}
        [again] = (await say("labels", "--create", "--json")).json["made"]
        assert (again["made"], again["message"]) == ([], "all of them are there")
    else:
        assert "makes labels when they are first used" in made["message"]
        assert not [r for r in stage.simulator.requests if r.method != "GET"]


async def test_labels_that_are_not_there_are_shown_as_missing(stage: Any, say: Say) -> None:
    defines = stage.title in ("GitHub", "GitLab")
    told = (await say("labels", "--json")).json
    assert {there for one in told["labels"] for there in one["on"].values()} == {False if defines else None}
    said = await say("labels")
    assert ("agentsmith labels --create" in said.err) is defines
    assert ("when first used" in said.out) is not defines


async def test_labels_that_could_not_be_made_are_exit_code_1(cli: Cli, say: Say) -> None:
    stage = PLAYGROUNDS["github"]()
    async with serve(stage.simulator) as running:
        assert isinstance(running, Running)
        configure(cli, {**stage.tracker(), "token": "wr0ng"})
        [refused] = (await say("labels", "--create", "--json", code=1)).json["made"]
        assert (refused["ok"], "wr0ng" in refused["message"]) == (False, False)
        assert "web: " in (await say("labels", "--create", code=1)).out


# --- comments ---------------------------------------------------------------------------------------------------------


async def test_a_command_in_a_comment_that_nobody_can_hear_is_to_be_said_again(cli: Cli, say: Say) -> None:
    configure(cli, {"platform": "local"})
    key = (await say("ticket", "new", "--title", "Nobody is there", "--json")).json["key"]
    assert "say it again" in (await say("ticket", "comment", key, "/agent-smith why")).err
    assert (await say("ticket", "comment", key, "just a word")).err == ""
