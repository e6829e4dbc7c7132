"""The credential: for one command, for one server, and nowhere to be found (P8). HTTP on loopback, with basic auth."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agentsmith.domain.forge import GitCredential
from agentsmith.git import Pushed, credential_helper
from agentsmith.git.credentials import Address, courier
from agentsmith.git.errors import CredentialRefused, GitError
from tests.git.conftest import PASSWORD, USER
from tests.support.git_bench import Bench, PlainShell, git, write_files
from tests.support.git_http import GitHttp, Request, serving

SERVER = Address("http", "127.0.0.1", 80)


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[GitHttp]:
    """Another server, which asks everybody for a password and remembers what it was told."""
    (tmp_path / "stranger").mkdir()
    with serving(tmp_path / "stranger", user="never", password="matches") as state:
        yield state


def heard(server: GitHttp) -> set[str | None]:
    return {request.authorization for request in server.requests}


async def test_clone_resume_and_push_with_a_password(http_bench: Bench, server: GitHttp) -> None:
    checkout = await http_bench.open()
    write_files(checkout.path, {"a.txt": "a\n"})
    await checkout.commit("a")
    assert isinstance(await checkout.push(http_bench.begin_write), Pushed)
    again = await http_bench.open()
    assert again.resumed
    assert (again.path / "a.txt").read_text() == "a\n"
    assert any("git-receive-pack" in path for path in server.paths())
    assert http_bench.forge.asked > 3  # a fresh one for each command: tokens expire


async def test_mirror_is_without_old_blobs_and_the_worker_has_all_it_needs(http_bench: Bench) -> None:
    person = http_bench.person()
    for number in range(5):
        person.commit(f"{number}", {"big.txt": f"{number}\n" * 1000})
    person.push()
    checkout = await http_bench.open()
    present = git("cat-file", "--batch-all-objects", "--batch-check=%(objecttype)", at=http_bench.mirror).split()
    assert present.count("commit") == 6
    assert present.count("blob") == 2  # README.md and the newest big.txt
    assert git("status", "--porcelain", at=checkout.path) == ""
    assert git("log", "--format=%s", at=checkout.path).count("\n") == 5


async def test_whole_history_when_asked_for(http_bench: Bench) -> None:
    person = http_bench.person()
    person.commit("one", {"f.txt": "one\n"})
    person.commit("two", {"f.txt": "one\ntwo\n"})
    person.push()
    checkout = await http_bench.open(blobless=False)
    assert "one" in git("blame", "f.txt", at=checkout.path)
    assert git("log", "-p", "--format=", at=checkout.path)


async def test_server_that_knows_no_filters_is_mirrored_whole(http_bench: Bench) -> None:
    git("config", "uploadpack.allowFilter", "false", at=http_bench.origin)
    http_bench.person().commit("two", {"README.md": "two\n"})
    http_bench.person().push()
    checkout = await http_bench.open()
    assert (checkout.path / "README.md").read_text() == "two\n"


async def test_the_credential_is_in_no_file_argument_or_environment(http_bench: Bench) -> None:
    checkout = await http_bench.open()
    write_files(checkout.path, {"a.txt": "a\n"})
    await checkout.commit("a")
    await checkout.push(http_bench.begin_write)
    shell = http_bench.shell
    assert isinstance(shell, PlainShell)
    assert not any(PASSWORD in word for argv in shell.argvs for word in argv)
    assert not any(PASSWORD in value for env in shell.envs for value in env.values())
    assert files_with(PASSWORD, http_bench.place) == []


def files_with(text: str, place: Path) -> list[str]:
    found = subprocess.run(["grep", "-rlFa", text, str(place)], capture_output=True, text=True, check=False)
    return found.stdout.splitlines()


async def test_wrong_password_is_one_clear_error(http_bench: Bench, server: GitHttp) -> None:
    http_bench.forge.secret = GitCredential(USER, "wrong-horse-battery")
    with pytest.raises(CredentialRefused) as refused:
        await http_bench.open()
    assert "token" in str(refused.value)
    assert "wrong-horse-battery" not in str(refused.value)
    assert len(server.requests) < 6


async def test_no_password_where_one_is_needed_is_one_clear_error(http_bench: Bench) -> None:
    http_bench.forge.secret = None
    with pytest.raises(CredentialRefused):
        await http_bench.open()


async def test_password_with_a_line_break_is_refused_before_git_sees_it(http_bench: Bench, server: GitHttp) -> None:
    http_bench.forge.secret = GitCredential(USER, "one\nhost=evil.example")
    with pytest.raises(CredentialRefused, match="line break"):
        await http_bench.open()
    assert heard(server) <= {None}


async def test_a_redirect_to_another_server_does_not_get_it(
    http_bench: Bench, server: GitHttp, stranger: GitHttp
) -> None:
    server.answer = lambda request: (302, {"Location": stranger.url + request.path})
    with pytest.raises(GitError):
        await http_bench.open()
    assert stranger.requests
    assert heard(stranger) == {None}


async def test_a_redirect_after_the_password_does_not_get_it(
    http_bench: Bench, server: GitHttp, stranger: GitHttp
) -> None:
    def later(request: Request) -> tuple[int, dict[str, str]] | None:
        return (302, {"Location": stranger.url + request.path}) if request.authorization else None

    server.answer = later
    with pytest.raises(GitError):
        await http_bench.open()
    assert heard(stranger) <= {None}


async def test_a_push_that_is_redirected_does_not_give_it_away(
    http_bench: Bench, server: GitHttp, stranger: GitHttp
) -> None:
    checkout = await http_bench.open()
    write_files(checkout.path, {"a.txt": "a\n"})
    await checkout.commit("a")
    server.answer = lambda request: (
        (307, {"Location": stranger.url + request.path}) if "receive-pack" in request.path else None
    )
    with pytest.raises(GitError):
        await checkout.push(http_bench.begin_write)
    assert heard(stranger) <= {None}


async def test_a_repository_that_was_renamed_is_found_on_the_same_server(http_bench: Bench, server: GitHttp) -> None:
    def moved(request: Request) -> tuple[int, dict[str, str]] | None:
        if request.path.startswith("/old/"):
            return 301, {"Location": server.url + request.path.replace("/old/", "/acme/", 1)}
        return None

    server.answer = moved
    http_bench.forge.clone_url = f"{server.url}/old/web.git"
    checkout = await http_bench.open()
    assert (checkout.path / "README.md").exists()


async def test_what_the_worker_makes_of_its_remotes_does_not_lead_it_astray(
    http_bench: Bench, server: GitHttp, stranger: GitHttp
) -> None:
    checkout = await http_bench.open()
    at = checkout.path
    git("remote", "set-url", "origin", f"{stranger.url}/acme/web.git", at=at)
    git("config", f"url.{stranger.url}/.insteadOf", f"{server.url}/", at=at)
    git("config", "http.proxy", stranger.url, at=at)
    git("config", "credential.helper", "store", at=at)
    write_files(at, {"a.txt": "a\n", ".lfsconfig": f"[lfs]\n\turl = {stranger.url}\n"})
    await checkout.commit("a")
    await checkout.push(http_bench.begin_write)
    again = await http_bench.open()
    assert again.resumed
    assert stranger.requests == []


async def test_the_worker_has_no_credential(http_bench: Bench, server: GitHttp) -> None:
    checkout = await http_bench.open()
    before = len(server.requests)
    git("fetch", "origin", at=checkout.path, fine=(128,))
    assert {r.authorization for r in server.requests[before:]} == {None}


def ask(path: str, host: str = "127.0.0.1") -> str:
    """Ask as git's helper does, as a process of its own."""
    helper = shlex.join((sys.executable, "-I", "-S", str(credential_helper.__file__), path, "get"))
    asked = subprocess.run(
        ["/bin/sh", "-c", helper], input=f"protocol=http\nhost={host}\n\n", capture_output=True, text=True, check=False
    )
    return asked.stdout


@contextlib.asynccontextmanager
async def offered(ancestor: int) -> AsyncIterator[str]:
    async with courier(GitCredential(USER, PASSWORD), SERVER, ancestor=ancestor) as (config, _):
        yield shlex.split(config[-1][1][1:])[-1]


async def test_only_a_process_below_the_shell_is_answered() -> None:
    outsider = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        async with offered(ancestor=outsider.pid) as path:
            assert await asyncio.to_thread(ask, path) == ""
        async with offered(ancestor=os.getpid()) as path:
            assert PASSWORD in await asyncio.to_thread(ask, path)
    finally:
        outsider.kill()
        await outsider.wait()


async def test_only_questions_about_our_server_are_answered() -> None:
    async with offered(ancestor=os.getpid()) as path:
        for host in ("evil.example", "127.0.0.1:81", "127.0.0.1.evil.example", "127.0.0.1@evil.example", ""):
            assert await asyncio.to_thread(ask, path, host) == "quit=1\n"
        assert PASSWORD in await asyncio.to_thread(ask, path, "127.0.0.1:80")


async def test_nothing_is_left_to_ask_when_the_command_has_ended() -> None:
    async with offered(ancestor=os.getpid()) as path:
        assert stat_mode(Path(path).parent) == 0o700
    assert not there(path)
    assert await asyncio.to_thread(ask, path) == ""


async def test_a_silent_asker_does_not_hold_the_command_up() -> None:
    with socket.socket(socket.AF_UNIX) as idle:
        async with offered(ancestor=os.getpid()) as path:
            idle.connect(path)
            assert PASSWORD in await asyncio.to_thread(ask, path)


def there(path: str) -> bool:
    return Path(path).exists()


def stat_mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://GitHub.com/acme/web", Address("https", "github.com", 443)),
        ("https://org@dev.azure.com/org/_git/web", Address("https", "dev.azure.com", 443)),
        ("https://host:8443/x", Address("https", "host", 8443)),
        ("http://[::1]:80/x", Address("http", "::1", 80)),
        ("git@host.example:acme/web.git", Address("ssh", "host.example", None)),
        ("ssh://git@host/x", Address("ssh", "host", None)),
        ("/srv/git/web.git", Address("file", "", None)),
        ("file:///srv/git/web.git", Address("file", "", None)),
    ],
)
def test_addresses(url: str, address: Address) -> None:
    assert Address.of(url) == address


@pytest.mark.parametrize(
    "url", ["--upload-pack=evil", "https://host:port/x", "https://host/a b", "https://h/\nx", "http://[::1/x"]
)
def test_no_address(url: str) -> None:
    with pytest.raises(GitError):
        Address.of(url)
