"""H1 to H5: webhooks that we install ourselves tell us everything, signed with our secret, and can be taken away."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agentsmith.domain.errors import Refused
from agentsmith.domain.hooks import Hook, ManagesHooks, address, is_ours
from agentsmith.domain.webhook import BadSignature, Incoming, TicketEvent, WebhookReader
from agentsmith.trackers.azuredevops.site import Site as AzureSite
from agentsmith.trackers.azuredevops.webhook import AzureDevOpsWebhooks
from agentsmith.trackers.github.site import Site as GitHubSite
from agentsmith.trackers.github.webhook import GitHubWebhooks
from agentsmith.trackers.gitlab.site import Site as GitLabSite
from agentsmith.trackers.gitlab.webhook import GitLabWebhooks
from agentsmith.trackers.jira.site import Deployment
from agentsmith.trackers.jira.site import Site as JiraSite
from agentsmith.trackers.jira.webhook import JiraWebhooks
from tests.conformance import gitlab
from tests.conformance.harness import Platform
from tests.conformance.steps import TRIGGER
from tests.support.receiver import Received, Receiver, receiving
from tests.support.wait import wait_until

SECRET = "a secret of ours, 123"
SIGNING = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0MTIzNA=="

Reader = Callable[[Any, str], WebhookReader]
READERS: dict[str, Reader] = {
    "azure-devops": lambda s, secret: AzureDevOpsWebhooks(AzureSite(s.organization, "Web"), [secret]),
    "github": lambda s, secret: GitHubWebhooks(GitHubSite("acme/web", s.api_url), (secret,)),
    "gitlab": lambda s, secret: GitLabWebhooks(GitLabSite(gitlab.PROJECT, s.api_url), (secret,)),
    "jira": lambda s, secret: JiraWebhooks(JiraSite("WEB", s.api_url), (secret,)),
    "jira-status": lambda s, secret: JiraWebhooks(JiraSite("WEB", s.api_url), (secret,)),
    "jira-data-center": lambda s, secret: JiraWebhooks(JiraSite("WEB", s.api_url, Deployment.DATA_CENTER), (secret,)),
}


def allow(platform: Any, name: str) -> None:
    """Let the credential look after webhooks."""
    match name:
        case "github":
            platform.simulator.set_permission("acme/web", "agentsmith", "admin")
        case "gitlab":
            platform.simulator.set_access(gitlab.PROJECT, "agentsmith", "maintainer")
        case "jira" | "jira-status" | "jira-data-center":
            platform.simulator.make_administrator("agentsmith")


def managed(platform: Platform) -> ManagesHooks:
    assert isinstance(platform.tracker, ManagesHooks)
    return platform.tracker


def where(receiver: Receiver) -> str:
    return address(receiver.url.removesuffix("/hook"), "web")


def read(reader: WebhookReader, received: Received) -> Any:
    return reader.read(Incoming(received.headers, received.body), now=0.0)


@pytest.mark.needs("hooks")
async def test_what_we_install_tells_everything_and_is_verified(platform: Any, platform_name: str) -> None:
    allow(platform, platform_name)
    async with receiving() as receiver:
        hook = await managed(platform).install_hook(where(receiver), SECRET)
        assert hook.problems == ()
        [found] = [one for one in await managed(platform).hooks() if is_ours(one.url, "web", None)]
        assert (found.url, found.problems) == (where(receiver), ())
        assert SECRET not in repr(found) + repr(hook)
        key = await platform.open_ticket(labels=("bug",))
        await platform.person_adds(key, TRIGGER, "bob")
        await platform.person_comments(key, "/agent-smith why", "bob")
        await platform.person_removes(key, TRIGGER, "bob")
        await platform.edit(key, title="another title")
        await platform.close(key)
        reader = READERS[platform_name](platform.simulator, SECRET)

        def told() -> list[TicketEvent]:
            events = [read(reader, one) for one in receiver.requests]
            return [event for event in events if isinstance(event, TicketEvent)]

        def everything() -> bool:
            events = told()
            return (
                any(event.changed and TRIGGER in event.changed and TRIGGER in (event.labels or ()) for event in events)
                and any(event.changed and TRIGGER not in (event.labels or (TRIGGER,)) for event in events)
                and any(event.remark and event.remark.text.startswith("/agent-smith why") for event in events)
                and len(events) >= 5
            )

        await wait_until(everything, what="every event to be told")
        assert {event.key for event in told()} == {key}
        wrong = READERS[platform_name](platform.simulator, "another secret")
        with pytest.raises(BadSignature):
            read(wrong, receiver.requests[-1])


@pytest.mark.needs("hooks")
async def test_a_hook_that_is_broken_is_named_and_mended(platform: Any, platform_name: str) -> None:
    allow(platform, platform_name)
    simulator, url = platform.simulator, "https://agentsmith.example/webhooks/web"
    match platform_name:
        case "github":
            hook_id = simulator.register_webhook("acme/web", url, events=["push"], content_type="form")
            simulator.hooks.hooks[hook_id].active = False
        case "gitlab":
            hook_id = simulator.register_webhook(gitlab.PROJECT, url, events=("issues_events",))
        case "azure-devops":
            made = simulator.hooks.add("workitem.updated", "Web", url)
            made.status, made.filters = "disabledBySystem", {"tag": "x"}
        case _:
            hook_id = simulator.register_webhook(url, events=("jira:issue_created",), projects=["WEB"])
            simulator.hooks.hooks[hook_id].enabled = False
    [broken] = await managed(platform).hooks()
    told = "; ".join(broken.problems)
    assert "does not tell of" in told
    mended = await managed(platform).repair_hook(broken, SECRET)
    assert mended.problems == ()
    [after] = await managed(platform).hooks()
    assert (after.url, after.problems) == (url, ())


@pytest.mark.needs("hooks")
async def test_H4_removing_is_final_and_may_be_repeated(platform: Any, platform_name: str) -> None:
    allow(platform, platform_name)
    hook = await managed(platform).install_hook("https://agentsmith.example/webhooks/web", SECRET)
    await managed(platform).remove_hook(hook)
    await managed(platform).remove_hook(hook)
    assert await managed(platform).hooks() == ()


@pytest.mark.needs("hooks")
async def test_H1_whoever_may_not_is_refused(platform: Any, platform_name: str) -> None:
    if platform_name == "azure-devops":
        platform.simulator.deny_hooks("agentsmith")  # everybody else has to be given the right
    with pytest.raises(Refused) as told:
        await managed(platform).hooks()
    assert not any(secret in str(told.value) for secret in platform.secrets)
    with pytest.raises(Refused):
        await managed(platform).install_hook("https://agentsmith.example/webhooks/web", SECRET)


@pytest.mark.needs("signing_tokens")
async def test_gitlab_signs_where_the_secret_is_a_signing_token(platform: Any, platform_name: str) -> None:
    allow(platform, platform_name)
    async with receiving() as receiver:
        await managed(platform).install_hook(where(receiver), SIGNING)
        await platform.open_ticket(labels=(TRIGGER,))
        await wait_until(lambda: bool(receiver.requests), what="a delivery")
        [delivered] = receiver.requests
        assert "x-gitlab-token" not in delivered.headers
        now = float(delivered.headers["webhook-timestamp"])
        incoming = Incoming(delivered.headers, delivered.body)
        reader = READERS["gitlab"](platform.simulator, SIGNING)
        assert isinstance(reader.read(incoming, now=now), TicketEvent)
        with pytest.raises(BadSignature):
            reader.read(incoming, now=now + 301)


@pytest.mark.parametrize(
    ("url", "public_url", "ours"),
    [
        ("https://a.example/webhooks/web", None, True),
        ("https://a.example/under/webhooks/web", None, True),
        ("https://a.example/webhooks/web/s3cret", None, True),
        ("https://a.example/webhooks/other", None, False),
        ("https://a.example/web", None, False),
        ("https://a.example/webhooks/web", "https://a.example", True),
        ("https://a.example/webhooks/web/s3cret", "https://a.example", True),
        ("https://b.example/webhooks/web", "https://a.example", False),
        ("https://a.example/webhooks/web2", "https://a.example", False),
        ("http://[", None, False),
    ],
)
def test_ours_are_known_by_their_address(url: str, public_url: str | None, ours: bool) -> None:
    assert is_ours(url, "web", public_url) is ours


def test_a_hook_shows_no_secret() -> None:
    assert set(json.loads(json.dumps({"ref": "1", "url": "u", "problems": []}))) == set(Hook.__slots__)
