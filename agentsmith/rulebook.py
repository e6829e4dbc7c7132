"""The rules in force. They are replaced as a whole when the configuration file changes, and never one by one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Final

from agentsmith.config import Config, Pipeline
from agentsmith.config import Trigger as TriggerSettings
from agentsmith.domain.filters import Filters, Query
from agentsmith.domain.gates import Policy, Trigger
from agentsmith.domain.rules import Capacity, ClaimRules

_RELOADED: Final = frozenset({"triggers", "pipelines", "allow", "claim"})
_RELOADED_OF_A_TRACKER: Final = frozenset({"allow", "capacity"})


class Rulebook:
    """What is in force now; whoever holds it sees changes at once."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.rules = rules_of(config)
        self.pipelines: dict[str, Pipeline] = dict(config.pipelines)

    @property
    def triggers(self) -> LiveTriggers:
        """The triggers in force whenever they are looked at."""
        return LiveTriggers(self)

    def replace(self, config: Config) -> list[str]:
        """Put another configuration's rules in force; answers the settings that only a restart can change."""
        self.rules = rules_of(config)
        self.pipelines.clear()
        self.pipelines.update(config.pipelines)
        return _needing_restart(self._config, config)


class LiveTriggers:
    """Iterates over the triggers that are in force at that moment."""

    def __init__(self, book: Rulebook) -> None:
        self._book = book

    @property
    def rules(self) -> ClaimRules:
        """All the rules that they are a part of."""
        return self._book.rules

    def __iter__(self) -> Iterator[Trigger]:
        return iter(self._book.rules.triggers)


def rules_of(config: Config) -> ClaimRules:
    """The rules that a configuration states."""
    exact = frozenset(name for name, settings in config.trackers.items() if settings.case_counts)
    policies = {}
    for name in config.trackers:
        allow = config.allow_for(name)
        policies[name] = Policy(
            allow.access,
            frozenset(allow.users),
            allow.bots,
            frozenset(allow.teams),
            frozenset(allow.roles),
            any_edits=allow.edits == "anyone",
        )
    return ClaimRules(
        triggers=tuple(_trigger(trigger, exact) for trigger in config.triggers),
        policies=policies,
        loop_limit=config.claim.loop_limit.claims,
        loop_window=config.claim.loop_limit.per,
        retry_backoff=config.claim.retry_backoff,
        capacity=Capacity(
            config.claim.capacity,
            {name: s.capacity for name, s in config.trackers.items() if s.capacity is not None},
            {name: p.capacity for name, p in config.pipelines.items() if p.capacity is not None},
        ),
        digest=_digest(config),
    )


def _trigger(settings: TriggerSettings, exact: frozenset[str]) -> Trigger:
    filters = Filters(
        state=settings.state or (),
        type=settings.type or (),
        assignee=settings.assignee or (),
        author=settings.author or (),
        component=settings.component or (),
        query=Query.of(settings.query) if settings.query is not None else Query(),
    )
    return Trigger(settings.label, settings.pipeline, frozenset(settings.tracker or ()), filters, exact)


def _digest(config: Config) -> str:
    """The same in every process with the same rules about who and what is let in."""
    told = {
        "triggers": [trigger.model_dump(mode="json") for trigger in config.triggers],
        "allow": {name: config.allow_for(name).model_dump(mode="json") for name in config.trackers},
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]


def _needing_restart(old: Config, new: Config) -> list[str]:
    changed = [
        name
        for name in type(old).model_fields
        if name not in _RELOADED and name != "trackers" and getattr(old, name) != getattr(new, name)
    ]
    for name in {**old.trackers, **new.trackers}:
        if _fixed(old.trackers, name) != _fixed(new.trackers, name):
            changed.append(f"trackers.{name}")
    return sorted(changed)


def _fixed(trackers: Mapping[str, object], name: str) -> dict[str, object] | None:
    settings = trackers.get(name)
    if settings is None:
        return None
    return {key: value for key, value in vars(settings).items() if key not in _RELOADED_OF_A_TRACKER}
