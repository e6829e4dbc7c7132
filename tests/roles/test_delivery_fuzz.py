"""Signed deliveries in which any one field is anything at all: each is answered, and none with a server's error.

What is abused are the deliveries that platforms publish, those that the simulators send, and small ones of our own in
which every field counts. Each field of each is left out, doubled, and replaced by whatever JSON can hold and by some
that it cannot: `1e999`, `NaN`, half a character, a number of five thousand digits, a list in a list in a list.

AGENTSMITH_FUZZ_FIELDS says how many of these deliveries are sent beside the small ones; 0 sends all of them. Which they
are depends on the seed of pytest-randomly.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest

from agentsmith.domain.webhook import Incoming, TicketEvent
from agentsmith.simulators.azuredevops.playground import AzureDevOpsPlayground
from agentsmith.simulators.github.playground import GitHubPlayground
from agentsmith.simulators.gitlab.playground import GitLabPlayground
from agentsmith.simulators.jira.playground import JiraPlayground
from agentsmith.store import Store
from agentsmith.web.app import make_app
from agentsmith.web.receiver import Endpoint, Receiver
from tests.roles.test_receiver_fuzz import Sent, call, unheard
from tests.support.senders import PUBLISHED, SECRET, SENDERS, Headers, Sender
from tests.support.stores import TIMES

FIELDS: Final = int(os.environ.get("AGENTSMITH_FUZZ_FIELDS", "1500"))
_HERE: Final = '"@here@"'
ABUSES: Final[Mapping[str, str]] = {
    "null": "null",
    "true": "true",
    "zero": "0",
    "negative": "-1",
    "fraction": "7.5",
    "overflow": "1e999",
    "negative overflow": "-1e999",
    "nan": "NaN",
    "infinity": "Infinity",
    "negative infinity": "-Infinity",
    "largest float": "1.7976931348623157e308",
    "2**64": str(2**64),
    "4000 digits": "9" * 4000,
    "5000 digits": "9" * 5000,
    "digits in a text": '"' + "9" * 400 + '"',
    "other digits in a text": '"\\u0667\\u00b2"',
    "empty text": '""',
    "nul": '"\\u0000"',
    "half a character": '"\\ud83d"',
    "huge text": '"' + "<a " * 20_000 + '"',
    "list": "[]",
    "object": "{}",
    "list of null": "[null]",
    "list of lists": "[[]]",
    "object in object": '{"a": {"a": 1e999}}',
    "deep": "[" * 800 + "]" * 800,
    "deeper": '{"content": [' * 90 + "]}" * 90,
    "too deep": "[" * 20_000 + "]" * 20_000,
}
LEFT_OUT, TWICE, TWICE_LATER = "left out", "twice, once wrong", "twice, at last wrong"
HOW: Final = (*ABUSES, LEFT_OUT, TWICE, TWICE_LATER)
Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Specimen:
    """A delivery that is as it should be."""

    name: str
    sender: Sender
    settings: Any
    headers: Headers
    payload: Any

    def places(self) -> list[Place]:
        """Every field of it."""
        return list(_places(self.payload))

    def abused(self, place: Place, how: str) -> bytes:
        """The body with something wrong at that place."""
        copy = json.loads(json.dumps(self.payload))
        node = copy
        for step in place[:-1]:
            node = node[step]
        last = place[-1]
        if how == LEFT_OUT:
            del node[last]
            return json.dumps(copy).encode()
        was, node[last] = json.dumps(node[last]), _HERE.strip('"')
        name, wrong = json.dumps(last), "1e999"
        raw = ABUSES.get(how, wrong)
        if isinstance(node, dict) and how in (TWICE, TWICE_LATER):
            first, second = (wrong, was) if how == TWICE else (was, wrong)
            raw = f"{first}, {name}: {second}"
        return json.dumps(copy).replace(_HERE, raw).encode()

    def sent(self, body: bytes, number: int) -> Sent:
        """The body as a signed request, under a name of its own: one that was seen before is not looked at."""
        body = body.replace(b'"d-1"', b'"d-1-%d"' % number)
        named = {name: value.replace("d-1", f"d-1-{number}") for name, value in self.headers.items()}
        headers = {"content-type": "application/json", **named}
        headers |= self.sender.sign(body, headers, SECRET)
        return Sent(self.name, True, f"/webhooks/{self.name}", "POST", list(headers.items()), [body])


def _places(node: Any, above: Place = ()) -> Iterator[Place]:
    if above:
        yield above
    inner = node.items() if isinstance(node, dict) else enumerate(node[:2]) if isinstance(node, list) else ()
    for step, child in inner:
        yield from _places(child, (*above, step))


def small() -> Iterator[Specimen]:
    """Deliveries of which every field is read."""
    for name, sender in SENDERS.items():
        payloads = {"labelled": sender.labelled(), "commented": sender.commented("/agent-smith retry")}
        if name == "azure-devops":
            payloads["commented"]["resource"]["commentVersionRef"] = {"commentId": 99}
        for what, payload in payloads.items():
            yield Specimen(f"{name}-{what}", sender, sender.settings, sender.name(payload, "d-1"), payload)


def _event(platform: str, file: str, payload: Any) -> Headers:
    if platform == "github":
        return {"x-github-event": file.removeprefix("DERIVED-by-us.").partition(".")[0], "x-github-delivery": "d-1"}
    if platform == "gitlab":
        kind = str(payload["object_kind"]).replace("_", " ").title()
        return {"x-gitlab-event": f"{kind} Hook", "idempotency-key": "d-1", "webhook-id": "d-1"}
    return {"x-atlassian-webhook-identifier": "d-1"} if platform == "jira" else {}


def _project(platform: str, payload: Any) -> dict[str, str]:
    """The setting that makes a published delivery one about our own project, where it is about any."""
    match platform:
        case "github":
            return {"repository": payload.get("repository", {}).get("full_name", "acme/web")}
        case "gitlab":
            return {"project": payload.get("project", {}).get("path_with_namespace", "acme/web")}
        case "jira":
            return {"project": payload["issue"]["key"].rpartition("-")[0]}
    fields = payload["resource"].get("revision", payload["resource"]).get("fields", {})
    return {"project": fields.get("System.TeamProject", "Web")}


def published() -> Iterator[Specimen]:
    """The deliveries that the platforms and others publish."""
    for file in sorted(PUBLISHED.rglob("*.json")):
        payload, folder = json.loads(file.read_text()), file.relative_to(PUBLISHED).parts[0]
        platform = "azure-devops" if folder == "azure" else folder
        sender = SENDERS[platform]
        settings = sender.settings.model_copy(update=_project(platform, payload))
        name = f"{folder}-{file.stem}".replace("/", "-")
        yield Specimen(name, sender, settings, _event(platform, file.name, payload), payload)


def simulated() -> Iterator[Specimen]:
    """The deliveries that the simulators send."""
    for platform, stage in _played().items():
        sender = SENDERS[platform]
        for delivery in {delivery.event: delivery for delivery in stage.simulator.outbox.held}.values():
            headers = {name.lower(): value for name, value in delivery.headers.items()}
            payload = json.loads(delivery.body.replace(delivery.guid.encode(), b"d-1"))
            settings = sender.settings.model_copy(update=_project(platform, payload))
            telling = sender.reader().telling & headers.keys()
            named = {name: headers[name].replace(delivery.guid, "d-1") for name in telling}
            yield Specimen(f"simulated-{platform}-{delivery.event}", sender, settings, named, payload)


def _played() -> dict[str, Any]:
    """A ticket on every platform, labelled and commented on."""
    comments: dict[str, tuple[Any, Callable[[Any, str], object]]] = {
        "github": (GitHubPlayground(), lambda s, key: s.simulator.comment(s.project, int(key), "hi")),
        "gitlab": (GitLabPlayground(), lambda s, key: s.simulator.comment(s.project, int(key), "hi")),
        "azure-devops": (AzureDevOpsPlayground(), lambda s, key: s.simulator.comment(int(key), "hi")),
        "jira": (JiraPlayground(), lambda s, key: s.simulator.comment(key, "hi")),
    }
    for stage, comment in comments.values():
        stage.send_webhooks("http://127.0.0.1:9/hook")
        key = stage.tickets.open("Say hello")
        stage.tickets.add_label(key, "agent-smith")
        comment(stage, key)
    return {platform: stage for platform, (stage, _) in comments.items()}


def withstood(runner: asyncio.Runner, url: str, namespace: str, cases: list[tuple[Specimen, Place, str]]) -> set[int]:
    """Send the cases; answers which statuses were told."""

    async def work() -> set[int]:
        store = Store(url, times=TIMES, namespace=namespace)
        specimens = {specimen.name: specimen for specimen, _, _ in cases}
        trackers = {name: sender.tracker() for name, sender in SENDERS.items()}
        endpoints = {
            name: Endpoint(trackers[s.sender.platform], s.settings.webhooks()) for name, s in specimens.items()
        }
        app, told = make_app(Receiver(store, endpoints), ready=_ready), set()
        for number, (specimen, place, how) in enumerate(cases):
            sent = specimen.sent(specimen.abused(place, how), number)
            await call(app, sent)
            assert sent.status in (200, 202), (specimen.name, place, how, sent.status, sent.answer)
            told.add(sent.status)
        await store.aclose()
        return told

    return runner.run(work())


async def _ready() -> None:
    return None


@pytest.mark.timeout(3600 if FIELDS == 0 else 300)
@pytest.mark.usefixtures(unheard.__name__)
@pytest.mark.parametrize("corpus", [small, simulated, published])
def test_no_value_of_any_field_makes_an_error_of_ours(
    corpus: Callable[[], Iterator[Specimen]], redis_url: str, namespace: str
) -> None:
    specimens = list(corpus())
    if not specimens:
        pytest.skip(f"THE PUBLISHED WEBHOOK PAYLOADS ARE NOT HERE, SO NOBODY ABUSES THEM: {PUBLISHED}")
    cases = [(specimen, place, how) for specimen in specimens for place in specimen.places() for how in HOW]
    if corpus is not small and 0 < FIELDS < len(cases):
        cases = random.sample(cases, FIELDS)
    with asyncio.Runner() as runner:
        assert withstood(runner, redis_url, namespace, cases) == {200, 202}


@pytest.mark.parametrize("text", ["<p>" + "<a" * 500_000, " " * 1_000_000 + "x", "a <" * 300_000, "a <b@example.com>"])
def test_a_long_text_is_read_in_one_go(text: str) -> None:
    """Not once for each of its characters: that took minutes, in which nobody else was answered."""
    sender = SENDERS["azure-devops"]
    payload = sender.commented(text)
    payload["resource"]["fields"]["System.ChangedBy"] = text
    headers, body = sender.delivery(payload)
    assert isinstance(sender.reader().read(Incoming(headers, body), now=0), TicketEvent)
