"""The part of WIQL that clients of this project speak: conditions joined by AND, each perhaps several in brackets."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agentsmith.simulators.azuredevops.answers import refuse
from agentsmith.simulators.azuredevops.state import TAGS, Revision, WorkItem, split_tags
from agentsmith.simulators.frame import Unsupported

LONGEST = 32_000
_QUERY = re.compile(
    r"\s*SELECT\s+(?P<select>\[[^\]]+\](?:\s*,\s*\[[^\]]+\])*)\s+FROM\s+WorkItems\s+WHERE\s+(?P<where>.*?)"
    r"(?:\s+ORDER\s+BY\s+\[(?P<order>[^\]]+)\](?P<desc>\s+DESC)?)?\s*",
    re.I | re.S,
)
_TEXT = r"'(?:[^']|'')*'"
_CONDITION = re.compile(
    rf"\s*\[(?P<field>[^\]]+)\]\s*(?P<op><>|>=|<=|=|>|<|CONTAINS|NOT\s+IN|IN)\s*"
    rf"(?P<value>{_TEXT}|\d+|@project|\(\s*{_TEXT}(?:\s*,\s*{_TEXT})*\s*\))\s*",
    re.I,
)
_AND = re.compile(r"AND\b", re.I)
_OR = re.compile(r"OR\b", re.I)
_BRACKET = re.compile(r"\s*\((?=\s*\[)")
_CLOSED = re.compile(r"\)\s*")

Test = Callable[[WorkItem, Revision], bool]


@dataclass(frozen=True, slots=True)
class Query:
    """A query that was understood."""

    columns: tuple[str, ...]
    tests: tuple[Test, ...]
    order: str
    descending: bool

    def selects(self, item: WorkItem, revision: Revision) -> bool:
        """Whether the work item meets all conditions."""
        return all(test(item, revision) for test in self.tests)


def parse(text: str, project: str | None, *, precise: bool) -> Query:
    """Read a query; refuses what the service would not understand either."""
    if len(text) > LONGEST:
        raise refuse(400, "TF51600: The query is too long.", "QueryException")
    found = _QUERY.fullmatch(text)
    if found is None:
        raise refuse(400, "TF51006: The query statement is missing a SELECT, FROM or WHERE clause.", "QueryException")
    rest, tests = found["where"], []
    while True:
        if bracket := _BRACKET.match(rest):
            either, rest = _joined(rest[bracket.end() :], _OR, project, precise=precise)
            rest = rest[_expected(_CLOSED, rest).end() :]
            tests.append(_any_of(either))
        else:
            test, rest = _condition(rest, project, precise=precise)
            tests.append(test)
        if not rest:
            break
        rest = rest[_expected(_AND, rest).end() :]
    columns = tuple(re.findall(r"\[([^\]]+)\]", found["select"]))
    return Query(columns, tuple(tests), found["order"] or "System.Id", bool(found["desc"]))


def _joined(rest: str, by: re.Pattern[str], project: str | None, *, precise: bool) -> tuple[list[Test], str]:
    """Conditions up to the first that is not followed by `by`, and what follows."""
    tests = []
    while True:
        test, rest = _condition(rest, project, precise=precise)
        tests.append(test)
        joined = by.match(rest)
        if joined is None:
            return tests, rest
        rest = rest[joined.end() :]


def _condition(rest: str, project: str | None, *, precise: bool) -> tuple[Test, str]:
    condition = _expected(_CONDITION, rest)
    return _test(condition, project, precise=precise), rest[condition.end() :]


def _expected(what: re.Pattern[str], rest: str) -> re.Match[str]:
    found = what.match(rest)
    if found is None:
        raise refuse(400, f"TF51005: The query has a syntax error near {rest[:30]!r}.", "QueryException")
    return found


def _any_of(tests: list[Test]) -> Test:
    return lambda item, revision: any(test(item, revision) for test in tests)


def _test(condition: re.Match[str], project: str | None, *, precise: bool) -> Test:
    name, op = condition["field"], " ".join(condition["op"].upper().split())
    value = _value(condition["value"], project)
    if name == "System.Id" and op == ">":
        return lambda item, _: item.id > value
    if name == "System.TeamProject" and op == "=":
        return lambda item, _: item.project.casefold() == str(value).casefold()
    if name == TAGS and op == "CONTAINS":
        return lambda _, revision: (
            str(value).casefold() in [t.casefold() for t in split_tags(revision.fields.get(TAGS))]
        )
    if name == "System.State" and op in ("IN", "NOT IN"):
        names = {str(state).casefold() for state in value}
        return lambda _, revision: (str(revision.fields["System.State"]).casefold() in names) == (op == "IN")
    if name == "System.ChangedDate" and op == ">=":
        since = _date(str(value), precise=precise)
        return lambda _, revision: revision.at >= since
    raise Unsupported(f"[{name}] {op} in a query")


def _value(text: str, project: str | None) -> Any:
    if text.lower() == "@project":
        if project is None:
            raise refuse(400, "TF51535: @project has no value outside a project.", "QueryException")
        return project
    if text.startswith("("):
        return [_unquoted(part) for part in re.findall(_TEXT, text)]
    return _unquoted(text) if text.startswith("'") else int(text)


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")


def _date(text: str, *, precise: bool) -> datetime:
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise refuse(400, f"TF51006: The date {text!r} cannot be read.", "QueryException") from None
    given = given if given.tzinfo else given.replace(tzinfo=UTC)
    if not precise and (given.hour, given.minute, given.second) != (0, 0, 0):
        message = "You cannot supply a time with the date when running a query using date precision."
        raise refuse(400, message, "QueryException")
    return given
