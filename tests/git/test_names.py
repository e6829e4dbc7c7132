"""Whatever git allows in a name, of a branch, a tag or a file, is only a name: nothing else is read out of it."""

from __future__ import annotations

import os
from pathlib import Path

from agentsmith.git import Pushed
from tests.support.git_bench import BRANCH, Bench, Person, git

ODD = (
    *("\u2028", "\u2029", "\u0085", "\u00a0", "\u3000", "\u200b", "\ufeff", "\u202e", "\u0300", "\U0001f600"),
    *("'", '"', "$", "`", ";", "|", "&", "#", "%", "!", "(", "<", ">", "=", ",", "+", "@", "{", "}", "-"),
    *("\udcff", "\udc85"),  # bytes that are no UTF-8
)
"""In refs and in files. All the line breaks and blanks that Python's text helpers know, and git does not."""
ONLY_IN_FILES = ("\n", "\r", "\t", "\x0b", "\x0c", "\x1b", " ", "*", "?", "[", "\\", ":", "~", "^")


def _push_names_beside(origin: Path, name: str, commit: str) -> list[str]:
    """What a stranger can push: names that begin like another one, all of them pointing at the stranger's commit."""
    names = [f"{kind}/{name}{odd}x" for odd in ODD for kind in ("refs/heads", "refs/tags")]
    orders = b"".join(b"create " + os.fsencode(ref) + f" {commit}\n".encode() for ref in names)
    git("update-ref", "--stdin", at=origin, stdin=orders)
    return names


async def test_P7_no_name_passes_itself_off_as_another_branch(bench: Bench) -> None:
    right = git("rev-parse", "main", at=bench.origin)
    stranger = Person.of(bench.origin, bench.root / "stranger")
    evil = stranger.commit("evil", {"README.md": "evil\n"})
    git("push", "-q", "origin", "HEAD:refs/heads/stranger", at=stranger.at)
    names = _push_names_beside(bench.origin, "main", evil) + _push_names_beside(bench.origin, BRANCH, evil)
    checkout = await bench.open()
    refs = await checkout._parts.mirror.refs()
    assert refs["refs/heads/main"] == right
    assert f"refs/heads/{BRANCH}" not in refs, "nobody has pushed the branch itself"
    assert {ref for ref, commit in refs.items() if commit == evil} == {*names, "refs/heads/stranger"}
    assert (checkout.path / "README.md").read_text() == "hello\n"
    assert not checkout.resumed


async def test_files_of_any_name_go_the_whole_way(bench: Bench) -> None:
    checkout = await bench.open()
    names = [f"a{odd}b/{odd}c{odd}" for odd in (*ODD, *ONLY_IN_FILES)]
    for name in names:
        file = checkout.path / name
        file.parent.mkdir()
        file.write_bytes(os.fsencode(name))
    await checkout.commit("odd names")
    assert isinstance(await checkout.push(bench.begin_write), Pushed)
    listed = git("ls-tree", "-r", "-z", "--name-only", BRANCH, at=bench.origin).split("\0")
    assert set(listed) - {""} == {*names, "README.md"}
    again = await bench.open()
    assert {name: (again.path / name).read_bytes() for name in names} == {name: os.fsencode(name) for name in names}
