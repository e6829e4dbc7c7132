"""The rules by which tickets are taken on, as the domain knows them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentsmith.domain.gates import Policy, Trigger


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many tickets may be queued and running together; what is not named has no limit."""

    total: int | None = None
    trackers: Mapping[str, int] = field(default_factory=dict)
    pipelines: Mapping[str, int] = field(default_factory=dict)

    @property
    def limits(self) -> dict[str, int]:
        """Every limit by the name of what it limits."""
        return {
            **({"all": self.total} if self.total is not None else {}),
            **{f"tracker:{name}": limit for name, limit in self.trackers.items()},
            **{f"pipeline:{name}": limit for name, limit in self.pipelines.items()},
        }

    def setting(self, name: str) -> str:
        """The setting behind one of `limits`."""
        kind, _, which = name.partition(":")
        return f"{kind}s.{which}.capacity" if which else "claim.capacity"


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """What decides whether a ticket is taken on."""

    triggers: tuple[Trigger, ...]
    policies: Mapping[str, Policy]
    loop_limit: int
    loop_window: float
    retry_backoff: float
    capacity: Capacity = Capacity()
    digest: str = ""
    """Changes when the rules do: what one set of rules turned away, another may let in."""
