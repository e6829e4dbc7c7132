"""Conditions of steps: a small closed grammar, read once, and nothing that could be evaluated by accident.

    condition = term { "and" term } | term { "or" term }
    term      = "not" term | "(" condition ")" | WORD | STEP ("succeeded" | "failed" | "skipped")

`and` and `or` are not mixed without parentheses, so that nobody has to know which binds stronger.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

WORDS: Final[Mapping[str, str]] = {
    "success": "every step so far succeeded; this holds where no condition is given",
    "failure": "a step failed",
    "always": "in any case",
    "changes": "the checkout differs from its base",
    "repository": "the ticket's tracker has a repository for its code",
}
"""What a condition may ask about the run as a whole."""

_TOKEN: Final = re.compile(r"\s*([()]|[A-Za-z0-9_][A-Za-z0-9_.-]*)")
_LONGEST: Final = 500
_DEEPEST: Final = 10
_RESERVED: Final = frozenset({"and", "or", "not", "(", ")"})


class State(StrEnum):
    """How a step ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"


class Situation(Protocol):
    """What a condition is asked against."""

    def holds(self, word: str) -> bool:
        """Whether one of `WORDS` is so."""

    def state_of(self, step: str) -> State | None:
        """How the step with this id ended; None when it has not run."""


Test = Callable[[Situation], bool]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that was understood."""

    text: str
    test: Test
    steps: tuple[str, ...]
    """The ids of the steps that it asks about."""
    words: frozenset[str]
    """Which of `WORDS` it asks about."""
    stands_alone: bool
    """Whether it says itself how the run must have gone: it names a step, `success`, `failure` or `always`."""

    def holds(self, situation: Situation) -> bool:
        """Whether the step is to run."""
        if not self.stands_alone and not situation.holds("success"):
            return False
        return self.test(situation)


def parse(text: str) -> Condition:
    """The condition that the text stands for; raises ValueError with what is allowed, and nothing else."""
    reader = _Reader(text)
    test = reader.condition()
    if reader.ahead is not None:
        raise reader.wrong(f"`{reader.ahead}` is one word too many")
    return Condition(
        text=text,
        test=test,
        steps=tuple(dict.fromkeys(reader.steps)),
        words=frozenset(reader.words),
        stands_alone=bool(reader.steps) or not reader.words.isdisjoint({"success", "failure", "always"}),
    )


class _Reader:
    """Recursive descent over the words of one condition."""

    def __init__(self, text: str) -> None:
        self.steps: list[str] = []
        self.words: set[str] = set()
        self._depth = 0
        if len(text) > _LONGEST:
            raise ValueError(f"is longer than {_LONGEST} characters; split it over several steps")
        self._tokens = self._split(text)
        self.ahead: str | None = next(self._tokens, None)

    def wrong(self, why: str) -> ValueError:
        """The error that says what a condition looks like."""
        return ValueError(
            f"is not a condition: {why}. Write {', '.join(WORDS)}, or `STEP succeeded`, `STEP failed`, `STEP skipped`; "
            "join them with and, or, not and ( )"
        )

    def condition(self) -> Test:
        """A term, or several joined by the same word."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self.wrong("it is nested too deep")
        tests = [self._term()]
        joint = self.ahead if self.ahead in ("and", "or") else None
        while self.ahead == joint and joint is not None:
            self._next()
            tests.append(self._term())
        if joint is not None and self.ahead in ("and", "or"):
            raise self.wrong("`and` and `or` need parentheses between them")
        self._depth -= 1
        if len(tests) == 1:
            return tests[0]
        joined = all if joint == "and" else any
        return lambda situation: joined(test(situation) for test in tests)

    def _term(self) -> Test:
        word = self._next()
        if word is None:
            raise self.wrong("it ends too early")
        if word == "not":
            inner = self._term()
            return lambda situation: not inner(situation)
        if word == "(":
            inner = self.condition()
            if self._next() != ")":
                raise self.wrong("a parenthesis is not closed")
            return inner
        if self.ahead in tuple(State):
            return self._step(word, State(str(self._next())))
        if word in WORDS:
            self.words.add(word)
            return lambda situation: situation.holds(word)
        if word in _RESERVED:
            raise self.wrong(f"`{word}` stands where a word is missing")
        raise self.wrong(f"`{word}` is not known")

    def _step(self, step: str, state: State) -> Test:
        self.steps.append(step)
        return lambda situation: situation.state_of(step) is state

    def _next(self) -> str | None:
        taken, self.ahead = self.ahead, next(self._tokens, None)
        return taken

    def _split(self, text: str) -> Iterator[str]:
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.wrong(f"{text[at:].strip()[0]!r} has no place in it")
            yield match[1]
            at = match.end()
