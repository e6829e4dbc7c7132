"""The ETag cache: bodies that a 304 lets us use again without paying for them."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from agentsmith.bounded import Bounded

LARGEST_ENTRY: Final = 2 * 1024 * 1024
"""Bigger bodies are not worth keeping: they are rare, and a few would push out everything else."""


class Cached(NamedTuple):
    """One answer to a GET: its ETag, its body as received, and the Link header that paging needs."""

    etag: str
    body: bytes
    link: str = ""


class EtagCache(Protocol):
    """Bodies by credential and URL. May forget anything at any time; never answers for another credential.

    Plain data only: whoever implements it need not know this package.
    """

    async def load(self, credential: str, url: str) -> tuple[str, bytes, str] | None:
        """ETag, body and Link header as last saved, if they are still there; see Cached."""

    async def save(self, credential: str, url: str, *, etag: str, body: bytes, link: str) -> None:
        """Keep an answer in place of an older one; one that is too large may be dropped."""


class LocalEtags:
    """A cache for one process, bounded in bytes and in entries; what was not used for longest goes first.

    The lists that every poll reads are used all the time; tickets that have ended are what is forgotten.
    """

    def __init__(self, limit: int = 16 * 1024 * 1024, most: int = 1000) -> None:
        self._limit = limit
        self._size = 0
        self._entries: Bounded[tuple[str, str], Cached] = Bounded(most)

    async def load(self, credential: str, url: str) -> Cached | None:
        """See EtagCache."""
        key = (credential, url)
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    async def save(self, credential: str, url: str, *, etag: str, body: bytes, link: str) -> None:
        """See EtagCache."""
        cached = Cached(etag, body, link)
        self._forget((credential, url))
        if _size(cached) > min(LARGEST_ENTRY, self._limit):
            return
        while self._entries and (self._size + _size(cached) > self._limit or len(self._entries) >= self._entries.most):
            self._forget(next(iter(self._entries)))
        self._entries[(credential, url)] = cached
        self._size += _size(cached)

    def _forget(self, key: tuple[str, str]) -> None:
        old = self._entries.pop(key, None)
        if old is not None:
            self._size -= _size(old)


def _size(cached: Cached) -> int:
    return len(cached.body) + len(cached.etag) + len(cached.link) + 200
