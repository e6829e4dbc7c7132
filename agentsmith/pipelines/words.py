"""What templates for people's eyes (commits, pull requests, comments) may say about a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agentsmith.domain.report import duration_text
from agentsmith.pipelines.context import StepContext
from agentsmith.pipelines.worker import one_line

BODY: Final = """\
{{ mention }}

{% if summary %}
{{ summary }}

{% endif %}
{% if red %}
**This is a draft, because a check is red:**
{% for found in red %}
- {{ found }}
{% endfor %}

{% endif %}
{% if conflicts %}
It had conflicts with `{{ base }}`; look at how they were resolved.

{% endif %}
Made by agentsmith: pipeline `{{ pipeline }}`, run `{{ run }}`, attempt {{ attempt }}
{%- if cost %}, {{ cost }}{% endif %}.
"""
"""The body of a pull request where none is configured."""


@dataclass(frozen=True, slots=True)
class WordTicket:
    """The ticket, for people's eyes; the title is one line."""

    id: str
    key: str
    url: str
    title: str


@dataclass(frozen=True, slots=True)
class WordPullRequest:
    """The pull request, once there is one."""

    number: str
    url: str


def values(context: StepContext) -> dict[str, object]:
    """Everything that such a template may use; a test keeps docs/pipelines.md in step."""
    request, made, record = context.request, context.pull_request, context.recorder.record
    opened = context.checkout
    return {
        "ticket": WordTicket(request.ticket, request.key, context.ticket.url, one_line(request.pinned.title)),
        "mention": context.code.forge.mention(context.ticket) if context.code else context.ticket.url,
        "pipeline": request.pipeline,
        "run": request.run,
        "attempt": request.attempt,
        "branch": opened.branch if opened else "",
        "base": opened.base if opened else "",
        "conflicts": bool(getattr(opened.merge, "paths", ())) if opened else False,
        "summary": context.summary.strip(),
        "red": tuple(context.red),
        "pull_request": WordPullRequest(made.number, made.url) if made else None,
        "cost": f"${record.usage['cost_usd']:.2f}" if record.usage.get("cost_usd") else "",
        "steps": tuple(f"{s.name}: {s.state}{_took(s.duration)}" for s in record.steps),
    }


def _took(seconds: float | None) -> str:
    return f" ({duration_text(seconds)})" if seconds is not None else ""
