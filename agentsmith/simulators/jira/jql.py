"""As much JQL as a tracker's client needs: clauses joined by AND, and an order. Anything else is not understood."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from agentsmith.simulators.frame import Unsupported
from agentsmith.simulators.jira.answers import refuse
from agentsmith.simulators.jira.payloads import CATEGORIES
from agentsmith.simulators.jira.state import Issue, World, moment

_TOKEN = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|(!=|>=|<=|=|>|<|\(|\)|,)|([^\s=!<>(),"]+))')
_AGE = re.compile(r"-(\d+)([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class Query:
    """What to look for, and in which order."""

    tests: tuple[Callable[[Issue], bool], ...]
    order: tuple[tuple[str, bool], ...]
    """Fields, each with whether it falls."""

    def matches(self, issue: Issue) -> bool:
        """Whether an issue fits."""
        return all(test(issue) for test in self.tests)

    def sorted(self, issues: list[Issue]) -> list[Issue]:
        """The issues in their order; newest first where none is named."""
        found = sorted(issues, key=lambda i: i.id, reverse=not self.order)
        for field, falling in reversed(self.order):
            found.sort(key=_KEYS[field], reverse=falling)
        return found


_KEYS: dict[str, Callable[[Issue], Any]] = {
    "created": lambda i: (i.created, i.id),
    "updated": lambda i: (i.updated, i.id),
    "key": lambda i: (i.project, int(i.key.rpartition("-")[2])),
    "id": lambda i: i.id,
}
_KEYS["issuekey"] = _KEYS["key"]


def parse(text: str, world: World, now: float) -> Query:
    """Understand a query; what Jira would refuse is refused, what only we do not know is Unsupported."""
    tokens = _tokens(text)
    tests: list[Callable[[Issue], bool]] = []
    while tokens and tokens[0].lower() != "order":
        if len(tokens) < 3:
            raise refuse(400, f"Error in the JQL Query: it ends after '{tokens[-1]}'.")
        field, operator = tokens.pop(0).lower(), tokens.pop(0).lower()
        if operator == "not" and tokens and tokens[0].lower() == "in":
            operator, _ = "not in", tokens.pop(0)
        tests.append(_test(field, operator, _values(tokens, operator), world, now))
        if tokens and tokens[0].lower() == "and":
            tokens.pop(0)
        elif tokens and tokens[0].lower() != "order":
            raise Unsupported(f"JQL: {text}")
    if not tests:
        raise refuse(400, "Unbounded JQL queries are not allowed here. Please add a search restriction to your query.")
    return Query(tuple(tests), _order(tokens, text))


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise refuse(400, f"Error in the JQL Query: The character '{text[at]}' is not expected.")
        quoted, sign, word = match.groups()
        found.append(re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else sign or word)
        at = match.end()
    return found


def _values(tokens: list[str], operator: str) -> list[str]:
    if not operator.endswith("in"):
        return [tokens.pop(0)]
    if tokens.pop(0) != "(":
        raise refuse(400, "Error in the JQL Query: Expecting '('.")
    found = []
    while tokens and tokens[0] != ")":
        if (token := tokens.pop(0)) != ",":
            found.append(token)
    if not tokens:
        raise refuse(400, "Error in the JQL Query: Expecting ')'.")
    tokens.pop(0)
    return found


def _test(field: str, operator: str, values: list[str], world: World, now: float) -> Callable[[Issue], bool]:
    wanted = {value.casefold() for value in values}
    if field in ("updated", "created") and operator in (">=", ">"):
        age = _AGE.fullmatch(values[0])
        if age is None:
            raise Unsupported(f"JQL date {values[0]}")
        since = moment(now) - timedelta(**{_UNITS[age[2]]: int(age[1])})
        return lambda issue: bool(getattr(issue, field) >= since)
    if operator not in ("=", "!=", "in", "not in"):
        raise Unsupported(f"JQL operator {operator}")
    positive = operator in ("=", "in")
    if field == "project" and not wanted <= {key.casefold() for key in world.known_projects()}:
        raise refuse(400, f"The value '{values[0]}' does not exist for the field 'project'.")
    return lambda issue: bool(_shown(field, issue, world) & wanted) == positive


def _shown(field: str, issue: Issue, world: World) -> set[str]:
    """What an issue has in a field; Jira's index does not mind the case of labels."""
    status = world.project(issue.project).statuses[issue.status]
    found: dict[str, set[str]] = {
        "project": {issue.project, str(world.project(issue.project).id)},
        "labels": set(issue.labels),
        "status": {status.name, status.id},
        "statuscategory": {CATEGORIES[status.category][2], status.category},
        "key": {issue.key},
        "issuekey": {issue.key},
        "id": {str(issue.id)},
    }
    if field not in found:
        raise Unsupported(f"JQL field {field}")
    return {value.casefold() for value in found[field]}


def _order(tokens: list[str], text: str) -> tuple[tuple[str, bool], ...]:
    if not tokens:
        return ()
    if len(tokens) < 3 or tokens[1].lower() != "by":
        raise refuse(400, "Error in the JQL Query: Expecting 'by' after 'order'.")
    order: list[tuple[str, bool]] = []
    for part in " ".join(tokens[2:]).split(","):
        words = part.split()
        if not words or words[0].lower() not in _KEYS or len(words) > 2:
            raise Unsupported(f"JQL order: {text}")
        order.append((words[0].lower(), len(words) == 2 and words[1].lower() == "desc"))
    return tuple(order)
