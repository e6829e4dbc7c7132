"""What the simulated Redis holds, and the commands on it: those that agentsmith uses, and a few that tests use.

Values are bytes, as on a real server. A command that is not here is refused by name, so that the store cannot quietly
use something that the simulation does not simulate.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, Final, TypeVar

from redis.exceptions import ResponseError

Reply = Any
"""bytes, int, None, Status, or a list of these."""
T = TypeVar("T")


class Status(bytes):
    """A simple reply, `OK` for one; Lua sees it as a table."""


OK: Final = Status(b"OK")


class SortedSet(dict[bytes, float]):
    """Members with their scores."""

    def in_order(self) -> list[tuple[bytes, float]]:
        """By score, then by name."""
        return sorted(self.items(), key=lambda pair: (pair[1], pair[0]))


class Keyspace:
    """Keys, their values and the moments at which they lapse; `now_ms` is the server's clock."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.values: dict[bytes, Any] = {}
        self.lapse: dict[bytes, int] = {}
        self.pushed: list[bytes] = []
        """Lists that got something since somebody last looked: whoever blocks on them can be served."""

    # ---- access

    def live(self, key: bytes) -> Any:
        """The value, or None when there is none or its time has passed."""
        at = self.lapse.get(key)
        if at is not None and self._now_ms() > at:
            self.remove(key)
        return self.values.get(key)

    def remove(self, key: bytes) -> bool:
        self.lapse.pop(key, None)
        return self.values.pop(key, None) is not None

    def _typed(self, key: bytes, kind: type[T]) -> T | None:
        value = self.live(key)
        if value is not None and type(value) is not kind:
            raise ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")
        return value

    def _made(self, key: bytes, kind: type[T]) -> T:
        value = self._typed(key, kind)
        if value is None:
            value = self.values[key] = kind()
        return value

    def _tidied(self, key: bytes, value: Any) -> None:
        if not value:
            self.remove(key)

    # ---- keys

    def do_del(self, *keys: bytes) -> int:
        return sum(self.live(key) is not None and self.remove(key) for key in keys)

    def do_exists(self, *keys: bytes) -> int:
        return sum(self.live(key) is not None for key in keys)

    def do_keys(self, pattern: bytes) -> list[bytes]:
        wanted = pattern.decode("latin-1")
        return [k for k in list(self.values) if fnmatchcase(k.decode("latin-1"), wanted) and self.live(k) is not None]

    def do_scan(self, cursor: bytes, *options: bytes) -> list[Reply]:
        """All at once: a server may answer as much as it likes, and the count is only a hint."""
        if _whole(cursor) != 0:
            raise ResponseError("ERR invalid cursor")
        named = dict(zip((name.upper() for name in options[::2]), options[1::2], strict=True))
        return [b"0", self.do_keys(named.get(b"MATCH", b"*"))]

    def do_type(self, key: bytes) -> Status:
        names = {bytes: b"string", list: b"list", dict: b"hash", SortedSet: b"zset", type(None): b"none"}
        return Status(names[type(self.live(key))])

    def do_pexpire(self, key: bytes, ms: bytes) -> int:
        if self.live(key) is None:
            return 0
        if _whole(ms) <= 0:
            self.remove(key)
        else:
            self.lapse[key] = self._now_ms() + _whole(ms)
        return 1

    def do_pttl(self, key: bytes) -> int:
        if self.live(key) is None:
            return -2
        return self.lapse[key] - self._now_ms() if key in self.lapse else -1

    def do_flushall(self) -> Status:
        self.values.clear()
        self.lapse.clear()
        return OK

    # ---- strings

    def do_get(self, key: bytes) -> bytes | None:
        return self._typed(key, bytes)

    def do_mget(self, *keys: bytes) -> list[bytes | None]:
        return [value if type(value := self.live(key)) is bytes else None for key in keys]

    def do_set(self, key: bytes, value: bytes, *options: bytes) -> Status | None:
        known, lapse, words = self.live(key), None, iter(options)
        for word in words:
            match word.upper():
                case b"NX" if known is not None:
                    return None
                case b"XX" if known is None:
                    return None
                case b"NX" | b"XX":
                    pass
                case b"PX":
                    lapse = _whole(next(words))
                case b"EX":
                    lapse = _whole(next(words)) * 1000
                case _:
                    raise ResponseError("ERR syntax error")
        self.remove(key)
        self.values[key] = value
        if lapse is not None:
            if lapse <= 0:
                raise ResponseError("ERR invalid expire time in 'set' command")
            self.lapse[key] = self._now_ms() + lapse
        return OK

    def do_incrby(self, key: bytes, by: bytes) -> int:
        number = _whole(self._typed(key, bytes) or b"0") + _whole(by)
        self.values[key] = b"%d" % number
        return number

    def do_incr(self, key: bytes) -> int:
        return self.do_incrby(key, b"1")

    # ---- hashes

    def _hash(self, key: bytes) -> dict[bytes, bytes]:
        return self._typed(key, dict) or {}

    def do_hget(self, key: bytes, field: bytes) -> bytes | None:
        return self._hash(key).get(field)

    def do_hmget(self, key: bytes, *fields: bytes) -> list[bytes | None]:
        held = self._hash(key)
        return [held.get(field) for field in fields]

    def do_hgetall(self, key: bytes) -> list[bytes]:
        return [part for pair in self._hash(key).items() for part in pair]

    def do_hkeys(self, key: bytes) -> list[bytes]:
        return list(self._hash(key))

    def do_hvals(self, key: bytes) -> list[bytes]:
        return list(self._hash(key).values())

    def do_hexists(self, key: bytes, field: bytes) -> int:
        return int(field in self._hash(key))

    def do_hlen(self, key: bytes) -> int:
        return len(self._hash(key))

    def do_hset(self, key: bytes, *pairs: bytes) -> int:
        if not pairs or len(pairs) % 2:
            raise ResponseError("ERR wrong number of arguments for 'hset' command")
        held = self._made(key, dict)
        before = len(held)
        held.update(zip(pairs[::2], pairs[1::2], strict=True))
        return len(held) - before

    def do_hsetnx(self, key: bytes, field: bytes, value: bytes) -> int:
        return 0 if field in self._hash(key) else self.do_hset(key, field, value)

    def do_hincrby(self, key: bytes, field: bytes, by: bytes) -> int:
        held = self._made(key, dict)
        number = _whole(held.get(field, b"0")) + _whole(by)
        held[field] = b"%d" % number
        return number

    def do_hdel(self, key: bytes, *fields: bytes) -> int:
        held = self._hash(key)
        gone = sum(held.pop(field, None) is not None for field in fields)
        self._tidied(key, held)
        return gone

    # ---- lists

    def _list(self, key: bytes) -> list[bytes]:
        return self._typed(key, list) or []

    def do_rpush(self, key: bytes, *values: bytes) -> int:
        held = self._made(key, list)
        held.extend(values)
        self.pushed.append(key)
        return len(held)

    def do_lpush(self, key: bytes, *values: bytes) -> int:
        held = self._made(key, list)
        held[:0] = reversed(values)
        self.pushed.append(key)
        return len(held)

    def do_lpop(self, key: bytes) -> bytes | None:
        return self._pop(key, b"LEFT")

    def do_rpop(self, key: bytes) -> bytes | None:
        return self._pop(key, b"RIGHT")

    def _pop(self, key: bytes, end: bytes) -> bytes | None:
        held = self._list(key)
        if not held:
            return None
        value = held.pop(0 if end.upper() == b"LEFT" else -1)
        self._tidied(key, held)
        return value

    def do_lmove(self, source: bytes, target: bytes, out: bytes, into: bytes) -> bytes | None:
        self._list(target)
        value = self._pop(source, out)
        if value is not None:
            (self.do_lpush if into.upper() == b"LEFT" else self.do_rpush)(target, value)
        return value

    def do_llen(self, key: bytes) -> int:
        return len(self._list(key))

    def do_lrange(self, key: bytes, first: bytes, last: bytes) -> list[bytes]:
        return self._list(key)[_span(first, last, len(self._list(key)))]

    def do_lindex(self, key: bytes, index: bytes) -> bytes | None:
        held, at = self._list(key), _whole(index)
        return held[at] if -len(held) <= at < len(held) else None

    def do_lset(self, key: bytes, index: bytes, value: bytes) -> Status:
        held, at = self._list(key), _whole(index)
        if not -len(held) <= at < len(held):
            raise ResponseError("ERR index out of range")
        held[at] = value
        return OK

    def do_ltrim(self, key: bytes, first: bytes, last: bytes) -> Status:
        held = self._list(key)
        held[:] = held[_span(first, last, len(held))]
        self._tidied(key, held)
        return OK

    def do_lpos(self, key: bytes, value: bytes) -> int | None:
        held = self._list(key)
        return held.index(value) if value in held else None

    def do_lrem(self, key: bytes, count: bytes, value: bytes) -> int:
        held, limit = self._list(key), _whole(count)
        places = [at for at, found in enumerate(held) if found == value]
        if limit < 0:
            places = places[limit:]
        elif limit > 0:
            places = places[:limit]
        for at in reversed(places):
            del held[at]
        self._tidied(key, held)
        return len(places)

    # ---- sorted sets

    def _zset(self, key: bytes) -> SortedSet:
        return self._typed(key, SortedSet) or SortedSet()

    def do_zadd(self, key: bytes, *words: bytes) -> int:
        rest, options = list(words), set()
        while rest and rest[0].upper() in (b"NX", b"XX", b"CH", b"LT"):
            options.add(rest.pop(0).upper())
        pairs = [(member, _score(score)) for score, member in zip(rest[::2], rest[1::2], strict=True)]
        held = self._zset(key) if b"XX" in options else self._made(key, SortedSet)
        added = 0
        for member, score in pairs:
            known = member in held
            if (b"XX" if not known else b"NX") in options:
                continue
            if not (known and b"LT" in options and held[member] <= score):
                held[member] = score
                added += not known
        return added

    def do_zrem(self, key: bytes, *members: bytes) -> int:
        held = self._zset(key)
        gone = sum(held.pop(member, None) is not None for member in members)
        self._tidied(key, held)
        return gone

    def do_zcard(self, key: bytes) -> int:
        return len(self._zset(key))

    def do_zscore(self, key: bytes, member: bytes) -> bytes | None:
        score = self._zset(key).get(member)
        return None if score is None else number_text(score)

    def do_zrange(self, key: bytes, first: bytes, last: bytes, *options: bytes) -> list[bytes]:
        held = self._zset(key)
        return _shown(held.in_order()[_span(first, last, len(held))], options)

    def do_zrangebyscore(self, key: bytes, low: bytes, high: bytes, *options: bytes) -> list[bytes]:
        found = [pair for pair in self._zset(key).in_order() if _above(low, pair[1]) and _below(high, pair[1])]
        words = [word.upper() for word in options]
        if b"LIMIT" in words:
            at = words.index(b"LIMIT")
            skip, most = _whole(options[at + 1]), _whole(options[at + 2])
            found = found[skip : skip + most if most >= 0 else None]
            words[at : at + 3] = []
        return _shown(found, tuple(words))

    def do_zcount(self, key: bytes, low: bytes, high: bytes) -> int:
        return len(self.do_zrangebyscore(key, low, high))

    def do_zremrangebyscore(self, key: bytes, low: bytes, high: bytes) -> int:
        return self.do_zrem(key, *found) if (found := self.do_zrangebyscore(key, low, high)) else 0


COMMANDS: Final = {name.removeprefix("do_").upper().encode(): name for name in vars(Keyspace) if name.startswith("do_")}


def number_text(number: float) -> bytes:
    """A number as the server spells it: all digits of a whole one, and enough of any other to read it back."""
    if number != number or abs(number) == float("inf"):
        return b"inf" if number > 0 else b"-inf"
    return b"%d" % int(number) if number == int(number) and abs(number) < 1e17 else repr(float(number)).encode()


def _whole(text: bytes) -> int:
    try:
        return int(text)
    except ValueError:
        raise ResponseError("ERR value is not an integer or out of range") from None


def _score(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        raise ResponseError("ERR value is not a valid float") from None


def _span(first: bytes, last: bytes, length: int) -> slice:
    start, stop = _whole(first), _whole(last)
    start = max(0, start + length if start < 0 else start)
    return slice(start, stop + length + 1 if stop < 0 else stop + 1)


def _above(low: bytes, score: float) -> bool:
    return score > _score(low[1:]) if low.startswith(b"(") else score >= _score(low)


def _below(high: bytes, score: float) -> bool:
    return score < _score(high[1:]) if high.startswith(b"(") else score <= _score(high)


def _shown(pairs: list[tuple[bytes, float]], options: tuple[bytes, ...]) -> list[bytes]:
    if options and options[0].upper() == b"WITHSCORES":
        return [part for member, score in pairs for part in (member, number_text(score))]
    if options:
        raise ResponseError("ERR syntax error")
    return [member for member, _ in pairs]
