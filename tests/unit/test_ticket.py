"""Names for branches and folders: safe whatever the tracker calls its tickets, and distinct."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentsmith.domain.ticket import slug

keys = st.text(min_size=1, max_size=120)
trackers = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,10}", fullmatch=True)
plain = st.from_regex(r"[A-Za-z0-9-]{1,6}", fullmatch=True)

AWKWARD = [
    *("..", ".", "-", "---", "a..b", "../../etc/passwd", "/", "a/b", "refs/heads/main", "a\\b", "-rf", "~", "@{"),
    *("x.lock", ".lock", "x.LOCK", ".git", "WEB-12.", "HEAD~1", "a b", "\n", "\0", "é", "ß", "\ud800", "x" * 200),
]


def is_safe(name: str) -> bool:
    """Whether `name` can be a folder and a component of a git reference anywhere."""
    return (
        re.fullmatch(r"[A-Za-z0-9._-]{1,100}", name) is not None
        and ".." not in name
        and name[0] not in ".-"
        and not name.endswith((".", ".lock"))
    )


@pytest.mark.parametrize("key", ["12", "WEB-12", "a.b_c-D", "1.5"])
def test_a_plain_key_is_its_own_slug(key: str) -> None:
    assert slug(key) == key
    assert slug(key, "web") == f"web.{key}"


@given(keys, st.none() | trackers)
def test_a_slug_is_safe(key: str, tracker: str | None) -> None:
    assert is_safe(slug(key, tracker))


@pytest.mark.parametrize("key", AWKWARD)
def test_an_awkward_key_has_a_safe_slug(key: str) -> None:
    assert is_safe(slug(key))
    assert is_safe(slug(key, "web"))


@given(st.sets(keys, min_size=2, max_size=2))
@example({"a/b", "a-b"})
@example({"a b", "a/b"})
@example({"a..b", "a.b"})
@example({"-a", "a"})
@example({"x" * 100, "x" * 101})
@example({"x.lock", "x-lock"})
def test_distinct_keys_have_distinct_slugs(pair: set[str]) -> None:
    one, other = pair
    assert slug(one) != slug(other)


@given(st.sets(st.tuples(trackers, plain), min_size=2, max_size=2))
@example({("a-b", "1"), ("a", "b-1")})
def test_the_tickets_of_two_trackers_have_distinct_slugs(pair: set[tuple[str, str]]) -> None:
    (one, one_key), (other, other_key) = pair
    assert slug(one_key, one) != slug(other_key, other)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_accepts_a_branch_of_every_slug(tmp_path: Path) -> None:
    # One repository, a branch for each: `check-ref-format` alone would not see two that clash.
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True, capture_output=True)
    empty = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # git's name for a tree without files
    author = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "-C", tmp_path, "hash-object", "-w", "-t", "tree", "/dev/null"], check=True)
    commit = subprocess.run(
        ["git", "-C", tmp_path, *author, "commit-tree", empty, "-m", "x"], check=True, capture_output=True, text=True
    ).stdout.strip()
    slugs = {slug(key) for key in AWKWARD}
    assert len(slugs) == len(AWKWARD)
    for name in slugs:
        subprocess.run(["git", "-C", tmp_path, "branch", f"agent-smith/{name}", commit], check=True)
