"""A project that gets another name is the same project: its tickets, its live runs and its webhooks stay (P2, P9)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from agentsmith.boottime import boottime
from agentsmith.domain.errors import Refused, TicketNotFound
from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.webhook import Incoming, TicketEvent, Uninteresting
from agentsmith.trackers.azuredevops.settings import AzureDevOpsSettings
from agentsmith.trackers.github.settings import GitHubSettings
from agentsmith.trackers.gitlab.settings import GitLabSettings
from agentsmith.trackers.http import Shared
from agentsmith.trackers.http.connection import connect
from agentsmith.trackers.jira.settings import JiraSettings
from tests.support import simulated_azuredevops, simulated_github, simulated_gitlab, simulated_jira
from tests.support.edges import CLAIM, FINISH, MEMO, START, TRIGGER, applied, edge
from tests.support.receiver import receiving

SECRET = "It's a Secret to Everybody"


@dataclass
class Place:
    """A project on a platform that people rename."""

    bench: Any
    settings: Any
    open: Callable[[], str]
    rename: Callable[[], object]
    label: Callable[[str], object]
    """Put another label on a ticket of the renamed project."""


@contextlib.asynccontextmanager
async def place(platform: str) -> AsyncIterator[Place]:
    """The platform's bench, with a webhook, and the settings of its one project."""
    async with contextlib.AsyncExitStack() as stack:
        told = await stack.enter_async_context(receiving())

        def settings(model: Any, **more: Any) -> Any:
            return model.model_validate({"webhook_secret": [SECRET], "base_url": bench.running.api_url, **more})

        match platform:
            case "github":
                bench: Any = await stack.enter_async_context(simulated_github.simulated_github())
                bench.simulator.register_webhook("acme/web", told.url, secret=SECRET, events=["issues"])
                yield Place(
                    bench,
                    settings(GitHubSettings, platform=platform, repository="acme/web", token=simulated_github.TOKEN),
                    lambda: str(bench.issue(TRIGGER)),
                    lambda: bench.simulator.rename_repository("acme/web", "site"),
                    lambda key: bench.simulator.add_label("acme/site", int(key), "bug"),
                )
            case "gitlab":
                bench = await stack.enter_async_context(simulated_gitlab.simulated_gitlab())
                project = simulated_gitlab.PROJECT
                bench.simulator.register_webhook(project, told.url, token=SECRET)
                yield Place(
                    bench,
                    settings(GitLabSettings, platform=platform, project=project, token=simulated_gitlab.TOKEN),
                    lambda: str(bench.issue(TRIGGER)),
                    lambda: bench.simulator.rename_project(project, "acme/site"),
                    lambda key: bench.simulator.add_label("acme/site", int(key), "bug"),
                )
            case "azure-devops":
                bench = await stack.enter_async_context(simulated_azuredevops.simulated_azuredevops())
                bench.simulator.subscribe("Web", told.url, password=SECRET)
                yield Place(
                    bench,
                    settings(
                        AzureDevOpsSettings,
                        platform=platform,
                        organization=bench.simulator.organization,
                        project="Web",
                        token=simulated_azuredevops.TOKEN,
                    ),
                    lambda: str(bench.item(TRIGGER)),
                    lambda: bench.simulator.rename_project("Web", "Site"),
                    lambda key: bench.simulator.add_tag(int(key), "bug"),
                )
            case _:
                cloud = platform == "jira"
                bench = await stack.enter_async_context(simulated_jira.simulated_jira(cloud=cloud))
                bench.simulator.register_webhook(told.url, secret=SECRET)
                account = {"email": bench.email} if cloud else {"deployment": "data-center"}
                yield Place(
                    bench,
                    settings(JiraSettings, platform="jira", project="WEB", token=simulated_jira.TOKEN, **account),
                    lambda: str(bench.issue(TRIGGER)),
                    lambda: bench.simulator.rename_project("WEB", "SITE"),
                    lambda key: bench.simulator.add_label(key.replace("WEB", "SITE"), "bug"),
                )


PLATFORMS = ("github", "gitlab", "azure-devops", "jira", "jira-data-center")


def delivered(bench: Any) -> Incoming:
    """The last delivery."""
    sent = bench.simulator.outbox.log[-1]
    return Incoming({name.lower(): value for name, value in sent.headers.items()}, sent.body)


@pytest.mark.parametrize("known", [True, False], ids=["before", "since"])
@pytest.mark.parametrize("platform", PLATFORMS)
async def test_P9_a_renamed_project_is_no_empty_list(platform: str, known: bool) -> None:
    """Whether the process has seen it under its old name, or was started since."""
    async with place(platform) as here:
        key = here.open()
        tracker = here.bench.tracker()
        names = [ticket.id async for ticket in tracker.find(TRIGGER)] if known else [tracker.ticket_id(key)]
        here.rename()
        assert [ticket.id async for ticket in tracker.find(TRIGGER)] == names
        assert (await tracker.get(key)).id == names[0]


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_P2_a_run_outlives_the_renaming_of_its_project(platform: str) -> None:
    async with place(platform) as here:
        key, tracker = here.open(), here.bench.tracker()
        ticket = applied(await tracker.move(await tracker.get(key), edge(*CLAIM))).ticket
        known = await tracker.write_sticky(ticket, "queued", MEMO, known=None, deadline=boottime() + 30)
        here.rename()
        ticket = applied(await tracker.move(await tracker.get(key), edge(*START))).ticket
        ticket = applied(await tracker.move(ticket, edge(*FINISH))).ticket
        await tracker.write_sticky(ticket, "done", MEMO, known=known, deadline=boottime() + 30)
        assert (await tracker.get(key)).labels == {TRIGGER, "agent-smith:done"}


@pytest.mark.parametrize("platform", ["jira", "jira-data-center"])
async def test_P2_a_jira_project_that_is_renamed_between_a_read_and_its_write(platform: str) -> None:
    async with place(platform) as here:
        key, tracker = here.open(), here.bench.tracker()
        ticket = await tracker.get(key)
        here.rename()
        assert applied(await tracker.move(ticket, edge(*CLAIM))).ticket.id == ticket.id
        assert here.bench.labels(key) == {TRIGGER, "agent-smith:enqueued"}


@pytest.mark.parametrize("known", [True, False], ids=["before", "since"])
@pytest.mark.parametrize("platform", PLATFORMS)
async def test_webhooks_of_a_renamed_project_are_ours(platform: str, known: bool) -> None:
    """The reader knows the project by what its tracker has learned, at the first question that every process asks."""
    async with place(platform) as here:
        key = here.open()
        tracker, reader = here.settings.open("web", LabelSet(), connect(Shared())), here.settings.webhooks()
        try:
            if known:
                await tracker.me()
            here.rename()
            await tracker.me()
        finally:
            await tracker.aclose()
        here.label(key)
        event = reader.read(delivered(here.bench), now=here.bench.simulator.clock.now())
        assert isinstance(event, TicketEvent)
        assert event.key == key


async def test_a_jira_project_that_took_the_name_of_another_is_another() -> None:
    async with place("jira") as here:
        key, tracker, reader = (
            here.open(),
            here.settings.open("web", LabelSet(), connect(Shared())),
            here.settings.webhooks(),
        )
        try:
            await tracker.me()
        finally:
            await tracker.aclose()
        here.rename()
        here.bench.simulator.add_project("WEB")
        there = here.bench.simulator.open_issue("WEB", labels=[TRIGGER])
        assert there == key
        assert isinstance(reader.read(delivered(here.bench), now=0.0), Uninteresting)


async def test_a_jira_issue_that_was_moved_is_another_ticket_after_a_renaming_too() -> None:
    async with place("jira") as here:
        here.bench.simulator.add_project("OPS")
        here.bench.simulator.set_role("OPS", "smith-bot", "admin")
        key, tracker = here.open(), here.bench.tracker()
        here.rename()
        here.bench.simulator.move_issue("SITE-1", "OPS")
        with pytest.raises(TicketNotFound, match="OPS-1"):
            await tracker.get(key)
        assert [ticket.key async for ticket in tracker.find(TRIGGER)] == []


async def test_P9_an_azure_token_that_may_not_read_projects_is_no_empty_list() -> None:
    async with place("azure-devops") as here:
        here.open()
        here.rename()
        here.bench.fail("status", path="/_apis/projects/", status=403, body={"message": "no"}, times=5)
        with pytest.raises(Refused, match="put its name into `project`"):
            _ = [ticket async for ticket in here.bench.tracker().find(TRIGGER)]
