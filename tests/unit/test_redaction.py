"""What is known as a secret, or looks like one, is in no text that leaves us."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentsmith import redaction
from agentsmith.redaction import excerpt, redact, register_secret, without
from tests.support.http_rig import SECRET


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    yield
    redaction._secrets.clear()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://user:pa@ss@host:6379/0", "redis://***@host:6379/0"),
        ("git clone https://ghp_x@github.com/a/b failed", "git clone https://***@github.com/a/b failed"),
        ("see https://example.com/@user", "see https://example.com/@user"),
        ("mail a@b.c", "mail a@b.c"),
        ("Authorization: Bearer abc", "Authorization: ***"),
        ("{'authorization': 'Basic abc=', 'x': 1}", "{'authorization': ***, 'x': 1}"),
        ("sent Bearer abc123def456 along", "sent Bearer *** along"),
        ("GET /x?access_token=abc&page=2", "GET /x?access_token=***&page=2"),
        ("password='a b' user=c", "password=*** user=c"),
        ("basic functionality", "basic functionality"),
        ("tokens=12", "tokens=12"),
        ('{"key": "WEB-12"}', '{"key": "WEB-12"}'),
        ("set the token AGENTSMITH_GITHUB_TOKEN", "set the token AGENTSMITH_GITHUB_TOKEN"),
        ("refresh_token=abc&client_secret=abc&n=1", "refresh_token=***&client_secret=***&n=1"),
        ("trackers.web.token: is missing", "trackers.web.token: is missing"),
        ("so. Token: abc", "so. Token: ***"),
    ],
)
def test_redact_knows_credentials_by_their_shape(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_short_secrets_are_hidden_only_as_words() -> None:
    register_secret("a1")
    register_secret("  ")
    assert redact("a1 ba1b a1.") == "*** ba1b ***."
    assert redact("  ") == "  "


def test_the_longer_secret_wins_where_two_overlap() -> None:
    register_secret("secret-one")
    register_secret("secret-one-and-two")
    assert redact("x secret-one-and-two y") == "x *** y"


@pytest.mark.parametrize("end", ["\n", "\\n"])
def test_each_line_of_a_key_file_is_secret(end: str) -> None:
    register_secret(end.join(["-----BEGIN KEY-----", "MIIEvQIBADANBgkqhkiG9w0B", "-----END KEY-----", ""]))
    assert redact("found MIIEvQIBADANBgkqhkiG9w0B here") == "found *** here"


@pytest.mark.parametrize(
    "secret",
    [
        SECRET,
        "github_pat_11ABCDEFG0_abcdefghijklmnop",
        "ghs_12345_eyJhbGciOi.eyJpc3MiOi.c2lnbmF0dXJl",
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxIn0.c2lnbmF0dXJlMTIz",
        "glpat-abcdefghij0123456789",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKC",
    ],
)
def test_what_looks_like_a_credential_is_masked(secret: str) -> None:
    for text in (f"before {secret} after", f'{{"x": "{secret}"}}', f"token={secret}&a=b"):
        shown = redact(text)
        assert secret not in shown
        assert "***" in shown
        assert "MIIEow" not in shown


def test_credentials_in_headers_addresses_and_parameters_are_masked() -> None:
    text = "Authorization: Bearer abcdefgh12 / Basic dXNlcjpwYXNz https://me:pw@host/x?access_token=abcd1234&n=1"
    shown = redact(text)
    assert not any(word in shown for word in ("abcdefgh12", "dXNlcjpwYXNz", "me:pw", "abcd1234"))
    assert "host/x" in shown
    assert "n=1" in shown


def test_given_secrets_are_masked_longest_first_and_short_ones_are_left() -> None:
    assert without("my secret-long and secret", ["secret", "secret-long", "my", ""]) == "my *** and ***"


@given(st.text(), st.text(min_size=4, max_size=60, alphabet=st.characters(exclude_characters="*")))
def test_an_excerpt_is_one_short_line_without_the_secret(text: str, secret: str) -> None:
    shown = excerpt(f"{text}{secret}{text}", [secret])
    assert secret not in shown
    assert len(shown) <= 200
    assert shown.isprintable() or not shown
