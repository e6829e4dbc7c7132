"""What a trigger may ask of a ticket beside its label, and which of several rules counts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentsmith.domain import gates
from agentsmith.domain.filters import Filters, Query
from agentsmith.domain.gates import Gate, Trigger
from agentsmith.domain.ticket import Ticket, TicketId


def a_ticket(*labels: str, **changes: Any) -> Ticket:
    fields: dict[str, Any] = {
        "id": TicketId("example/web#1"),
        "key": "1",
        "tracker": "web",
        "title": "Crash on start",
        "body": "There is a stack trace.",
        "url": "",
        "labels": frozenset(labels),
        "open": True,
        "revision": "1",
        "author": "Ann",
        "assignees": frozenset({"bob"}),
        "state": "In Progress",
        "type": "Bug",
        "components": frozenset({"Shop\\Web\\Cart", "Docs"}),
    }
    return Ticket(**{**fields, **changes})


@pytest.mark.parametrize(
    ("filters", "misfit"),
    [
        ({}, ""),
        ({"state": ("new", "in progress")}, ""),
        ({"state": ("New",)}, "its state is 'In Progress', not 'New'"),
        ({"type": ("bug",)}, ""),
        ({"type": ("Task", "Epic")}, "its type is 'Bug', not 'Task' or 'Epic'"),
        ({"author": ("ANN",)}, ""),
        ({"author": ("eve",)}, "its author is 'Ann', not 'eve'"),
        ({"assignee": ("carol", "Bob")}, ""),
        ({"assignee": ("*",)}, ""),
        ({"assignee": ("none",)}, "its assignee is 'bob', not 'none'"),
        ({"component": ("docs",)}, ""),
        ({"component": ("shop",)}, ""),
        ({"component": ("Shop/Web",)}, ""),
        ({"component": ("Shop\\We",)}, "its component is 'Docs', 'Shop\\\\Web\\\\Cart', not 'Shop\\\\We'"),
        ({"query": Query.of("CRASH stack")}, ""),
        ({"query": Query.of('crash "stack trace"')}, ""),
        ({"query": Query.of('"trace stack"')}, "do not hold 'trace stack'"),
        ({"query": Query.of("crash -wontfix")}, ""),
        ({"query": Query.of("crash -start")}, "holds 'start'"),
        ({"type": ("Bug",), "author": ("eve",)}, "author"),
    ],
)
def test_what_fits(filters: dict[str, Any], misfit: str) -> None:
    made = Filters(**filters)
    assert bool(made) == bool(filters)
    told = made.misfit(a_ticket())
    assert (told == "") == (misfit == "")
    assert misfit in told


def test_nobody_is_an_assignee_too() -> None:
    alone = a_ticket(assignees=frozenset())
    assert Filters(assignee=("none",)).misfit(alone) == ""
    assert Filters(assignee=("none", "ann")).misfit(alone) == ""
    assert "nothing" in Filters(assignee=("*",)).misfit(alone)


@pytest.mark.parametrize("text", ["", "  ", '""', '-""'])
def test_a_query_that_asks_for_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="asks for nothing"):
        Query.of(text)


@given(st.text(max_size=60))
def test_whatever_people_type_is_a_query_or_refused(text: str) -> None:
    try:
        query = Query.of(text)
    except ValueError:
        return
    assert query.wanted or query.unwanted
    query.misfit(a_ticket())


BUGS = Trigger("agent-smith", "fix", filters=Filters(type=("Bug",)))
ANN = Trigger("agent-smith", "please-ann", filters=Filters(author=("Ann",)))
REST = Trigger("Agent-Smith", "chores")
DOCS = Trigger("docs", "docs")


@pytest.mark.parametrize(
    ("labels", "changes", "pipelines"),
    [
        (("agent-smith",), {}, ["fix"]),
        (("agent-smith",), {"type": "Task"}, ["please-ann"]),
        (("agent-smith",), {"type": "Task", "author": "bob"}, ["chores"]),
        (("agent-smith", "docs"), {}, ["fix", "docs"]),
        (("docs",), {}, ["docs"]),
        ((), {}, []),
    ],
)
def test_the_first_rule_of_a_label_that_fits_counts(
    labels: tuple[str, ...], changes: dict[str, Any], pipelines: list[str]
) -> None:
    ticket = a_ticket(*labels, **changes)
    rules = (BUGS, ANN, REST, DOCS)
    assert [trigger.pipeline for trigger in gates.chosen(ticket, rules)] == pipelines
    result = gates.is_triggered(ticket, rules)
    assert (result.gate, result.passed) == (Gate.TRIGGER, len(pipelines) == 1)


def test_a_label_whose_filters_do_not_fit_says_which() -> None:
    result = gates.is_triggered(a_ticket("agent-smith", type="Task", author="bob"), (BUGS, ANN))
    assert not result.passed
    assert "'agent-smith' is set, but its type is 'Task', not 'Bug'" in result.saw
    assert "its author is 'bob', not 'Ann'" in result.saw
    assert "filters" in result.remedy


def test_work_that_is_under_way_does_not_end_because_a_filter_no_longer_fits() -> None:
    assert gates.matching(a_ticket("agent-smith", type="Task"), (BUGS,)) == (BUGS,)


def test_case_is_as_the_platform_has_it() -> None:
    plain = Trigger("Fix", "fix")
    exact = Trigger("Fix", "fix", exact_on=frozenset({"web"}))
    assert plain.matches(a_ticket("fix"))
    assert not exact.matches(a_ticket("fix"))
    assert exact.matches(a_ticket("Fix"))
    assert exact.matches(a_ticket("fix", tracker="elsewhere"))
    # Two labels on such a platform: each with rules of its own.
    other = Trigger("fix", "other", exact_on=frozenset({"web"}))
    assert [t.pipeline for t in gates.chosen(a_ticket("fix"), (exact, other))] == ["other"]
