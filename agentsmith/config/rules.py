"""The rules between settings: what is fine by itself, but not together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentsmith.config.durations import Duration
from agentsmith.config.names import choices
from agentsmith.config.steps import AgentSettings, LabelSettings

if TYPE_CHECKING:
    from agentsmith.config.models import Config
    from agentsmith.config.pipelines import Trigger

Loc = tuple[str | int, ...]


def broken_rules(config: Config) -> Iterator[tuple[Loc, str]]:
    """Where each broken rule shows, and what to do about it."""
    yield from _timing(config)
    yield from _routing(config)
    yield from _steps(config)
    yield from _projects(config)
    yield from _code(config)


def _timing(config: Config) -> Iterator[tuple[Loc, str]]:
    lease, grace = config.lease, config.consumer.kill_grace
    window = Duration(lease.ttl - lease.margin)
    if window <= 0:
        yield (
            ("lease", "margin"),
            f"must be shorter than lease.ttl ({lease.ttl.text}), else the lease is never trusted; "
            "lower lease.margin or raise lease.ttl",
        )
    elif lease.renew_every >= window / 2:
        yield (
            ("lease", "renew_every"),
            f"must be below {Duration(window / 2).text}, half of lease.ttl minus lease.margin, so that one renewal "
            "may fail; lower lease.renew_every or raise lease.ttl",
        )
    if lease.margin < 2 * grace:
        yield (
            ("lease", "margin"),
            f"must be at least {Duration(2 * grace).text}, twice consumer.kill_grace, so that children are gone "
            "before the lease is; raise lease.margin or lower consumer.kill_grace",
        )
    for name in ("claim_lock", "leader"):
        if getattr(lease, name) <= lease.margin:
            yield (
                ("lease", name),
                f"must be longer than lease.margin ({lease.margin.text}), else it is never trusted; "
                f"raise lease.{name} or lower lease.margin",
            )


def _routing(config: Config) -> Iterator[tuple[Loc, str]]:
    seen: dict[tuple[str, str], int] = {}
    for index, trigger in enumerate(config.triggers):
        at: Loc = ("triggers", index)
        if config.labels.status_of(trigger.label) is not None:
            yield (
                (*at, "label"),
                f"`{trigger.label}` is a lifecycle label, which agentsmith sets itself; use another name, "
                f"such as `{config.label_prefix}`",
            )
        if trigger.pipeline not in config.pipelines:
            yield (
                (*at, "pipeline"),
                f"there is no pipeline `{trigger.pipeline}`{choices(trigger.pipeline, config.pipelines)}",
            )
        for tracker in trigger.tracker or ():
            if tracker not in config.trackers:
                yield (
                    (*at, "tracker"),
                    f"there is no tracker `{tracker}`{choices(tracker, config.trackers)}",
                )
        yield from _filters(config, index, trigger)
        yield from _shadowed(config, index, trigger, seen)


def _filters(config: Config, index: int, trigger: Trigger) -> Iterator[tuple[Loc, str]]:
    """A filter that no ticket of a tracker can fit makes the trigger dead there."""
    for name, settings in config.trackers.items():
        if not trigger.applies_to(name):
            continue
        for blind in sorted(settings.unsupported_filters & set(trigger.filtered)):
            yield (
                ("triggers", index, blind),
                f"tickets of tracker `{name}` ({settings.platform}) have no {blind}, so this trigger could never "
                f"match there; name the trackers it is for in `tracker`, or remove `{blind}`",
            )


def _shadowed(
    config: Config, index: int, trigger: Trigger, seen: dict[tuple[str, str], int]
) -> Iterator[tuple[Loc, str]]:
    """Rules are tried in order: behind one without filters, another for the same label is never reached."""
    for name, settings in config.trackers.items():
        if not trigger.applies_to(name):
            continue
        label = trigger.label if settings.case_counts else trigger.label.casefold()
        first = seen.get((name, label))
        if first is not None:
            yield (
                ("triggers", index, "label"),
                f"`{trigger.label}` already starts pipeline `{config.triggers[first].pipeline}` on tracker "
                f"`{name}` (triggers[{first}]); one label starts one pipeline: put rules with filters before it",
            )
            return
        if not trigger.filtered:
            seen[(name, label)] = index


def _steps(config: Config) -> Iterator[tuple[Loc, str]]:
    if config.run.agent not in config.agents:
        yield (("run", "agent"), f"there is no agent `{config.run.agent}`{choices(config.run.agent, config.agents)}")
    triggers = {trigger.label.casefold() for trigger in config.triggers}
    for name, pipeline in config.pipelines.items():
        for index, step in enumerate(pipeline.steps):
            at: Loc = ("pipelines", name, "steps", index)
            match step.settings:
                case AgentSettings(agent=str(agent)) if agent not in config.agents:
                    yield (at, f"there is no agent `{agent}`{choices(agent, config.agents)}")
                case LabelSettings(add=add, remove=remove):
                    for label in (*add, *remove):
                        if config.labels.status_of(label) is not None:
                            yield (
                                at,
                                f"`{label}` is a lifecycle label, which only agentsmith itself may set or remove",
                            )
                        elif label.casefold() in triggers:
                            yield (at, f"`{label}` starts a pipeline, and is people's alone; use another label")


def _projects(config: Config) -> Iterator[tuple[Loc, str]]:
    seen: dict[str, str] = {}
    for name, settings in config.trackers.items():
        first = seen.setdefault(settings.project_identity(), name)
        if first != name:
            yield (
                ("trackers", name),
                f"watches the same project as trackers.{first} ({settings.project_identity()}); keep one of the two",
            )


def _code(config: Config) -> Iterator[tuple[Loc, str]]:
    known = config.repositories
    for name, settings in config.trackers.items():
        if settings.code is None:
            if name in known and settings.own_repository() is not None:
                # Logs and caches call a repository by its name, or by that of the tracker beside which it lies.
                yield (
                    ("repositories", name),
                    f"is the name of a tracker with a repository of its own; rename it, or set trackers.{name}.code",
                )
        elif not known:
            yield (
                ("trackers", name, "code"),
                f"there is no repository `{settings.code}`; describe it under `repositories`",
            )
        elif settings.code not in known:
            yield (
                ("trackers", name, "code"),
                f"there is no repository `{settings.code}`{choices(settings.code, known)}",
            )
