"""Where Azure DevOps is: settings, names of tickets, addresses, and what its service hooks say."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.ticket import Actor
from agentsmith.domain.tracker import Access
from agentsmith.domain.webhook import BadPayload, BadSignature, Incoming, TicketEvent, Uninteresting
from agentsmith.simulators import Clock
from agentsmith.simulators.azuredevops import AzureDevOpsSimulator
from agentsmith.trackers.azuredevops.comment_format import COMMENT_LIMIT, CommentFormat
from agentsmith.trackers.azuredevops.settings import AzureDevOpsSettings
from agentsmith.trackers.azuredevops.site import Site
from agentsmith.trackers.azuredevops.webhook import AzureDevOpsWebhooks
from agentsmith.trackers.http import Shared
from agentsmith.trackers.http.connection import connect
from tests.support.edges import MEMO, TRIGGER
from tests.support.simulated_azuredevops import MONA, simulated_azuredevops

SECRET = "a-long-webhook-secret"


def settings(**more: Any) -> AzureDevOpsSettings:
    """Settings with everything that is needed."""
    given = {"platform": "azure-devops", "organization": "Acme", "project": "Fabrikam Fiber", "token": "t" * 52}
    return AzureDevOpsSettings.model_validate({**given, **more})


async def test_settings_make_a_tracker_and_hide_the_token() -> None:
    made = settings()
    assert made.project_identity() == "dev.azure.com/acme/fabrikam%20fiber"
    assert "tttt" not in repr(made)
    tracker = made.open("web", LabelSet(), connect(Shared()))
    assert (tracker.name, tracker.platform, tracker.project) == ("web", "azure-devops", made.project_identity())
    assert tracker.ticket_id("12") == "dev.azure.com/acme/fabrikam%20fiber#12"
    await tracker.aclose()


def test_a_server_is_named_by_its_address_and_collection() -> None:
    made = settings(base_url="https://TFS.example.com:8443/tfs/", organization="DefaultCollection")
    assert made.project_identity() == "tfs.example.com:8443/tfs/defaultcollection/fabrikam%20fiber"


@pytest.mark.parametrize(
    "wrong",
    [
        {"token": " "},
        {"organization": "acme/x"},
        {"organization": ""},
        {"project": "a/b"},
        {"project": "_x"},
        {"project": "0f5abc68-23aa-575b-99b6-acdfb279a42b"},
        {"base_url": "dev.azure.com"},
        {"base_url": "https://dev.azure.com/acme"},
        {"auth": "basic"},
        {"comments_api": "7.1"},
        {"comment_format": "text"},
        {"surprise": 1},
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(**wrong)
    assert "tttt" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "12",
        "#12",
        "dev.azure.com/acme/fabrikam%20fiber#12",
        "https://dev.azure.com/acme/Fabrikam%20Fiber/_workitems/edit/12",
        "https://dev.azure.com/Acme/fabrikam%20fiber/_workitems/edit/12/",
        "https://acme.visualstudio.com/Fabrikam%20Fiber/_workitems/edit/12",
        "https://acme.visualstudio.com/DefaultCollection/Fabrikam%20Fiber/_workitems/edit/12",
    ],
)
def test_a_ticket_is_known_by_many_names(text: str) -> None:
    assert settings().site.identify(text) == "12"


@pytest.mark.parametrize(
    "text",
    [
        "dev.azure.com/acme/other#12",
        "https://dev.azure.com/acme/Other/_workitems/edit/12",
        "https://dev.azure.com/evil/Fabrikam%20Fiber/_workitems/edit/12",
        "https://evil.visualstudio.com/Fabrikam%20Fiber/_workitems/edit/12",
        "https://evil.example/acme/Fabrikam%20Fiber/_workitems/edit/12",
        "https://dev.azure.com/acme/Fabrikam%20Fiber/_workitems/edit/012",
        "https://dev.azure.com/acme/Fabrikam%20Fiber/_workitems/12",
        "https://dev.azure.com:bad/acme/Fabrikam%20Fiber/_workitems/edit/12",
        "2147483648",
    ],
)
def test_and_by_no_other(text: str) -> None:
    assert settings().site.identify(text) is None


@given(st.text(max_size=400), st.sampled_from(["markdown", "html"]))
def test_any_words_can_be_written_read_and_written_again(text: str, form: Any) -> None:
    words = CommentFormat(LabelSet(), form)
    fitted = words.fit(text, MEMO)
    assert words.fit(fitted, MEMO) == fitted
    read = words.read(words.write(fitted, MEMO))
    assert read is not None
    assert read[1] == MEMO
    if form == "markdown":
        assert read[0] == fitted
    assert "<" not in words.write(fitted, MEMO).replace("<br>", "")


@pytest.mark.parametrize("form", ["markdown", "html"])
@pytest.mark.parametrize("character", ["x", "<", "&", "🧵", "\n"])
def test_long_words_are_cut_to_what_fits_as_it_is_sent(form: Any, character: str) -> None:
    words = CommentFormat(LabelSet(), form)
    sent = words.write(words.fit("begin" + character * 200_000 + "end", MEMO), MEMO)
    assert len(sent.encode("utf-16-le")) // 2 <= COMMENT_LIMIT
    assert "cut: Azure DevOps" in sent
    assert words.read(sent) is not None


# --- service hooks ----------------------------------------------------------------------------------------------------


def delivered(what: str) -> tuple[Incoming, int]:
    """A delivery of the simulator as it arrives, and the work item it is about."""
    simulator = AzureDevOpsSimulator(clock=Clock(1_800_000_000.0))
    simulator.add_project("Web")
    number = simulator.open_item("Web", tags=["bug"], webhook=False)
    simulator.subscribe("Web", "http://127.0.0.1:9/x", event=what, username="any", password=SECRET)
    match what:
        case "workitem.updated":
            simulator.add_tag(number, TRIGGER)
        case "workitem.commented":
            simulator.comment(number, "<div>/agentsmith&nbsp;retry</div>")
        case "workitem.created":
            number = simulator.open_item("Web", tags=["bug"])
    delivery = simulator.outbox.log[-1]
    headers = {name.lower(): value for name, value in delivery.headers.items()}
    return Incoming(headers, delivery.body), number


@pytest.mark.parametrize("event", ["workitem.updated", "workitem.created", "workitem.commented"])
def test_an_event_says_what_happened_to_which_ticket(event: str) -> None:
    incoming, number = delivered(event)
    read = AzureDevOpsWebhooks(Site("acme", "web"), ["old", SECRET]).read(incoming, now=0.0)
    assert isinstance(read, TicketEvent)
    assert (read.id, read.event, read.key) == (json.loads(incoming.body)["id"], event, str(number))
    assert read.actor is not None
    assert read.actor.name == MONA
    if event == "workitem.updated":
        assert read.labels == frozenset({"bug", TRIGGER})
        assert read.changed == frozenset({TRIGGER})
    if event == "workitem.commented":
        assert read.remark is not None
        assert (read.remark.text, read.remark.author.name) == ("/agentsmith retry", MONA)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Basic !!"},
        {"authorization": f"Bearer {SECRET}"},
        {"authorization": "Basic " + base64.b64encode(b"any:wrong").decode()},
        {"authorization": "Basic " + base64.b64encode(f"{SECRET}:".encode()).decode()},
        {"x-agentsmith-secret": ""},
    ],
)
def test_without_the_secret_nothing_is_read(headers: dict[str, str]) -> None:
    reader = AzureDevOpsWebhooks(Site("acme", "web"), [SECRET])
    with pytest.raises(BadSignature) as caught:
        reader.read(Incoming(headers, b"not even JSON"), now=0.0)
    assert SECRET not in str(caught.value)


def test_the_secret_may_come_in_a_header_and_other_projects_do_not_matter() -> None:
    incoming, _ = delivered("workitem.updated")
    bare = Incoming({"x-agentsmith-secret": SECRET}, incoming.body)
    assert isinstance(AzureDevOpsWebhooks(Site("acme", "Other"), [SECRET]).read(bare, now=0.0), Uninteresting)
    pushed = json.dumps({"id": "1", "eventType": "git.push", "resource": {}}).encode()
    other = Incoming({"x-agentsmith-secret": SECRET}, pushed)
    assert isinstance(AzureDevOpsWebhooks(Site("acme", "Web"), [SECRET]).read(other, now=0.0), Uninteresting)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["id", "workItemId", "revision", "fields", "rev", "System.TeamProject", "System.Tags"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_whatever_arrives_is_an_event_or_bad(resource: Any) -> None:
    body = json.dumps({"id": "x", "eventType": "workitem.updated", "resource": resource}).encode()
    with suppress(BadPayload):
        AzureDevOpsWebhooks(Site("acme", "Web"), []).read(Incoming({}, body), now=0.0)


async def test_an_author_without_an_id_is_known_by_a_unique_name_only() -> None:
    async with simulated_azuredevops() as azure:
        tracker = azure.tracker()
        names = {MONA.upper(): Access.WRITE, "Mona": Access.NONE, "eve@example.com": Access.READ, "": Access.NONE}
        assert {name: await tracker.access_of(Actor("", name)) for name in names} == names
