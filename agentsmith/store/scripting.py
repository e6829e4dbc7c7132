"""Typed Lua scripts: each atomic step of the store is declared once, as a subclass of `Script`.

    class Release(Script[bool]):
        '''Give a key up if it is still ours (P1).'''

        lock: Key
        token: str
        lua = "return redis.call('GET', lock) == token and redis.call('DEL', lock) or 0"

    released = await Release(lock=keys.claim_lock(…), token="…").on(redis)

The annotations are what the script is given: a `Key` goes into KEYS, anything else into ARGV. Lua finds each one as a
local of the same name, generated from the same annotation: a number for int and float, a boolean for bool, text for
all the rest, a table of keys or texts for a `Sequence`, which stands last among the keys or the arguments. Other class
attributes are constants and become locals too. `uses` names Lua that several scripts share (`scripts.parts`).

`Script[…]` names the answer: bool, int, float, str, None, a `Literal` of words, a StrEnum, a list, or a dataclass whose
fields stand in the order in which Lua lists them, where those with a default may be left out at the end.

Every script sees these functions:
  now_us()                     Redis time in microseconds
  text(number)                 a whole number as text, all digits (tostring would cut a fence)
  newest(fence_key)            the newest fence that was given out, 0 if none is known
  raise_fence(fence_key)       the next fence: above every earlier one, also after a flush
  settling(epoch, settling_key, ms)   whether Redis may have lost state; a new or emptied server starts the period
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from inspect import get_annotations
from types import NoneType
from typing import (
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from redis.exceptions import NoScriptError

from agentsmith.store.keys import FENCE_MS, Key
from agentsmith.store.redis_commands import Commands, Value

Answer = TypeVar("Answer")

_PRELUDE: Final = (
    f"local fence_lives_ms = {FENCE_MS}"
    + """
local function now_us()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end
local function text(number) return string.format('%.0f', number) end
local function newest(key) return tonumber(redis.call('GET', key) or '0') end
local function raise_fence(key)
  local fence = math.max(newest(key) + 1, now_us())
  redis.call('SET', key, text(fence), 'PX', fence_lives_ms)
  return fence
end
local function settling(epoch_key, settling_key, ms)
  -- A restarted server has a new run id, an emptied one has lost the key: either way what is missing now
  -- may only be missing because Redis forgot it.
  local info = redis.pcall('INFO', 'server')
  local id = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or 'unknown'
  local known = redis.call('GET', epoch_key)
  if not known or string.match(known, '^%w+') ~= id then
    redis.call('SET', epoch_key, id .. ':' .. text(now_us()))
    redis.call('SET', settling_key, '1', 'PX', ms)
  end
  return redis.call('EXISTS', settling_key) == 1
end
"""
)


class _Built:
    """A script's program, built when it is first needed."""

    def __get__(self, _: object, script: type[Script[Any]]) -> Program:
        program = _build(script)
        type.__setattr__(script, "program", program)
        return program


_OUR_OWN: Final = ("lua", "uses", "program")


@dataclass_transform(eq_default=False, kw_only_default=True)
class Script(Generic[Answer]):
    """One atomic step with what it is given; `on` carries it out."""

    lua: ClassVar[str]
    uses: ClassVar[tuple[str, ...]] = ()
    program: ClassVar[_Built] = _Built()

    def __init__(self, **given: Any) -> None:
        self._given = given

    async def on(self, redis: Commands) -> Answer:
        """Carry it out. The server learns the script on its first use, and again if it forgot it."""
        program = self.program
        count, keys_and_args = program.wire_form(self._given)
        try:
            reply = await redis.evalsha(program.sha, count, *keys_and_args)
        except NoScriptError:
            reply = await redis.eval(program.text, count, *keys_and_args)
        answer: Answer = program.read(reply)
        return answer


@dataclass(frozen=True, slots=True)
class Program:
    """What a script's declaration comes to: the Lua that runs, what it is given in which order, and its answer."""

    text: str
    sha: str
    keys: tuple[str, ...]
    args: tuple[str, ...]
    more_keys: str | None
    """The parameter that is a list of keys, if there is one; it stands behind the others. Likewise for arguments."""
    more_args: str | None
    read: Callable[[Any], Any]

    def wire_form(self, given: Mapping[str, Any]) -> tuple[int, list[Value]]:
        """How many keys there are, and keys and arguments as EVALSHA takes them."""
        words = [given[name] for name in self.keys]
        if self.more_keys:
            words += given[self.more_keys]
        count = len(words)
        args = [given[name] for name in self.args]
        words += [int(value) if type(value) is bool else value for value in args]
        if self.more_args:
            words += given[self.more_args]
        return count, words


def _build(script: type[Script[Any]]) -> Program:
    hints = get_type_hints(script)
    kinds = {name: hints[name] for name in get_annotations(script)}
    lists = {name: get_args(kind) for name, kind in kinds.items() if get_origin(kind) is Sequence}
    keys = [name for name, kind in kinds.items() if kind is Key]
    args = [name for name in kinds if name not in keys and name not in lists]
    more_keys = [name for name, of in lists.items() if of == (Key,)]
    more_args = [name for name in lists if name not in more_keys]
    if max(len(more_keys), len(more_args)) > 1:
        raise TypeError(f"{script.__name__} has two lists; nothing says where the first one ends")
    constants = {name: value for name, value in vars(script).items() if name[0] != "_" and name not in _OUR_OWN}
    lines = [f"local {name} = {json.dumps(value)}" for name, value in constants.items()]
    lines += [f"local {name} = KEYS[{at}]" for at, name in enumerate(keys, 1)]
    lines += [_lua_list(name, "KEYS", len(keys)) for name in more_keys]
    lines += [f"local {name} = {_lua_value(kinds[name], at)}" for at, name in enumerate(args, 1)]
    lines += [_lua_list(name, "ARGV", len(args)) for name in more_args]
    text = "\n".join((_PRELUDE, *script.uses, *lines, script.lua))
    [base] = script.__orig_bases__  # type: ignore[attr-defined]  # what `Script[...]` leaves behind
    [answer] = get_args(base)
    return Program(
        text=text,
        sha=hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(),
        keys=tuple(keys),
        args=tuple(args),
        more_keys=next(iter(more_keys), None),
        more_args=next(iter(more_args), None),
        read=_reader(answer),
    )


def _lua_value(kind: Any, at: int) -> str:
    if kind in (int, float):
        return f"tonumber(ARGV[{at}])"
    return f"ARGV[{at}] == '1'" if kind is bool else f"ARGV[{at}]"


def _lua_list(name: str, words: str, after: int) -> str:
    return f"local {name} = {{}} for i = {after + 1}, #{words} do {name}[i - {after}] = {words}[i] end"


def _reader(kind: Any) -> Callable[[Any], Any]:
    """What turns Redis' answer into one of this kind."""
    if kind is NoneType:
        return lambda _: None
    if kind in (bool, int, float, str) or (isinstance(kind, type) and issubclass(kind, Enum)):
        return kind  # type: ignore[no-any-return]
    if get_origin(kind) is Literal:
        return functools.partial(_one_of, get_args(kind))
    if get_origin(kind) is list:
        [item] = get_args(kind)
        read = _reader(item)
        return lambda reply: [read(part) for part in reply]
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        readers = [_reader(hints[field.name]) for field in fields(kind)]
        return lambda reply: kind(*[read(part) for read, part in zip(readers, reply, strict=False)])
    raise TypeError(f"a script cannot answer {kind}")


def _one_of(words: tuple[str, ...], reply: Any) -> str:
    if reply not in words:
        raise ValueError(f"a script answered {reply!r}, which is none of {', '.join(words)}")
    return str(reply)
