"""A script is declared once: what Lua finds, what is sent, and how the answer is read all follow from that."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import pytest
from lupa.lua51 import LuaRuntime

from agentsmith.domain.ticket import TicketId
from agentsmith.store.keys import Key
from agentsmith.store.scripting import Script
from tests.support.scripts import ScriptType, all_scripts, given


class Word(StrEnum):
    YES = "yes"
    NO = "no"


@dataclass(frozen=True)
class Pair:
    name: str
    numbers: list[int]


class Everything(Script[str]):
    """One parameter of each kind, not in the order in which they are sent."""

    ticket: TicketId
    lock: Key
    count: int
    others: Sequence[Key]
    ratio: float
    fence: Key
    front: bool
    fields: Sequence[str]
    lives_ms = 60_000
    greeting = 'say "hello"'
    uses = ("local function twice(number) return 2 * number end",)
    lua = "return ticket"


ASKED = Everything(
    ticket=TicketId("local/1"), lock=Key("k:lock"), count=7, others=[Key("k:a"), Key("k:b")], ratio=0.25,
    fence=Key("k:fence"), front=True, fields=["to", "done"],
)  # fmt: skip


class Recorder:
    """Redis as far as it matters here: what it was sent, and an answer."""

    def __init__(self, reply: Any) -> None:
        self.reply, self.sent = reply, list[tuple[Any, ...]]()

    async def evalsha(self, *words: Any) -> Any:
        self.sent.append(words)
        return self.reply


async def asked(script: Script[Any], reply: Any) -> tuple[Any, tuple[Any, ...]]:
    redis = Recorder(reply)
    answer = await script.on(redis)  # type: ignore[arg-type]
    return answer, redis.sent[0]


async def test_keys_come_first_and_a_list_is_the_last_of_its_kind() -> None:
    _, sent = await asked(ASKED, "")
    assert sent[1:] == (4, "k:lock", "k:fence", "k:a", "k:b", "local/1", 7, 0.25, 1, "to", "done")


async def test_lua_finds_each_parameter_under_its_name_and_of_its_type() -> None:
    _, (_, count, *words) = await asked(ASKED, "")
    lua = LuaRuntime(unpack_returned_tuples=True)
    names = "lock, fence, others[1], others[2], #others, ticket, count, ratio, front, fields[2], lives_ms, greeting"
    program = ASKED.program.text.removesuffix(Everything.lua) + f"return {{{names}, twice(4)}}"
    texts = [word if isinstance(word, str) else f"{word:g}" for word in words]
    values = lua.eval(f"function(KEYS, ARGV) {program} end")(lua.table(*texts[:count]), lua.table(*texts[count:]))
    assert list(values.values()) == [
        "k:lock", "k:fence", "k:a", "k:b", 2, "local/1", 7, 0.25, True, "done", 60_000, 'say "hello"', 8,
    ]  # fmt: skip


async def test_what_was_sent_can_be_told_by_name_again() -> None:
    _, (_, count, *words) = await asked(ASKED, "")
    assert given(Everything, words[:count], words[count:]) == ASKED._given | {"front": 1}


class Flag(Script[bool]):
    lua = "return 1"


class Figure(Script[float]):
    lua = "return '0.5'"


class Nothing(Script[None]):
    lua = ""


class Choice(Script[Word]):
    lua = "return 'yes'"


class Fixed(Script[Literal["held", "busy"]]):
    lua = "return 'held'"


class Many(Script[list[int]]):
    lua = "return {'1', 2}"


class Several(Script[Pair]):
    lua = "return {'a', {1, 2}}"


@pytest.mark.parametrize(
    ("script", "reply", "answer"),
    [
        (Flag(), 1, True),
        (Flag(), 0, False),
        (Flag(), None, False),
        (Figure(), "0.5", 0.5),
        (Nothing(), None, None),
        (Choice(), "no", Word.NO),
        (Fixed(), "busy", "busy"),
        (Many(), ["1", 2], [1, 2]),
        (Several(), ["a", ["1", 2]], Pair("a", [1, 2])),
    ],
)
async def test_an_answer_is_of_the_kind_that_was_declared(script: Script[Any], reply: Any, answer: Any) -> None:
    read, _ = await asked(script, reply)
    assert read == answer
    assert type(read) is type(answer)


@pytest.mark.parametrize("script", [Fixed(), Choice()])
async def test_a_word_that_was_not_declared_is_a_mistake_of_ours(script: Script[Any]) -> None:
    with pytest.raises(ValueError, match="lost"):
        await asked(script, "lost")


@dataclass(frozen=True)
class Begun:
    word: Literal["begun", "full"]
    count: int
    at: float = 0.5


class Begin(Script[Begun]):
    lua = "return {'begun', 3}"


async def test_what_lua_leaves_out_at_the_end_has_a_default() -> None:
    assert (await asked(Begin(), ["full", "3"]))[0] == Begun("full", 3, 0.5)
    assert (await asked(Begin(), ["begun", "3", "7"]))[0] == Begun("begun", 3, 7.0)


class TwoLists(Script[None]):
    some: Sequence[str]
    others: Sequence[str]
    lua = ""


def test_two_lists_of_a_kind_are_refused() -> None:
    with pytest.raises(TypeError, match="TwoLists has two lists"):
        print(TwoLists.program)


@pytest.mark.parametrize("name", all_scripts())
def test_a_script_says_which_promise_it_keeps(name: str) -> None:
    assert re.search(r"\bP\d+\b|no promise", all_scripts()[name].__doc__ or ""), f"{name} does not say what it is for"


@pytest.mark.parametrize("name", all_scripts())
def test_a_script_is_given_nothing_that_it_does_not_use(name: str) -> None:
    script = all_scripts()[name]
    constants = {word for word in vars(script) if not word.startswith("_")} - {"lua", "uses", "program"}
    unused = {word for word in {*script.__annotations__, *constants} if not re.search(rf"\b{word}\b", script.lua)}
    assert not unused


@pytest.mark.parametrize("name", all_scripts())
def test_a_script_counts_on_no_position(name: str) -> None:
    assert not re.search(r"\bKEYS\b|\bARGV\b|\{\{", all_scripts()[name].lua)


KEPT: Final = {"seen_commands.begin": {"begun", "done"}}
"""Words that are not written in the script, because it answers what was kept."""


def declared_words(script: ScriptType) -> set[str]:
    """The closed set of words that the script may answer, or that its answer begins with."""
    [base] = script.__orig_bases__  # type: ignore[attr-defined]
    [answer] = get_args(base)
    if is_dataclass(answer):
        answer = get_type_hints(answer)[fields(answer)[0].name]
    if get_origin(answer) is Literal:
        return set(get_args(answer))
    return {str(word) for word in answer} if isinstance(answer, type) and issubclass(answer, StrEnum) else set()


@pytest.mark.parametrize("name", [name for name, script in all_scripts().items() if declared_words(script)])
def test_a_script_answers_the_words_that_it_declares_and_no_others(name: str) -> None:
    answers = [line.partition("return ")[2] for line in all_scripts()[name].lua.splitlines() if "return " in line]
    words = [answer.partition(",")[0] if answer.startswith("{") else answer for answer in answers]
    said = {word for answer in words for word in re.findall(r"'([^']+)'", answer)}
    assert said | KEPT.get(name, set()) == declared_words(all_scripts()[name])
