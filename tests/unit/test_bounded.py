"""What is remembered by a name from outside cannot outgrow its bound."""

from __future__ import annotations

from agentsmith.bounded import Bounded


def test_the_oldest_go_first_however_entries_come_in() -> None:
    kept: Bounded[str, int] = Bounded(3)
    kept.update({name: n for n, name in enumerate("abcd")})
    assert list(kept) == ["b", "c", "d"]
    kept["b"] = 7
    assert kept.setdefault("e", 8) == 8
    assert dict(kept) == {"d": 3, "b": 7, "e": 8}
    kept |= {"f": 9}
    assert list(kept) == ["b", "e", "f"]
    assert isinstance(kept, Bounded)
