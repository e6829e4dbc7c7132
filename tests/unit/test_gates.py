"""The gates: who may pass, and what each says to those who may not (P10)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentsmith.domain import gates
from agentsmith.domain.gates import Gate, GateResult, Policy, Trigger
from agentsmith.domain.lifecycle import LabelSet, Status
from agentsmith.domain.ticket import Actor, Ticket, TicketId
from agentsmith.domain.tracker import Access, Labelling

FIX = Trigger("agent-smith:fix-bug", "fix-bug")
ALSO_FIX = Trigger("fix it", "fix-bug")
DOCS = Trigger("agent-smith:docs", "docs")
WEB_ONLY = Trigger("agent-smith:web", "web", frozenset({"web"}))
TRIGGERS = (FIX, ALSO_FIX, DOCS, WEB_ONLY)


def a_ticket(*labels: str, **changes: Any) -> Ticket:
    fields: dict[str, Any] = {
        "id": TicketId("local/tickets#1"),
        "key": "1",
        "tracker": "local",
        "title": "t",
        "body": "b",
        "url": "",
        "labels": frozenset(labels),
        "open": True,
        "revision": "1",
    }
    return Ticket(**{**fields, **changes})


def judged(result: GateResult) -> bool:
    """Whether the gate is open; a closed one always says what to do."""
    assert result.saw
    assert bool(result.remedy) != result.passed
    return result.passed


@pytest.mark.parametrize(
    ("ticket", "passed", "saw"),
    [
        (a_ticket(), True, "open"),
        (a_ticket(open=False), False, "closed"),
        (a_ticket(pull_request=True), False, "pull request"),
        (a_ticket(pull_request=True, open=False), False, "pull request"),
    ],
)
def test_only_an_open_ticket(ticket: Ticket, passed: bool, saw: str) -> None:
    result = gates.is_open(ticket)
    assert (result.gate, judged(result)) == (Gate.OPEN, passed)
    assert saw in result.saw


@pytest.mark.parametrize(
    ("labels", "tracker", "pipelines"),
    [
        ((), "local", []),
        (("bug", "agent-smith"), "local", []),
        (("agent-smith:fix-bug",), "local", ["fix-bug"]),
        (("Agent-Smith:FIX-bug",), "local", ["fix-bug"]),
        (("agent-smith:fix-bug", "fix it"), "local", ["fix-bug"]),
        (("agent-smith:fix-bug", "agent-smith:docs"), "local", ["fix-bug", "docs"]),
        (("agent-smith:web",), "local", []),
        (("agent-smith:web",), "web", ["web"]),
    ],
)
def test_a_trigger_is_matched_by_label_and_place(labels: tuple[str, ...], tracker: str, pipelines: list[str]) -> None:
    ticket = a_ticket(*labels, tracker=tracker)
    assert [match.pipeline for match in gates.matching(ticket, TRIGGERS)] == pipelines
    assert [match.pipeline for match in gates.chosen(ticket, TRIGGERS)] == pipelines
    result = gates.is_triggered(ticket, TRIGGERS)
    assert (result.gate, judged(result)) == (Gate.TRIGGER, len(pipelines) == 1)


def test_a_missing_trigger_names_those_there_are() -> None:
    assert "'agent-smith:docs', 'agent-smith:fix-bug'" in gates.is_triggered(a_ticket(), (FIX, DOCS)).remedy
    assert "no trigger is configured" in gates.is_triggered(a_ticket(), ()).remedy


def test_two_pipelines_at_once_are_named() -> None:
    saw = gates.is_triggered(a_ticket(FIX.label, DOCS.label), TRIGGERS).saw
    assert FIX.label in saw
    assert DOCS.label in saw


@pytest.mark.parametrize(
    ("label", "passed", "remedy"),
    [
        ("bug", True, ""),
        ("agent-smith:pending", True, ""),
        ("agent-smith:bug", True, ""),
        ("agent-smith:enqueued", False, "nothing"),
        ("agent-smith:in-progress", False, "nothing"),
        ("agent-smith:waiting", False, "agentsmith retry 1"),
        ("agent-smith:done", False, "'agent-smith:done'"),
        ("agent-smith:failed", False, "'agent-smith:failed'"),
        ("old:done", False, "agentsmith retry"),
    ],
)
def test_only_a_pending_ticket(label: str, passed: bool, remedy: str) -> None:
    result = gates.is_pending(a_ticket(label), LabelSet(former_prefixes=("old",)))
    assert (result.gate, judged(result)) == (Gate.STATUS, passed)
    assert remedy in result.remedy


@given(st.frozensets(st.sampled_from(Status)))
def test_one_other_label_is_enough_to_be_not_pending(shown: frozenset[Status]) -> None:
    labels = LabelSet()
    result = gates.is_pending(a_ticket(*(labels.label(status) for status in shown)), labels)
    assert result.passed == (shown <= {Status.PENDING})


def set_by(name: str = "Ann", access: Access = Access.WRITE, *, bot: bool = False) -> Labelling:
    return Labelling(Actor(id="7", name=name, bot=bot), access)


@pytest.mark.parametrize(
    ("labelling", "policy", "passed"),
    [
        (None, Policy(), False),
        (None, Policy(access=Access.NONE, users=frozenset({"ann"}), bots=True), False),
        (set_by(), Policy(), True),
        (set_by(access=Access.ADMIN), Policy(), True),
        (set_by(access=Access.TRIAGE), Policy(), False),
        (set_by(access=Access.TRIAGE), Policy(access=Access.TRIAGE), True),
        (set_by(access=Access.NONE), Policy(access=Access.NONE), True),
        (set_by(access=Access.NONE), Policy(users=frozenset({"ANN"})), True),
        (set_by(access=Access.NONE), Policy(users=frozenset({"annabel"})), False),
        (set_by(bot=True), Policy(), False),
        (set_by(bot=True), Policy(bots=True), True),
        (set_by(bot=True, access=Access.READ), Policy(bots=True), False),
        (set_by(bot=True), Policy(users=frozenset({"ann"})), True),
    ],
)
def test_not_everyone_may_trigger(labelling: Labelling | None, policy: Policy, passed: bool) -> None:
    result = gates.is_allowed(labelling, f"set {FIX.label!r}", policy)
    assert (result.gate, judged(result)) == (Gate.ACTOR, passed)
    assert FIX.label in result.saw


@given(st.sampled_from(Access), st.booleans(), st.sampled_from(Access), st.booleans())
def test_more_access_never_closes_the_gate(have: Access, bot: bool, need: Access, bots: bool) -> None:
    policy = Policy(access=need, bots=bots)
    passed = [
        gates.is_allowed(set_by(access=access, bot=bot), f"set {FIX.label!r}", policy).passed
        for access in sorted(Access)
    ]
    assert passed == sorted(passed)
    assert gates.is_allowed(set_by(access=have, bot=bot), f"set {FIX.label!r}", policy).passed == (
        have >= need and (bots or not bot)
    )
