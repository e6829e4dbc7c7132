"""What every command answers with `--json`: the shape of each answer, and its version.

Within a version fields are only added; where one goes, or changes its meaning, the version rises. A test holds what
commands print against these shapes, and `make docs` writes them into docs/json.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from agentsmith.bench.figures import Row
from agentsmith.cli import shapes
from agentsmith.cli.checks import Check
from agentsmith.cli.failing import Failure
from agentsmith.cli.labels import Made
from agentsmith.cli.runs import Answer
from agentsmith.cli.shapes import Shape
from agentsmith.cli.webhooks import Found
from agentsmith.config.names import choices
from agentsmith.domain.errors import ConfigError
from agentsmith.domain.lifecycle import Status
from agentsmith.pipelines.record import RunRecord
from agentsmith.store.quota import Account

ERROR: Final = "error"
"""What every command answers that fails."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of answer."""

    shape: Shape
    about: str
    version: int = 1


_TICKET: Final[Shape] = {
    "id": str,
    "key": str,
    "tracker": str,
    "title": str,
    "body": str,
    "labels": [str],
    "state": str,
    "url": str,
    "author": str,
    "revision": str,
    "updated_at": str | None,
}
_SHOWN: Final[Shape] = {
    **_TICKET,
    "comments": [{"author": str, "body": str, "created_at": str, "edited_at": str | None}],
    "blocked_by": [{"id": str, "state": str}],
}
_TRIGGER: Final[Shape] = {"label": str, "pipeline": str}
_REFUSAL: Final[Shape] = {"tracker": str, "doing": str, "since": str, "said": str, "remedy": str}
_GATE: Final[Shape] = {"gate": str, "passed": bool, "saw": str, "remedy": str}
_LOOKS: Final[Shape] = [{"first": str, "last": str, "cause": str, "outcome": str, "why": str, "gates": [_GATE]}]
_SEEN: Final[Shape] = {
    "redis": {
        "reachable": bool,
        "version": str | None,
        "where": str,
        "settling": bool | None,
        "problem": str | None,
    },
    "queued": int | None,
    "queue": (
        [
            (
                {
                    "position": int,
                    "ticket": str,
                    "tracker": str,
                    "key": str,
                    "title": str,
                    "pipeline": str,
                    "run": str,
                    "since": str,
                    "for_seconds": float,
                },
                {"position": int, "ticket": None, "problem": str},
            )
        ],
        None,
    ),
    "running": (
        [
            {
                "ticket": str,
                "tracker": str,
                "key": str,
                "run": str,
                "consumer": str,
                "since": str,
                "for_seconds": float,
                "alive": bool,
                "title": str | None,
                "pipeline": str | None,
                "step": str | None,
                "step_seconds": float | None,
            }
        ],
        None,
    ),
    "waiting": ([{"ticket": str, "until": str}], None),
    "asking": (
        [{"ticket": str, "since": str, "for_seconds": float, "question": str | None, "why": str | None}],
        None,
    ),
    "leaders": (
        [
            {
                "role": str,
                "holder": str | None,
                "since": str | None,
                "for_seconds": float | None,
                "fence": int | None,
                "last_cycle": str | None,
                "last_cycle_seconds_ago": float | None,
                "last_cycle_did": str | None,
            }
        ],
        None,
    ),
    "processes": (
        [
            {
                "name": str,
                "host": str,
                "pid": int,
                "roles": [str],
                "slots": int,
                "version": str,
                "started": str,
                "problem": str | None,
                "trouble": str | None,
            }
        ],
        None,
    ),
    "dead_letters": int | None,
    "unpublished": ([{"ticket": str, "to": str | None, "outcome": str}], None),
    "signals": int | None,
    "refused": ([_REFUSAL], None),
    "triggers": [_TRIGGER],
    "filters": [{"tracker": str, "status": Status, "filter": str}],
}
_WHY: Final[Shape] = {
    "ticket": str,
    "reachable": bool,
    "now": str | None,
    "looks": (_LOOKS, None),
    "published?": (Status, None),
    "unpublished?": str | None,
    "stop_requested?": str | None,
    "refused?": [_REFUSAL],
    "shadow?": _LOOKS,
}
_PIPELINE: Final[Shape] = {
    "name": str,
    "about": str,
    "preset": bool,
    "labels": [str],
    "needs_changes": bool,
    "env": [str],
    "steps": [{"name": str, "kind": str, "if": str, "retries": int, "with": {str: Any}}],
}
_RUN: Final[Shape] = (
    {"ticket": str, "ok": bool, "status": Status, "run": (RunRecord, {})},
    {"ticket": str, "ok": bool, "outcome": str, "message": str},
    {
        "ticket": str,
        "title": str,
        "would_run": bool,
        "gates": [_GATE],
        "pipeline": {**_PIPELINE, "agents": {str: [str]}},
        "code": ({"url": str, "branch": str}, None),
        "workspace": str,
    },
)
_LETTER: Final[Shape] = {
    "id": str,
    "at": str,
    "reason": str,
    "ticket": str | None,
    "request": ({str: Any}, None),
    "payload": str,
}
_CHECKED: Final[Shape] = {
    "ok": bool,
    "file": str | None,
    "data_dir": str,
    "redis": str | None,
    "trackers": [{"name": str, "platform": str, "project": str, "poll_interval": str}],
    "triggers": [{**_TRIGGER, "trackers": [str]}],
    "pipelines": [{"name": str, "steps": [str]}],
}
_LABELS: Final[Shape] = {
    "labels": [{"label": str, "status": Status, "means": str, "on": {str: bool | None}}],
    "triggers": [{**_TRIGGER, "on": {str: bool | None}}],
    "made": [Made],
}
_DEMO: Final[Shape] = {
    "ok": bool,
    "tracker": str,
    "tickets": [{"id": str, "key": str, "title": str, "status": str, "expected": str, "labels": [str], "killed": bool}],
    "labels": {str: [str]},
    "pull_requests": [{str: Any}],
    "timeline": [{str: Any}],
    "checks": [{"name": str, "ok": bool, "detail": str}],
    "factor": float,
    "speed": float,
    "error": str,
    "seconds": float,
    "folder": str | None,
}
_SIMULATED: Final[Shape] = {
    "platform": str,
    "url": str,
    "base_url": str,
    "token": str,
    "control": str,
    "project": str,
    "people": {str: str},
    "tickets": [str],
    "examples": {str: str},
    "config": {str: Any},
}

KINDS: Final[dict[str, Kind]] = {
    ERROR: Kind(Failure, "of any command that fails, in place of its own answer"),
    "bench": Kind({"machine": {str: str}, "passes": int, "rows": [Row]}, "what was measured, and on what"),
    "cancel": Kind(Answer, "what became of it"),
    "config check": Kind(_CHECKED, "what the configuration amounts to"),
    "dead-letters drop": Kind({"dropped": [str]}, "the ids of those that were forgotten"),
    "dead-letters list": Kind([_LETTER], "requests that nobody could run, oldest first"),
    "dead-letters retry": Kind(Answer, "what became of it"),
    "dead-letters show": Kind(_LETTER, "one of them"),
    "demo": Kind(_DEMO, "how the demo went"),
    "docs": Kind(([{"name": str, "title": str}], {"name": str, "title": str, "text": str}), "the pages, or one"),
    "doctor": Kind({"ok": bool, "checks": [Check]}, "all that was looked at"),
    "init": Kind(
        {"file": str, "config": {str: Any}, "variables": [str], "unset": [str]},
        "the file that was written, and the variables that it needs",
    ),
    "labels": Kind(_LABELS, "the labels that matter, where they exist (null: not known), and what was made"),
    "logs": Kind(
        {"run": str, "ticket": str, "pipeline": str, "state": str, "lines": [str]}, "the output of a run, by lines"
    ),
    "pipelines": Kind([_PIPELINE], "all of them"),
    "quota": Kind(
        {"reachable": bool, "credentials": ([Account], None)}, "what was spent and is left; null while no Redis is up"
    ),
    "replay": Kind(
        (
            [{"id": str, "at": str, "tracker": str, "event": str, "key": str}],
            {"delivery": str, "ticket": str, "answer": str},
        ),
        "the deliveries that are kept, or what became of one",
    ),
    "retry": Kind(Answer, "what became of it"),
    "run": Kind(_RUN, "how it ended, why it did not begin, or with --dry-run what would happen"),
    "runs": Kind(
        [{**shapes.members(RunRecord), "state": str, "ticket_status": str | None, "seconds": float}],
        "the latest first",
    ),
    "simulator": Kind(_SIMULATED, "printed once it serves"),
    "status": Kind(_SEEN, "how it stands; null where it cannot be known, because no Redis is up"),
    **{
        f"ticket {name}": Kind(_TICKET, "the ticket as it is then")
        for name in ("close", "comment", "label", "new", "reopen", "unlabel")
    },
    "ticket list": Kind([_TICKET], "those that match"),
    "ticket show": Kind(_SHOWN, "the ticket with its comments, and what it waits for"),
    **{f"webhooks {name}": Kind([Found], "each tracker's") for name in ("check", "install", "remove")},
    "why": Kind(_WHY, "why it does or does not run; `looks` is null where Redis could not be asked"),
}
"""By the command that answers so."""


def schema_of(command: str) -> dict[str, Any]:
    """The JSON schema of what the command answers; ConfigError where it answers nothing."""
    if command not in KINDS:
        raise ConfigError(f"nothing is answered with --json by {command!r}{choices(command, KINDS)}")
    kind = KINDS[command]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": name_of(command),
        "title": f"agentsmith {command} --json" if command != ERROR else "an error of agentsmith",
        "description": kind.about,
        **shapes.schema(kind.shape),
    }


def schemas() -> dict[str, dict[str, Any]]:
    """All of them, by command."""
    return {command: schema_of(command) for command in KINDS}


def name_of(command: str) -> str:
    """What names the form of the command's answer, its version included."""
    return f"urn:agentsmith:{command.replace(' ', '-')}:{KINDS[command].version}"
