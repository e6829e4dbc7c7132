"""Error replies: what each one that Redis and Valkey know means for us, in one table.

A server that is there can still refuse: its disk is full, its replicas are gone, it has become a replica itself. That
is an outage like any other, and the client (`connection`) turns it into `StoreRefused`, which everybody who waits for
Redis waits out. Some of it a person has to mend: then the remedy stands in the log and in `agentsmith status`. What is
left is a mistake of ours, and is raised as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from redis.exceptions import InvalidResponse, NoScriptError, RedisError, ResponseError

from agentsmith.domain.errors import StoreRefused


class Means(StrEnum):
    """What an error reply means for whoever asked."""

    AWAY = "away: wait and go on"
    OPERATOR = "a person must act: say what to do, and keep trying"
    OURS = "our own mistake: raise"


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """One kind of error reply."""

    means: Means
    remedy: str = ""
    reconnect: bool = False
    """Whether the server may no longer be the one to ask: its address is looked up again, on new connections."""
    settings: bool = False
    """Whether redis.url itself is wrong: a process that starts ends with this instead of waiting."""


_AWAY: Final = ErrorReply(Means.AWAY)
_ELSEWHERE: Final = ErrorReply(Means.AWAY, reconnect=True)
_OURS: Final = ErrorReply(Means.OURS)
_CLUSTER: Final = ErrorReply(
    Means.OPERATOR, "use a server without cluster mode: agentsmith's scripts touch several keys at once"
)
_PASSWORD: Final = ErrorReply(Means.OPERATOR, "correct user and password in redis.url", settings=True)

REPLIES: Final[dict[str, ErrorReply]] = {
    # It comes back by itself.
    "LOADING": _AWAY,
    "BUSY": _AWAY,
    "TRYAGAIN": _AWAY,
    "CLUSTERDOWN": _AWAY,
    "INPROG": _AWAY,
    "NOTREADY": _AWAY,
    "NOMASTERLINK": _AWAY,
    # It is, or becomes, a replica.
    "READONLY": _ELSEWHERE,
    "MASTERDOWN": _ELSEWHERE,
    "UNBLOCKED": _ELSEWHERE,
    "REDIRECT": _ELSEWHERE,
    # Somebody has to do something.
    "NOREPLICAS": ErrorReply(Means.OPERATOR, "bring the replicas of Redis back, or lower its min-replicas-to-write"),
    "MISCONF": ErrorReply(
        Means.OPERATOR, "make room on the disk of Redis, and see in its log why it cannot write there"
    ),
    "OOM": ErrorReply(Means.OPERATOR, "raise maxmemory of Redis, or free memory there"),
    "NOAUTH": _PASSWORD,
    "WRONGPASS": _PASSWORD,
    "NOPERM": ErrorReply(
        Means.OPERATOR, "let the Redis user do this (ACL SETUSER; scripts and INFO are needed)", settings=True
    ),
    "DENIED": ErrorReply(
        Means.OPERATOR, "set a password on Redis and in redis.url, or turn its protected-mode off", settings=True
    ),
    "MOVED": _CLUSTER,
    "ASK": _CLUSTER,
    "CROSSSLOT": _CLUSTER,
    # Answers to what we should not have asked, or have asked wrongly. A script that is not known is sent again.
    "NOSCRIPT": _OURS,
    "WRONGTYPE": _OURS,
    "EXECABORT": _OURS,
    "BUSYGROUP": _OURS,
    "BUSYKEY": _OURS,
    "NOGROUP": _OURS,
    "NOTBUSY": _OURS,
    "UNKILLABLE": _OURS,
    "INVALIDOBJ": _OURS,
    "IOERR": _OURS,
    "NOPROTO": _OURS,
    "NOQUORUM": _OURS,
    "NOGOODSLAVE": _OURS,
    "NOGOODPRIMARY": _OURS,
}
"""By code, the first word of the reply. `ERR` says nothing by itself: see `PLAIN`."""

PLAIN: Final[tuple[tuple[re.Pattern[str], ErrorReply], ...]] = tuple(
    (re.compile(text, re.IGNORECASE), reply)
    for text, reply in {
        r"max number of clients": ErrorReply(Means.OPERATOR, "raise maxclients of Redis, or close other clients"),
        r"invalid password|AUTH .*without any password|sent AUTH, but no password": _PASSWORD,
        r"DB index is out of range": ErrorReply(Means.OPERATOR, "correct the database in redis.url", settings=True),
        r"script killed by user": _AWAY,
        r"accepting a client connection|problem with LDAP service": _AWAY,
    }.items()
)
"""What comes as a plain `ERR`, by its text; everything else that does is ours."""

_UNKNOWN: Final = ErrorReply(Means.OPERATOR, "see what this reply means for your kind of Redis, and mend it there")
"""A code that nobody documents: a proxy, a managed service, a newer server. To die of it would help nobody."""

_INSIDE: Final = re.compile(r"-([A-Z]{2,}) ")
"""Redis before 7 wraps what a command inside a script was answered."""
_LONGEST: Final = 300


def meaning(code: str, text: str) -> ErrorReply:
    """What an error reply with this code, and this text behind it, means."""
    if code != "ERR":
        return REPLIES.get(code, _UNKNOWN)
    inside = next((REPLIES[found] for found in _INSIDE.findall(text) if found in REPLIES), None)
    return inside or next((reply for pattern, reply in PLAIN if pattern.search(text)), _OURS)


def read(error: RedisError) -> tuple[ErrorReply, str] | None:
    """What the reply behind redis-py's error means, and its words; None when no reply is behind it."""
    while error.status_code is None and isinstance(error.__cause__, RedisError):
        error = error.__cause__  # what happens while it connects is wrapped
    if isinstance(error, InvalidResponse):
        return _UNKNOWN, str(error)
    if isinstance(error, NoScriptError):
        return REPLIES["NOSCRIPT"], str(error)
    code, text = error.status_code, str(error)  # redis-py takes the code off the text where it knows it
    if code is None:
        if not isinstance(error, ResponseError):
            return None
        code, _, text = text.partition(" ")
    return meaning(code, text), f"{code} {text}"


def refusal(error: RedisError) -> StoreRefused | None:
    """The outage that an error of redis-py stands for, if it came as a reply; None: raise it as it is."""
    found = read(error)
    if found is None or found[0].means is Means.OURS:
        return None
    reply, words = found
    return StoreRefused(words[:_LONGEST], remedy=reply.remedy, reconnect=reply.reconnect, settings=reply.settings)
