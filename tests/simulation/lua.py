"""Lua as a Redis server runs it: the 5.1 language, `redis.call`, `cjson`, and the two conversions in between."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from lupa.lua51 import LuaRuntime, lua_type
from redis.exceptions import ResponseError

from tests.simulation.data import Reply, Status, number_text

Call = Callable[[tuple[bytes, ...]], Reply]
"""Runs one command on the server that the script runs on."""

_DEEPEST: Final = 1000
_JSON: Final = json.JSONDecoder(parse_int=float)
_STRICT: Final = b"""
setmetatable(_G, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
  __newindex = function(_, name)
    error("Attempt to modify a readonly table: " .. tostring(name), 2)
  end,
})
"""


class LuaEngine:
    """One interpreter. Scripts are compiled once; each run is given the server that it works on."""

    def __init__(self) -> None:
        self._lua: Any = LuaRuntime(encoding=None, unpack_returned_tuples=True)
        self._call: Call | None = None
        self._compiled: dict[bytes, Any] = {}
        names = self._lua.globals()
        table = self._lua.table
        names[b"redis"] = table()
        names[b"redis"][b"call"] = self._called
        names[b"redis"][b"pcall"] = self._called_with_care
        names[b"cjson"] = table()
        names[b"cjson"][b"encode"] = self._encoded
        names[b"cjson"][b"decode"] = self._decoded
        names[b"cjson"][b"null"] = self._null = object()
        for unsafe in (b"os", b"io", b"require", b"dofile", b"loadfile", b"package", b"python", b"print"):
            names[unsafe] = None
        self._lua.execute(_STRICT)

    def run(self, text: bytes, keys: Sequence[bytes], args: Sequence[bytes], call: Call) -> Reply:
        """Run a script and answer what a client would get."""
        script = self._compiled.get(text)
        if script is None:
            script = self._compiled[text] = self._lua.eval(b"function(KEYS, ARGV)\n" + text + b"\nend")
        table, self._call = self._lua.table, call
        try:
            return self._reply(script(table(*keys), table(*args)))
        finally:
            self._call = None

    def _called(self, *words: object) -> object:
        assert self._call is not None
        reply = self._call(tuple([word if type(word) is bytes else _argument(word) for word in words]))
        return reply if type(reply) is bytes or type(reply) is int else self._to_lua(reply)

    def _called_with_care(self, *words: object) -> object:
        try:
            return self._called(*words)
        except ResponseError as error:
            return self._lua.table_from({b"err": str(error).encode()})

    def _to_lua(self, reply: Reply) -> object:
        if reply is None:
            return False
        if type(reply) is list:
            return self._lua.table(*map(self._to_lua, reply))
        if type(reply) is Status:
            return self._lua.table_from({b"ok": bytes(reply)})
        return reply

    def _reply(self, value: Any) -> Reply:
        """Numbers lose their fraction, false and nil are the same, and a list ends at its first nil."""
        kind = type(value)
        if kind is bytes or kind is int:
            return value
        if value is None or value is False:
            return None
        if kind is float or kind is bool:
            return int(value)
        if (error := value[b"err"]) is not None:
            raise ResponseError(error.decode())
        if (status := value[b"ok"]) is not None:
            return Status(status)
        items, at = [], 1
        while (item := value[at]) is not None:
            items.append(self._reply(item))
            at += 1
        return items

    # ---- cjson

    def _encoded(self, value: Any) -> bytes:
        return (
            json.dumps(self._plain(value), separators=(",", ":"), ensure_ascii=False)
            .replace("/", "\\/")
            .encode("utf-8", "surrogateescape")
        )

    def _plain(self, value: Any) -> Any:
        if value is self._null or value is None:
            return None
        if isinstance(value, bytes):
            return value.decode("utf-8", "surrogateescape")
        if lua_type(value) != "table":
            return value
        pairs = list(value.items())
        if pairs and all(isinstance(key, int) for key, _ in pairs):
            return [self._plain(item) for _, item in sorted(pairs)]
        return {self._plain(key): self._plain(item) for key, item in pairs}

    def _decoded(self, text: bytes) -> Any:
        try:
            return self._table(_JSON.decode(text.decode("utf-8", "surrogateescape")), 0)
        except (ValueError, RecursionError) as error:
            raise ResponseError(f"cjson: {error}") from None

    def _table(self, value: Any, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError("too many nested data structures")
        if value is None:
            return self._null
        if isinstance(value, str):
            return value.encode("utf-8", "surrogateescape")
        if isinstance(value, list):
            return self._lua.table(*(self._table(item, depth + 1) for item in value))
        if isinstance(value, dict):
            return self._lua.table_from({k.encode(): self._table(item, depth + 1) for k, item in value.items()})
        return value


def _argument(word: object) -> bytes:
    if isinstance(word, bool) or not isinstance(word, int | float):
        raise ResponseError("Lua redis lib command arguments must be strings or integers")
    return number_text(word)


@functools.cache
def engine() -> LuaEngine:
    """The interpreter of this process: compiling is dear, and a script keeps nothing between two runs."""
    return LuaEngine()
