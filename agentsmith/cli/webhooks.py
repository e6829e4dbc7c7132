"""`agentsmith webhooks …`: the platforms' side of webhooks, installed, checked and removed where a program may."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from agentsmith.cli import output, session
from agentsmith.config import Config, TrackerSettings
from agentsmith.config.names import choices
from agentsmith.daemon.open import open_trackers
from agentsmith.domain.errors import ConfigError, Refused, TrackerError
from agentsmith.domain.hooks import Hook, ManagesHooks, address, is_ours
from agentsmith.domain.tracker import Tracker


@dataclass(frozen=True, slots=True)
class Found:
    """How it stands with one tracker's webhook; `ok` decides the exit code."""

    tracker: str
    ok: bool
    outcome: str
    url: str | None
    message: str


@dataclass(frozen=True, slots=True)
class HookedTracker:
    """One tracker, and where its webhooks are to go."""

    tracker: Tracker
    settings: TrackerSettings
    public_url: str | None

    def found(self, outcome: str, message: str, *, ok: bool, url: str | None = None) -> Found:
        """What there is to say about this tracker."""
        return Found(self.tracker.name, ok, outcome, url, message)

    async def ours(self, tracker: ManagesHooks) -> list[Hook]:
        """The webhooks that call us about this tracker."""
        return [hook for hook in await tracker.hooks() if is_ours(hook.url, self.tracker.name, self.public_url)]


Work = Callable[[HookedTracker, ManagesHooks], Awaitable[Found]]


def install(file: Path | None, names: list[str], url: str | None, *, as_json: bool) -> bool:
    """Make the webhooks, or mend those that are there; False when one could not be."""
    config = session.begin(file)
    if url is None and config.server.public_url is None:
        raise ConfigError("where do platforms reach this server? Set server.public_url, or give --url https://…")
    return _all(config, names, url, _install, as_json=as_json)


def check(file: Path | None, names: list[str], url: str | None, *, as_json: bool) -> bool:
    """See whether the webhooks are there and well; False when one is not."""
    return _all(session.begin(file), names, url, _check, as_json=as_json)


def remove(file: Path | None, names: list[str], url: str | None, *, as_json: bool) -> bool:
    """Take the webhooks away; False when one could not be."""
    return _all(session.begin(file), names, url, _remove, as_json=as_json)


async def _install(case: HookedTracker, tracker: ManagesHooks) -> Found:
    secrets = case.settings.webhook_secrets()
    if not secrets:
        return case.found("no secret", f"set trackers.{case.tracker.name}.webhook_secret first", ok=False)
    there = await case.ours(tracker)
    if not there:
        hook = await tracker.install_hook(address(case.public_url or "", case.tracker.name), secrets[0])
        return case.found("installed", "it is there now", ok=True, url=hook.url)
    first, *others = there
    hook = await tracker.repair_hook(first, secrets[0])
    for other in others:
        await tracker.remove_hook(other)
    doubled = f"; {len(others)} more with the same address were removed" if others else ""
    return case.found("repaired", f"it was there, and was made right{doubled}", ok=True, url=hook.url)


async def _check(case: HookedTracker, tracker: ManagesHooks) -> Found:
    there = await case.ours(tracker)
    if not there:
        message = "there is none; make it: agentsmith webhooks install"
        return case.found("missing", message, ok=False)
    problems = list(there[0].problems)
    if len(there) > 1:
        problems.append(f"there are {len(there)} for the same tracker")
    if not case.settings.webhook_secrets() and not case.settings.insecure:
        problems.append(f"trackers.{case.tracker.name}.webhook_secret is not set, so what it sends is refused")
    if problems:
        message = f"{'; '.join(problems)}; mend it: agentsmith webhooks install"
        return case.found("broken", message, ok=False, url=there[0].url)
    return case.found("fine", "it is there and well", ok=True, url=there[0].url)


async def _remove(case: HookedTracker, tracker: ManagesHooks) -> Found:
    there = await case.ours(tracker)
    for hook in there:
        await tracker.remove_hook(hook)
    url = there[0].url if there else None
    return case.found("removed" if there else "none", "it is gone" if there else "there was none", ok=True, url=url)


def _all(config: Config, names: list[str], url: str | None, work: Work, *, as_json: bool) -> bool:
    public_url = url.rstrip("/") if url is not None else config.server.public_url
    for name in names:
        if name not in config.trackers:
            raise ConfigError(f"there is no tracker {name!r}{choices(name, config.trackers)}")

    async def each() -> list[Found]:
        async with open_trackers(config) as trackers:
            chosen = [tracker for name, tracker in trackers.items() if not names or name in names]
            cases = [HookedTracker(tracker, config.trackers[tracker.name], public_url) for tracker in chosen]
            return [await _one(case, work) for case in cases]

    found = asyncio.run(each())
    if as_json:
        output.json_result([asdict(one) for one in found])
    else:
        rows = [(one.tracker, one.outcome, one.url or "", one.message) for one in found]
        output.rows(("Tracker", "Webhook", "Address", "What there is to say"), rows)
    return all(one.ok for one in found)


async def _one(case: HookedTracker, work: Work) -> Found:
    tracker = case.tracker
    if not isinstance(tracker, ManagesHooks):
        return case.found("not needed", f"{case.tracker.platform} sends no webhooks that we could manage", ok=True)
    try:
        return await work(case, tracker)
    except Refused as error:
        page = f"docs/trackers/{case.tracker.platform}.md"
        message = (
            f"the credential may not look after webhooks ({error}); give it the right, or see {page} to do it by hand"
        )
        return case.found("not allowed", message, ok=False)
    except TrackerError as error:
        return case.found("failed", str(error), ok=False)
