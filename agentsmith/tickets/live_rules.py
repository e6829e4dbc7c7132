"""The rules in force. They are replaced as a whole when the configuration file changes, and never one by one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Final

from agentsmith.config import Agent, Config, Pipeline
from agentsmith.config import Trigger as TriggerSettings
from agentsmith.config.loading import BUILT_IN_TRACKER
from agentsmith.domain.errors import ConfigError
from agentsmith.domain.filters import Filters, Query
from agentsmith.domain.gates import Policy, Trigger
from agentsmith.domain.rules import Capacity, ClaimRules

RELOADED: Final = frozenset({"triggers", "pipelines", "agents", "allow", "claim", "env_file"})
RELOADED_OF_A_TRACKER: Final = frozenset({"allow", "capacity"})


class Rulebook:
    """What is in force now; whoever holds it sees changes at once."""

    def __init__(self, config: Config) -> None:
        self._opened = self._latest = config
        """What the process was started with, and what was read last."""
        self.rules = rules_of(config)
        self.pipelines: dict[str, Pipeline] = dict(config.pipelines)
        self.agents: dict[str, Agent] = dict(config.agents)

    @property
    def triggers(self) -> LiveTriggers:
        """The triggers in force whenever they are looked at."""
        return LiveTriggers(self)

    def replace(self, config: Config) -> list[str]:
        """Put another configuration's rules in force; answers the settings that only a restart can change.

        ConfigError says that this looks like an accident: nothing has changed then.
        """
        _refuse_accidents(self._latest, config)
        in_force = _until_restart(self._opened, self._latest, config)
        self.rules = rules_of(in_force)
        self.pipelines.clear()
        self.pipelines.update(in_force.pipelines)
        self.agents.clear()
        self.agents.update(in_force.agents)
        self._latest = in_force
        return _needing_restart(self._opened, config)


def _refuse_accidents(old: Config, new: Config) -> None:
    """A file that was emptied or cut off reads like one that asks for the defaults."""
    if "triggers" in old.model_fields_set and "triggers" not in new.model_fields_set:
        raise ConfigError("all triggers are gone from the file; to go back to the default one, write `triggers: []`")
    if set(new.trackers) == {BUILT_IN_TRACKER} and BUILT_IN_TRACKER not in old.trackers:
        raise ConfigError("all trackers are gone from the file; to do without them, start agentsmith anew")


def _until_restart(opened: Config, before: Config, new: Config) -> Config:
    """The configuration whose rules count until then: trackers and labels stay as they are, and what belongs to them.

    A tracker that is no longer in the file keeps its own settings and the triggers that name it.
    """
    gone = {
        name: settings for name, settings in before.trackers.items() if name in opened.trackers.keys() - new.trackers
    }
    triggers = new.triggers
    if new.label_prefix != opened.label_prefix and "triggers" not in new.model_fields_set:
        triggers = tuple(trigger.model_copy(update={"label": opened.label_prefix}) for trigger in triggers)
    kept = tuple(
        trigger.model_copy(update={"tracker": tuple(named)})
        for trigger in before.triggers
        if (named := [name for name in trigger.tracker or () if name in gone])
    )
    needed = {trigger.pipeline: before.pipelines[trigger.pipeline] for trigger in kept}
    return new.model_copy(
        update={
            "trackers": {**gone, **new.trackers},
            "triggers": (*triggers, *kept),
            "pipelines": {**needed, **new.pipelines},
        }
    )


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
    rules = {
        "triggers": [trigger.model_dump(mode="json") for trigger in config.triggers],
        "allow": {name: config.allow_for(name).model_dump(mode="json") for name in config.trackers},
    }
    return hashlib.sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()[:12]


def _needing_restart(old: Config, new: Config) -> list[str]:
    changed = [
        name
        for name in type(old).model_fields
        if name not in RELOADED and name != "trackers" and getattr(old, name) != getattr(new, name)
    ]
    for name in {**old.trackers, **new.trackers}:
        if _fixed(old.trackers, name) != _fixed(new.trackers, name):
            changed.append(f"trackers.{name}")
    return sorted(changed)


def _fixed(trackers: Mapping[str, object], name: str) -> dict[str, object] | None:
    settings = trackers.get(name)
    if settings is None:
        return None
    return {key: value for key, value in vars(settings).items() if key not in RELOADED_OF_A_TRACKER}
