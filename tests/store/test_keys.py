"""The table of keys is the truth: every builder has its row, and the check after each test has teeth."""

from __future__ import annotations

import inspect

import pytest

from agentsmith.domain.ticket import TicketId
from agentsmith.store import Store
from agentsmith.store.keys import Keys
from tests.support.declared_keys import FAMILIES, complaints

TICKET = TicketId("github.com/acme/web#12")


def built() -> dict[str, str]:
    """Every key that the builders make, by the builder's name."""
    keys = Keys("ns")
    found = {}
    for name, member in inspect.getmembers(Keys):
        if name.startswith("_") or name == "namespace":
            continue
        if isinstance(member, property):
            found[name] = str(getattr(keys, name))
        else:
            parts = {p: TICKET if p == "ticket" else "x" for p in inspect.signature(member).parameters if p != "self"}
            found[name] = str(member(keys, **parts))
    return found


def test_each_builder_has_one_row_and_each_row_one_builder() -> None:
    rows = {name: [f.name for f in FAMILIES if f.matches(key.removeprefix("ns:"))] for name, key in built().items()}
    assert all(len(names) == 1 for names in rows.values()), rows
    assert sorted(names[0] for names in rows.values()) == sorted(f.name for f in FAMILIES)
    assert all(key.startswith("ns:") for key in built().values())


@pytest.mark.parametrize(
    ("key", "kind", "ttl", "word"),
    [
        ("ns:heartbeat:a", "string", 1000, ""),
        ("ns:queue:jobs", "list", -1, ""),
        ("ns:heartbeat:a", "string", -1, "immortal"),
        ("ns:published:a", "string", 3_600_001, "declared to live 1 hour"),
        ("ns:queue:jobs", "list", 1000, "forgotten"),
        ("ns:queue:jobs", "hash", -1, "declared as list"),
        ("ns:surprise", "string", 1000, "not in the table"),
        ("elsewhere:queue:jobs", "list", -1, "not in the namespace"),
    ],
)
def test_the_check_finds_what_does_not_belong(key: str, kind: str, ttl: int, word: str) -> None:
    found = complaints({key: (kind, ttl)}, ("ns",))
    assert len(found) == bool(word)
    assert not word or word in found[0]


async def test_another_prefix_is_refused_by_the_server(store: Store) -> None:
    with pytest.raises(Exception, match="permission"):
        await store.redis.get("elsewhere:queue:jobs")
