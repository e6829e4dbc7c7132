"""Faults: what can go wrong between a client and a platform, each one named, counted and matched.

A fault is armed with `simulator.inject(Fault(kind, …))` or `POST /_control/faults`. Every simulator knows:

  refuse                the connection is closed before anything is applied
  status                answered with `status`, `body` and `headers`; nothing is applied
  slow                  waits `seconds`, or until `release()`; `after=True` waits after the write was applied
  reset_mid_body        applied; the connection breaks in the middle of the answer's body
  applied_then_lost     applied; the connection breaks before the answer
  stale_read            a read answers as of `behind` versions ago
  html_instead_of_json  a proxy's page with `status` in place of the answer; nothing is applied
  malformed_json        applied; the answer's JSON is cut in half
  invalid_utf8          applied; the answer carries bytes that are no UTF-8
  huge                  applied; the answer is `size` bytes of valid JSON
  meanwhile             calls `action` right before the request is handled (`after=True`: right after): what a
                        person does between two steps of a client; in Python only
  webhook_lost          the delivery never leaves (it stands in the log as failed unless `logged=False`)
  webhook_late          the delivery waits `seconds` of simulated time, or for `release_webhooks()`
  webhook_repeated      the delivery arrives `copies` times more, with the same id
  webhook_out_of_order  the delivery waits until the next one has been sent

An answer without a body (204) gets one before it is spoilt.

A platform adds kinds of its own (`Simulator.quirk_kinds`), which its handlers consult. Of several faults of one
kind the first strikes and the others wait. A fault that names no method and no path strikes whatever its kind is
about, e.g. reads for `stale_read`.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

REQUEST_KINDS = frozenset(
    {
        "refuse",
        "status",
        "slow",
        "reset_mid_body",
        "applied_then_lost",
        "stale_read",
        "html_instead_of_json",
        "malformed_json",
        "invalid_utf8",
        "huge",
        "meanwhile",
    }
)
WEBHOOK_KINDS = frozenset({"webhook_lost", "webhook_late", "webhook_repeated", "webhook_out_of_order"})

USUAL = {"stale_read": ("^(GET|HEAD)$", "")}
"""Method and path that a kind is about, for faults that name neither."""


@dataclass(slots=True)
class Fault:
    """One way to fail. `method`, `path` and `event` are regular expressions that must be found in theirs."""

    kind: str
    method: str = ""
    path: str = ""
    event: str = ""
    """For webhooks: searched in e.g. `issues.labeled`."""
    times: int | None = 1
    """How often it strikes; None: until it is removed."""
    skip: int = 0
    """How many matches pass unharmed first."""
    probability: float = 1.0
    seed: int = 0
    status: int = 0
    """0: what is usual for the kind."""
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float | None = None
    after: bool = False
    behind: int = 1
    size: int = 64 * 1024 * 1024
    copies: int = 1
    logged: bool = True
    retry_after: int | None = None
    action: Callable[[], object] | None = None
    name: str = ""
    """Given on injection where empty; `remove_fault` takes it."""
    struck: int = 0
    _random: random.Random = field(init=False, repr=False)
    _released: asyncio.Event = field(init=False, repr=False)
    _hit: asyncio.Event = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - chance for tests, not for secrets
        self._released = asyncio.Event()
        self._hit = asyncio.Event()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Fault:
        """Read a fault from the control endpoint; an unknown field is a ValueError."""
        known = {f.name for f in fields(cls) if f.init} - {"struck", "action"}
        if unknown := set(data) - known:
            raise ValueError(f"unknown fields: {', '.join(sorted(unknown))}")
        if not isinstance(data.get("kind"), str):
            raise ValueError("a fault needs a kind")
        return cls(**data)

    def to_json(self) -> dict[str, Any]:
        """What the control endpoint lists."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init and f.name != "action"}

    @property
    def spent(self) -> bool:
        """Whether it will never strike again."""
        return self.times is not None and self.struck >= self.times

    def strikes(self) -> bool:
        """Decide about one match, counting it."""
        if self.spent:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.probability < 1.0 and self._random.random() >= self.probability:
            return False
        self.struck += 1
        self._hit.set()
        return True

    async def hit(self) -> None:
        """Wait until it has struck for the first time."""
        await self._hit.wait()

    def release(self) -> None:
        """Let whatever waits in a `slow` fault go on, now and later."""
        self._released.set()

    async def hold(self) -> None:
        """Wait as a `slow` fault does."""
        if self.seconds is None:
            await self._released.wait()
            return
        try:
            async with asyncio.timeout(self.seconds):
                await self._released.wait()
        except TimeoutError:
            return


class FaultBox:
    """The armed faults, in the order of injection."""

    def __init__(self, kinds: Iterable[str], usual: Mapping[str, tuple[str, str]]) -> None:
        self.kinds = frozenset(kinds)
        self._usual = {**USUAL, **usual}
        self._faults: list[Fault] = []
        self._numbers = itertools.count(1)

    def __iter__(self) -> Iterator[Fault]:
        return iter(list(self._faults))

    def inject(self, fault: Fault) -> Fault:
        """Arm a fault and give it a name if it has none."""
        if fault.kind not in self.kinds:
            raise ValueError(f"unknown kind of fault: {fault.kind}; known: {', '.join(sorted(self.kinds))}")
        if not fault.method and not fault.path:
            fault.method, fault.path = self._usual.get(fault.kind, ("", ""))
        for pattern in (fault.method, fault.path, fault.event):
            re.compile(pattern)
        fault.name = fault.name or f"{fault.kind}-{next(self._numbers)}"
        self._faults.append(fault)
        return fault

    def remove(self, name: str) -> bool:
        """Disarm by name; waiting requests go on. Answers whether there was such a fault."""
        found = [f for f in self._faults if f.name == name]
        for fault in found:
            fault.release()
            self._faults.remove(fault)
        return bool(found)

    def clear(self) -> None:
        """Disarm everything."""
        for fault in list(self._faults):
            self.remove(fault.name)

    def for_request(self, method: str, path: str) -> list[Fault]:
        """The faults that strike this request, one of each kind."""
        striking: dict[str, Fault] = {}
        for fault in self._faults:
            if fault.kind in WEBHOOK_KINDS or fault.kind in striking:
                continue
            if re.search(fault.method, method) and re.search(fault.path, path) and fault.strikes():
                striking[fault.kind] = fault
        return list(striking.values())

    def for_event(self, event: str) -> list[Fault]:
        """The faults that strike this webhook delivery."""
        return [f for f in self._faults if f.kind in WEBHOOK_KINDS and re.search(f.event, event) and f.strikes()]
