"""Any text as a title or a body (F7): within the limit, harmless to a terminal, and the same the second time."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from agentsmith.domain.ticket import Ticket, TicketId
from agentsmith.trackers.shared.proposals import fitted, one_line, plain_mention

ANY = st.text(st.characters(), max_size=400) | st.text("Draft: \n\r\t\0\ud800🧵\u200bx", max_size=400)


def size(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@given(text=ANY, limit=st.integers(10, 100))
@example(text="🧵" * 60, limit=100)
@example(text="x" * 101, limit=100)
def test_a_title_is_one_line_within_the_limit_and_settles(text: str, limit: int) -> None:
    title = one_line(text, limit, otherwise="branch")
    assert 0 < size(title) <= limit
    assert title == title.strip()
    assert "\n" not in title
    assert "\r" not in title
    assert all(c.isprintable() or c in "\u200c\u200d\ufe0f" for c in title)
    assert one_line(title, limit, otherwise="branch") == title


def test_a_title_keeps_what_people_can_read() -> None:
    assert one_line("  Fix\tthe\r\nlogin  ", 100, otherwise="b") == "Fix the login"
    assert one_line("👩‍💻 ünï 漢字", 100, otherwise="b") == "👩‍💻 ünï 漢字"
    assert one_line("\u200d \0", 100, otherwise="b") == "b"
    assert one_line("x" * 12, 10, otherwise="b") == "x" * 9 + "…"


@given(text=ANY, limit=st.integers(20, 100))
@example(text="x" * 201, limit=100)
@example(text="🧵" * 60, limit=100)
def test_a_body_is_within_the_limit_and_settles(text: str, limit: int) -> None:
    body = fitted(text, limit, "… (cut)")
    assert size(body) <= limit
    assert "\0" not in body
    assert "\r" not in body
    assert fitted(body, limit, "… (cut)") == body
    if len(text) > limit and text.isascii() and text.isalnum():
        assert body.endswith("… (cut)")


def test_a_mention_holds_no_markup_of_its_own() -> None:
    ticket = Ticket(TicketId("x/`y`#3"), "3", "t", "", "", "https://x/a)b", frozenset(), open=True, revision="1")
    assert plain_mention(ticket) == "Ticket: `x/y#3`"
