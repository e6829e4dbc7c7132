"""People: they open, label, close and reopen tickets, change their minds, retry and cancel. And their webhooks."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace
from enum import StrEnum
from typing import Final

from agentsmith.daemon.build import Role
from agentsmith.domain.request import text_hash
from agentsmith.domain.signal import Signal, SignalKind
from agentsmith.domain.stop import StopReason
from agentsmith.store import AWAY, Store
from tests.simulation.faults import Fault
from tests.simulation.tracker import BODY, NAME, PERSON, STRANGER, TRIGGER, Page, Write
from tests.simulation.weather import Kind
from tests.simulation.world import SimulatedWorld

_FOREIGN: Final = ("urgent", "agent-smith:bug")


class Act(StrEnum):
    """What a person does to a ticket."""

    TAG = "tag"
    UNTAG = "untag"
    TRIGGER = "trigger"
    UNTRIGGER = "untrigger"
    UNLABEL = "take the lifecycle label off"
    CLOSE = "close"
    REOPEN = "reopen"
    COMMENT = "comment"
    RETRY = "retry"
    CANCEL = "cancel"
    EDIT = "edit, as a stranger"


_OFTEN: Final = (Act.TRIGGER, Act.TRIGGER, Act.REOPEN, Act.RETRY, Act.UNLABEL)


class People:
    """Everybody outside of agentsmith who has a hand in the tickets."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world, self._board, self._promises = world, world.board, world.promises
        self._deliveries = itertools.count(1)
        world.changed = self._changed
        world.person = self.in_between
        self._store: Store | None = None

    def come(self, until: float) -> None:
        """Plan what they do until then, in seconds from now."""
        world, chance = self._world, self._world.chance
        self._store = world.store_outside()
        for _ in range(chance.choice((1, 1, 2, 3))):
            world.later(world.between(0, until / 3), self.open_ticket)
        for _ in range(chance.choice((0, 2, 5, 9))):
            world.later(world.between(1, until), self.act)

    def open_ticket(self) -> None:
        """Open a ticket, with the trigger more often than not."""
        key = str(len(self._board.pages) + 1)
        labels = {TRIGGER} if self._world.chance.random() < 0.8 else set[str]()
        self._board.pages[key] = Page(key, set(labels))
        self._promises.opened(key, labels)
        self._world.trace.say(f"opens {key} with {sorted(labels)}", "a person")
        self._send_webhooks(key)

    def act(self) -> None:
        """Do something to some ticket."""
        chance, pages = self._world.chance, self._board.pages
        if pages:
            self.do(chance.choice((*Act, *_OFTEN)), chance.choice(list(pages)))

    def in_between(self, fault: Fault, key: str) -> None:
        """Act in just this moment."""
        acts = {Fault.TAG: Act.TAG, Fault.UNTRIGGER: Act.UNTRIGGER, Fault.UNLABEL: Act.UNLABEL}
        self.do(acts[fault], key)

    def do(self, act: Act, key: str) -> None:
        """Do this to that ticket."""
        self._world.trace.say(f"{act} {key}", "a person")
        page = self._board.pages[key]
        match act:
            case Act.TAG | Act.TRIGGER:
                label = TRIGGER if act is Act.TRIGGER else self._world.chance.choice(_FOREIGN)
                self._promises.stories[key].foreign.add(label)
                self._board.by_person(key, add=label)
                self._promises.tagged(key, label)
            case Act.UNTAG | Act.UNTRIGGER:
                label = TRIGGER if act is Act.UNTRIGGER else self._world.chance.choice(_FOREIGN)
                self._promises.stories[key].foreign.discard(label)
                self._board.by_person(key, remove=frozenset({label}))
                self._promises.untagged(key, label)
            case Act.UNLABEL:
                self._promises.unlabelled(key)
                self._board.by_person(key, remove=self._board.labels.lifecycle(page.labels))
            case Act.CLOSE | Act.REOPEN:
                if page.open is (act is Act.CLOSE):
                    self._board.set_open(key, open=not page.open)
                    self._promises.reconsidered(key)
                    self._send_webhooks(key)
            case Act.COMMENT:
                self._send_webhooks(key)
            case Act.EDIT:
                self._board.edited(key, f"{page.title.partition(',')[0]}, edition {page.revision}", STRANGER)
                self._send_webhooks(key)
            case Act.RETRY:
                self._promises.stories[key].retries += 1
                self._promises.vetted(key)
                retry = replace(self._signal(key, SignalKind.RETRY), text=text_hash(page.title, BODY))
                self._world.as_person(self._retry(retry))
            case Act.CANCEL:
                self._world.as_person(self._cancel(key))

    async def _retry(self, retry: Signal) -> None:
        assert self._store is not None
        with contextlib.suppress(*AWAY):
            await self._store.signals.send([retry])

    async def _cancel(self, key: str) -> None:
        assert self._store is not None
        ticket = self._board.pages[key].id
        with contextlib.suppress(*AWAY):
            if await self._store.runs.lease(ticket) is not None:
                await self._store.runs.request_stop(ticket, StopReason.cancelled_by("mona"))

    # ---- webhooks

    def _changed(self, write: Write) -> None:
        if write.by == PERSON:  # those of our own writes are recognised and dropped by the receiver
            self._send_webhooks(write.key)

    def _send_webhooks(self, key: str) -> None:
        world, weather = self._world, self._world.weather
        if weather.happens(Kind.WEBHOOK_LOST, 0.4):
            return
        name = f"delivery-{next(self._deliveries)}"
        late = world.between(3, 25) if weather.happens(Kind.WEBHOOK_LATE, 0.3) else world.between(0.01, 0.5)
        world.later(late, self._deliver, key, name)
        if weather.happens(Kind.WEBHOOK_DOUBLED, 0.3):
            world.later(late + world.between(0, 5), self._deliver, key, name)

    def _deliver(self, key: str, name: str) -> None:
        """One of the receivers gets it, if there is one that lives."""
        receivers = [a for a in self._world.agents.values() if Role.RECEIVER in a.roles and a.process.alive]
        if not receivers:
            return
        agent = self._world.chance.choice(receivers)
        if agent.store is not None:
            agent.process.spawn(self._hand_over(agent.store, key, name))

    async def _hand_over(self, store: Store, key: str, name: str) -> None:
        with contextlib.suppress(*AWAY):  # answered with an error, and the platform may or may not try again
            await store.signals.hand_over(self._signal(key), delivery=name)

    def _signal(self, key: str, kind: SignalKind = SignalKind.LOOK) -> Signal:
        return Signal(NAME, key, self._board.pages[key].id, kind, cause="webhook", by="mona")
