"""The four simulated trackers, each behind a fault proxy of its own, and what the people there do and see.

Every write that reaches a tracker is noted as it lands, with all labels before and after it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.responses import Response

from agentsmith.simulators import serve
from agentsmith.simulators.azuredevops.playground import AzureDevOpsPlayground
from agentsmith.simulators.frame import Call, Handler, Simulator
from agentsmith.simulators.github.playground import GitHubPlayground
from agentsmith.simulators.gitlab.playground import GitLabPlayground
from agentsmith.simulators.jira.playground import JiraPlayground
from agentsmith.simulators.journal import Recorded
from agentsmith.simulators.outbox import Delivery
from agentsmith.simulators.playground import Playground
from agentsmith.simulators.playgrounds import PLAYGROUNDS
from tests.chaos.checker import LIFECYCLE
from tests.chaos.daemon import HEADER
from tests.chaos.history import History
from tests.support.fault_proxy import FaultProxy, to_tcp

TRIGGER: Final = "agent-smith"
FOREIGN: Final = ("team-blue", "agent-smith:bug")
"""Labels that are nobody's business but people's; one of them even begins like ours."""
_FORGET_AFTER: Final = 2_000


@dataclass(slots=True)
class Tracker:
    """One platform: what people do there, and what becomes of their tickets."""

    name: str
    stage: Playground
    history: History
    proxy: FaultProxy
    on_change: Callable[[str, frozenset[str]], None] = lambda _ticket, _labels: None
    """Told of a ticket whose labels a write of ours has changed."""
    opened: dict[str, str] = field(default_factory=dict)
    """Key to ticket, of all that were opened here."""

    @property
    def simulator(self) -> Simulator:
        return self.stage.simulator

    def settings(self) -> dict[str, Any]:
        """Its block of a configuration, with the address of the proxy."""
        settings = self.stage.tracker()
        there = f"127.0.0.1:{self.proxy.port}"
        settings["base_url"] = str(settings["base_url"]).replace(self.simulator.url, f"http://{there}")
        return settings

    def open(self, title: str, plan: str) -> str:
        """A person opens a ticket with the trigger and labels of their own; answers the ticket's name."""
        labels = [TRIGGER, *FOREIGN]
        key = self.stage.tickets.open(title, labels)
        ticket = self.opened[key] = f"{self.name}/{key}"
        self.history.note("ticket", ticket=ticket, labels=labels, plan=plan)
        return ticket

    def add(self, key: str, label: str) -> None:
        """A person adds a label."""
        self.history.note("person", ticket=self.opened[key], add=[label])
        self.stage.tickets.add_label(key, label)

    def remove(self, key: str, label: str) -> None:
        """A person takes a label off."""
        self.history.note("person", ticket=self.opened[key], remove=[label])
        self.stage.tickets.remove_label(key, label)

    def close(self, key: str) -> None:
        """A person closes the ticket; nobody is told, so that it costs nothing."""
        self.stage.tickets.close(key, webhook=False)

    def labels(self, key: str) -> frozenset[str]:
        """What stands on the ticket."""
        return frozenset(self.stage.tickets.labels(key))

    def status(self, key: str) -> frozenset[str]:
        """The lifecycle labels on the ticket."""
        return self.labels(key) & LIFECYCLE

    def send_webhooks(self, url: str) -> None:
        """Tell `url` what happens to tickets. Comments, which say nothing of their labels, would double the traffic."""
        stage, secret = self.stage, str(self.stage.tracker()["webhook_secret"])
        match stage:
            case GitHubPlayground():
                stage.simulator.register_webhook(stage.project, url, secret=secret, events=["issues"])
            case GitLabPlayground():
                stage.simulator.register_webhook(stage.project, url, token=secret, events=["issues_events"])
            case AzureDevOpsPlayground():
                for event in ("workitem.created", "workitem.updated"):
                    stage.simulator.subscribe(stage.project, url, event=event, username="agentsmith", password=secret)
            case JiraPlayground():
                events = ["jira:issue_created", "jira:issue_updated"]
                stage.simulator.register_webhook(url, secret=secret, events=events)

    def record(self) -> None:
        """Note every signed write as it lands."""
        real, attribute = self.simulator.answer, "answer"

        def answer(call: Call, handler: Handler, entry: Recorded) -> Response:
            self._forget()
            told = call.headers.get(HEADER)
            if told is None:
                return real(call, handler, entry)
            stamp = json.loads(told)
            before = self.labels(stamp["key"])
            response = real(call, handler, entry)
            after = self.labels(stamp["key"])
            if response.status_code < 400:
                ticket = self.opened[stamp["key"]]
                what = f"{call.method} {call.path}"
                self.history.note(
                    "write",
                    ticket=ticket,
                    what=what,
                    status=response.status_code,
                    before=sorted(before),
                    after=sorted(after),
                    **stamp,
                )
                if after != before:
                    self.on_change(ticket, after)
            return response

        setattr(self.simulator, attribute, answer)

    def lag(self, seconds: float) -> None:
        """Let webhooks leave so much later, as everywhere: who writes has its answer before others hear of it."""
        outbox, attribute = self.simulator.outbox, "post"
        real = outbox.post

        def post(delivery: Delivery) -> Delivery:
            delivery.due = self.simulator.clock.now() + seconds
            return real(delivery)

        setattr(outbox, attribute, post)

    def _forget(self) -> None:
        """Let go of old requests and webhooks, which would fill the memory."""
        for log in (self.simulator.requests, self.simulator.outbox.log):
            if len(log) > _FORGET_AFTER:
                del log[: _FORGET_AFTER // 2]

    def finish(self) -> None:
        """Note what every ticket shows at the end."""
        for key, ticket in self.opened.items():
            self.history.note("final", ticket=ticket, labels=sorted(self.labels(key)))


@asynccontextmanager
async def open_trackers(history: History, *, lag: float = 0.0) -> AsyncIterator[Mapping[str, Tracker]]:
    """The trackers, served until the block ends; their webhooks leave `lag` seconds after what they tell of."""
    async with AsyncExitStack() as stack:
        trackers = {}
        for name, make in PLAYGROUNDS.items():
            stage = make()
            if isinstance(stage, GitHubPlayground):
                stage.simulator.hub.limits.limit = None  # an hour's quota is not what this is about
            stage.simulator.outbox.timeout = 3.0
            running = await stack.enter_async_context(serve(stage.simulator))
            proxy = await FaultProxy(to_tcp(running.port)).start()
            stack.push_async_callback(proxy.close)
            trackers[name] = Tracker(name, stage, history, proxy)
            trackers[name].record()
            trackers[name].lag(lag)
        yield trackers
