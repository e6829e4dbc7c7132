"""Conditions of steps: what they mean, and that nothing else is ever understood."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentsmith.config.conditions import WORDS, State, parse


@dataclass
class Now:
    """A situation as a test describes it."""

    words: set[str] = field(default_factory=lambda: {"success", "always"})
    states: dict[str, State] = field(default_factory=dict)

    def holds(self, word: str) -> bool:
        return word in self.words

    def state_of(self, step: str) -> State | None:
        return self.states.get(step)


FAILED = Now({"failure", "always"}, {"agent": State.SUCCEEDED, "verify": State.FAILED, "lint": State.SKIPPED})


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("success", False),
        ("not success", True),
        ("failure", True),
        ("always", True),
        ("verify failed", True),
        ("agent succeeded", True),
        ("lint skipped", True),
        ("lint succeeded", False),
        ("never-ran failed", False),
        ("not verify failed", False),
        ("not (agent failed or lint failed)", True),
        ("verify failed and agent succeeded", True),
        ("verify failed and (lint failed or always)", True),
        ("not not always", True),
        ("  failure\tand\nalways ", True),
    ],
)
def test_after_a_failure(text: str, holds: bool) -> None:
    assert parse(text).holds(FAILED) is holds


@pytest.mark.parametrize(("text", "holds"), [("changes", True), ("repository", False), ("changes and success", True)])
def test_while_all_is_well(text: str, holds: bool) -> None:
    assert parse(text).holds(Now({"success", "always", "changes"})) is holds


ABOUT_THE_RUN = ("success", "failure", "always", "agent succeeded", "agent failed", "agent skipped")
ATOMS = (*ABOUT_THE_RUN, "changes", "repository")


def small_expressions() -> Iterator[str]:
    """Everything that can be said with up to two atoms."""
    for one in ATOMS:
        yield from (one, f"not {one}", f"not not {one}")
        for other in ATOMS:
            for joint in ("and", "or"):
                both = f"{one} {joint} {other}"
                yield from (both, f"not ({both})", f"not {one} {joint} {other}", f"{one} {joint} not {other}")


def situations() -> Iterator[Now]:
    for failed, changes, repository, agent in itertools.product(
        (True, False), (True, False), (True, False), (None, *State)
    ):
        named = {"failure": failed, "success": not failed, "changes": changes, "repository": repository, "always": True}
        yield Now({word for word, holds in named.items() if holds}, {"agent": agent} if agent is not None else {})


def test_every_small_condition_means_what_it_says() -> None:
    count = 0
    for text in small_expressions():
        condition = parse(text)
        python = text
        for atom in sorted(ATOMS, key=len, reverse=True):
            python = python.replace(atom, f"said[{ATOMS.index(atom)}]")
        if not any(atom in text for atom in ABOUT_THE_RUN):
            python = f"said[0] and ({python})"  # nobody asks for changes after a failure without saying so
        meant = eval(f"lambda said: {python}")  # noqa: S307 - of our own words above
        for now in situations():
            said = [now.state_of("agent") == a.split(" ")[1] if " " in a else now.holds(a) for a in ATOMS]
            assert condition.holds(now) is meant(said), (text, now)
            count += 1
    assert count > 10_000


def test_a_condition_that_names_no_failure_does_not_hold_after_one() -> None:
    """Who writes `if: changes` means: if there are changes and all is well."""
    assert not parse("changes").holds(Now({"failure", "always", "changes"}))
    assert parse("changes and always").holds(Now({"failure", "always", "changes"}))
    assert parse("changes and agent succeeded").holds(Now({"failure", "always", "changes"}, {"agent": State.SUCCEEDED}))


def test_it_knows_what_it_asks_about() -> None:
    found = parse("changes and (a failed or b-2 skipped or a succeeded)")
    assert found.steps == ("a", "b-2")
    assert found.words == {"changes"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it ends too early"),
        ("not", "it ends too early"),
        ("(always", "a parenthesis is not closed"),
        ("always)", "`)` is one word too many"),
        ("always failure", "`failure` is one word too many"),
        ("and always", "`and` stands where a word is missing"),
        ("sunshine", "`sunshine` is not known"),
        ("always and success or failure", "`and` and `or` need parentheses"),
        ("__import__('os').system('x')", "is not known"),
        ("a == b", "'=' has no place in it"),
        ("$(touch x)", "'$' has no place in it"),
        ("(" * 50 + "always", "nested too deep"),
        ("always " * 100, "longer than 500 characters"),
    ],
)
def test_everything_else_is_refused_with_what_is_possible(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=r"is not a condition|is longer than") as told:
        parse(text)
    assert why in str(told.value)


@given(
    st.text(max_size=600)
    | st.lists(st.sampled_from([*WORDS, "and", "or", "not", "(", ")", "x", "failed"])).map(" ".join)
)
def test_any_text_is_a_condition_or_a_value_error(text: str) -> None:
    try:
        condition = parse(text)
    except ValueError:
        return
    assert condition.holds(FAILED) in (True, False)
