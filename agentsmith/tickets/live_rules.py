"""The rules in force. They are replaced as a whole when the configuration file changes, and never one by one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from agentsmith.config import Agent, Config, Pipeline, TrackerSettings
from agentsmith.config import Trigger as TriggerSettings
from agentsmith.config.rules import broken_rules
from agentsmith.domain.errors import ConfigError
from agentsmith.domain.filters import Filters, Query
from agentsmith.domain.gates import Policy, Trigger
from agentsmith.domain.rules import Capacity, ClaimRules

RELOADED: Final = frozenset({"triggers", "pipelines", "agents", "allow", "claim", "env_file"})
RELOADED_OF_A_TRACKER: Final = frozenset({"allow", "capacity"})


class LiveRules:
    """What is in force now; whoever holds it sees changes at once."""

    def __init__(self, config: Config) -> None:
        self._opened = self._counting = self._latest = config
        """What the process was started with, whose rules count now, and what was read last."""
        self.in_force = rules_of(config)
        self.pipelines: dict[str, Pipeline] = dict(config.pipelines)
        self.agents: dict[str, Agent] = dict(config.agents)

    @property
    def triggers(self) -> LiveTriggers:
        """The triggers in force whenever they are looked at."""
        return LiveTriggers(self)

    def replace(self, config: Config) -> list[str]:
        """Put another configuration's rules in force; answers the settings that only a restart can change.

        Rules that fit only what needs a restart wait for it with that. ConfigError says that this looks like an
        accident: nothing has changed then.
        """
        _refuse_accidents(self._latest, config)
        self._latest = config
        waiting = _needing_restart(self._opened, config)
        in_force = _until_restart(self._opened, self._counting, config)
        if any(broken_rules(in_force)) or _moves_in(self._opened, config):
            return sorted({*waiting, *_differing(self._counting, config, RELOADED)})
        self._counting = in_force
        self.in_force = rules_of(in_force)
        self.pipelines.clear()
        self.pipelines.update(in_force.pipelines)
        self.agents.clear()
        self.agents.update(in_force.agents)
        return waiting


def _refuse_accidents(old: Config, new: Config) -> None:
    """A file that was emptied or cut off reads like one that asks for the defaults."""
    if "triggers" in old.model_fields_set and "triggers" not in new.model_fields_set:
        raise ConfigError("all triggers are gone from the file; to go back to the default one, write `triggers: []`")
    if "trackers" in old.model_fields_set and "trackers" not in new.model_fields_set:
        raise ConfigError("all trackers are gone from the file; to do without them, start agentsmith anew")


def _until_restart(opened: Config, before: Config, new: Config) -> Config:
    """What the process was opened with, under the rules of a new configuration.

    A tracker that is no longer in the file, or is another one under the same name there, keeps its own settings and
    triggers: what the file says is not about it.
    """
    same = [name for name, settings in opened.trackers.items() if _is_same(settings, new.trackers.get(name))]
    others = [name for name in opened.trackers if name not in same]
    triggers = new.triggers
    if new.label_prefix != opened.label_prefix and "triggers" not in new.model_fields_set:
        triggers = tuple(trigger.model_copy(update={"label": opened.label_prefix}) for trigger in triggers)
    if set(same) != set(new.trackers):
        triggers = _only_on(triggers, same)
    kept = _only_on(before.triggers, others)
    needed = {trigger.pipeline: before.pipelines[trigger.pipeline] for trigger in kept}
    agents = before.agents if kept else {opened.run.agent: before.agents[opened.run.agent]}
    return opened.model_copy(
        update={
            **{name: getattr(new, name) for name in RELOADED},
            "trackers": {
                name: _with_rules(settings, new.trackers[name]) if name in same else before.trackers[name]
                for name, settings in opened.trackers.items()
            },
            "triggers": (*triggers, *kept),
            "pipelines": {**needed, **new.pipelines},
            "agents": {**agents, **new.agents},
        }
    )


def _is_same(tracker: TrackerSettings, other: TrackerSettings | None) -> bool:
    return other is not None and tracker.project_identity() == other.project_identity()


def _with_rules(tracker: TrackerSettings, new: TrackerSettings) -> TrackerSettings:
    return tracker.model_copy(update={name: getattr(new, name) for name in RELOADED_OF_A_TRACKER})


def _only_on(triggers: Iterable[TriggerSettings], trackers: Iterable[str]) -> tuple[TriggerSettings, ...]:
    """The triggers as far as they count on these trackers."""
    named = ((trigger, tuple(name for name in trackers if trigger.applies_to(name))) for trigger in triggers)
    return tuple(trigger.model_copy(update={"tracker": names}) for trigger, names in named if names)


def _moves_in(opened: Config, new: Config) -> bool:
    """Whether code comes to tickets, or leaves them: what pipelines do with it they cannot do before the restart."""
    return any(
        (opened.code_of(name) is None) != (new.code_of(name) is None)
        for name in opened.trackers.keys() & new.trackers.keys()
    )


class LiveTriggers:
    """Iterates over the triggers that are in force at that moment."""

    def __init__(self, live: LiveRules) -> None:
        self._live = live

    @property
    def rules(self) -> ClaimRules:
        """All the rules that they are a part of."""
        return self._live.in_force

    def __iter__(self) -> Iterator[Trigger]:
        return iter(self._live.in_force.triggers)


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
    changed = _differing(old, new, type(old).model_fields.keys() - RELOADED - {"trackers"})
    for name in {**old.trackers, **new.trackers}:
        if _fixed(old.trackers, name) != _fixed(new.trackers, name):
            changed.append(f"trackers.{name}")
    return sorted(changed)


def _differing(old: Config, new: Config, names: Iterable[str]) -> list[str]:
    return [name for name in names if getattr(old, name) != getattr(new, name)]


def _fixed(trackers: Mapping[str, object], name: str) -> dict[str, object] | None:
    settings = trackers.get(name)
    if settings is None:
        return None
    return {key: value for key, value in vars(settings).items() if key not in RELOADED_OF_A_TRACKER}
