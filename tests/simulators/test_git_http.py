"""Real git against the simulators: clone, push, tokens as each platform takes them, and what is refused."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from agentsmith.simulators import Fault, Running, Simulator, serve
from agentsmith.simulators.azuredevops import AzureDevOpsSimulator
from agentsmith.simulators.github import GitHubSimulator
from agentsmith.simulators.gitlab import GitLabSimulator
from tests.support.git_client import as_user, git

TOKEN = "token-that-may-push"
READER = "token-that-may-read"
FILES = {"README.md": "# hello\n", "src/main.py": "print('hi')\n"}


class Host(ABC):
    """One platform with a private and an empty repository, somebody who may push, and somebody who may not."""

    simulator: Simulator
    user = "anybody"

    @abstractmethod
    def path(self, name: str = "web") -> str:
        """Where git finds a repository: `web`, `empty` or `nowhere`."""

    @abstractmethod
    def branches(self) -> dict[str, str]:
        """What git has."""


class OnGitHub(Host):
    def __init__(self) -> None:
        self.simulator = self.hub = GitHubSimulator()
        self.hub.add_repository("acme/web", private=True, files=FILES)
        self.hub.add_repository("acme/empty", empty=True)
        self.hub.add_token(TOKEN, login="smith-bot", permission="write")
        self.hub.add_token(READER, login="gil", permission="read")

    def path(self, name: str = "web") -> str:
        return f"/acme/{name}.git"

    def branches(self) -> dict[str, str]:
        return self.hub.branches("acme/web")


class OnGitLab(Host):
    def __init__(self) -> None:
        self.simulator = self.lab = GitLabSimulator()
        for name in ("web", "empty"):
            self.lab.add_project(f"acme/apps/{name}", private=True, files=FILES, empty=name == "empty")
            self.lab.set_access(f"acme/apps/{name}", "smith-bot", "developer")
            self.lab.set_access(f"acme/apps/{name}", "gil", "reporter")
        self.lab.add_token(TOKEN, username="smith-bot")
        self.lab.add_token(READER, username="gil")

    def path(self, name: str = "web") -> str:
        return f"/acme/apps/{name}.git"

    def branches(self) -> dict[str, str]:
        return self.lab.branches("acme/apps/web")


class OnAzure(Host):
    def __init__(self) -> None:
        self.simulator = self.azure = AzureDevOpsSimulator()
        self.azure.add_project("Fabrikam Fiber", files=FILES)
        self.azure.add_repository("Fabrikam Fiber", "empty", empty=True)
        self.azure.add_token(TOKEN, user="smith@example.com")
        self.azure.add_token(READER, user="gil@example.com", code="read")

    def path(self, name: str = "web") -> str:
        return f"/acme/Fabrikam%20Fiber/_git/{'Fabrikam%20Fiber' if name == 'web' else name}"

    def branches(self) -> dict[str, str]:
        return self.azure.branches("Fabrikam Fiber")


@pytest.fixture(params=[OnGitHub, OnGitLab, OnAzure])
def host(request: pytest.FixtureRequest) -> Host:
    made: Host = request.param()
    return made


@pytest.fixture
async def running(host: Host) -> AsyncIterator[Running]:
    async with serve(host.simulator) as started:
        yield started
    host.simulator.assert_understood()


def address(running: Running, host: Host, name: str = "web", *, token: str = TOKEN) -> str:
    return as_user(running.url + host.path(name), host.user, token)


async def test_clone_commit_and_push(host: Host, running: Running, tmp_path: Path) -> None:
    await git("clone", "--quiet", address(running, host), "web", cwd=tmp_path)
    web = tmp_path / "web"
    assert (web / "src" / "main.py").read_text() == FILES["src/main.py"]
    (web / "new.txt").write_text("new\n")
    await git("checkout", "--quiet", "-b", "agent-smith/12", cwd=web)
    await git("add", ".", cwd=web)
    await git("commit", "--quiet", "-m", "Add a file", cwd=web)
    await git("push", "--quiet", "origin", "agent-smith/12", cwd=web)
    tip = (await git("rev-parse", "HEAD", cwd=web)).out.strip()
    assert host.branches()["agent-smith/12"] == tip
    pushes = [r for r in host.simulator.requests if r.path.endswith("git-receive-pack") and r.method == "POST"]
    assert [(r.status, r.caller in ("smith-bot", "smith@example.com")) for r in pushes] == [(200, True)]


async def test_a_clone_without_blobs_and_a_large_push(host: Host, running: Running, tmp_path: Path) -> None:
    """As the mirror cache clones; and a pack of several megabytes comes through in pieces."""
    url = address(running, host)
    done = await git("clone", "--filter=blob:none", "--bare", url, "web.git", cwd=tmp_path)
    assert "filtering not recognized" not in done.err
    await git("clone", "--quiet", url, "web", cwd=tmp_path)
    web = tmp_path / "web"
    (web / "large.bin").write_bytes(bytes(range(256)) * 20_000)
    (web / "noise.bin").write_bytes(_noise(3_000_000))
    await git("add", ".", cwd=web)
    await git("commit", "--quiet", "-m", "Large", cwd=web)
    await git("push", "--quiet", "origin", "HEAD:refs/heads/large", cwd=web)
    await git("clone", "--quiet", "--branch", "large", url, "again", cwd=tmp_path)
    assert (tmp_path / "again" / "noise.bin").read_bytes() == _noise(3_000_000)


def _noise(size: int) -> bytes:
    """What no pack can make smaller."""
    return random.Random(1).randbytes(size)


async def test_without_a_login_it_asks_for_one(host: Host, running: Running, tmp_path: Path) -> None:
    async with httpx.AsyncClient(verify=False) as client:  # noqa: S501
        answer = await client.get(f"{running.url}{host.path()}/info/refs?service=git-upload-pack")
    assert answer.status_code == 401
    assert "Basic realm=" in answer.headers["www-authenticate"]
    done = await git("ls-remote", running.url + host.path(), cwd=tmp_path, check=False)
    assert "Authentication failed" in done.err or "could not read" in done.err or "Access denied" in done.err


@pytest.mark.parametrize("token", ["wrong", ""])
async def test_a_wrong_token_is_refused(host: Host, running: Running, tmp_path: Path, token: str) -> None:
    done = await git("ls-remote", address(running, host, token=token), cwd=tmp_path, check=False)
    assert done.code == 128
    assert "Authentication failed" in done.err


async def test_who_may_only_read_may_not_push(host: Host, running: Running, tmp_path: Path) -> None:
    await git("clone", "--quiet", address(running, host, token=READER), "web", cwd=tmp_path)
    done = await git("push", "origin", "HEAD:refs/heads/mine", cwd=tmp_path / "web", check=False)
    assert done.code == 128
    assert "403" in done.err
    assert set(host.branches()) == {"main"}


async def test_what_is_not_there_is_not_found(host: Host, running: Running, tmp_path: Path) -> None:
    done = await git("ls-remote", address(running, host, "nowhere"), cwd=tmp_path, check=False)
    assert done.code == 128
    assert "not found" in done.err


async def test_an_empty_repository_can_be_cloned_and_filled(host: Host, running: Running, tmp_path: Path) -> None:
    done = await git("clone", address(running, host, "empty"), "web", cwd=tmp_path)
    assert "empty repository" in done.err
    web = tmp_path / "web"
    (web / "a").write_text("a")
    await git("add", ".", cwd=web)
    await git("commit", "--quiet", "-m", "First", cwd=web)
    await git("push", "--quiet", "origin", "HEAD:refs/heads/main", cwd=web)
    assert "refs/heads/main" in (await git("ls-remote", "origin", cwd=web)).out


async def test_a_diverged_branch_is_not_overwritten(host: Host, running: Running, tmp_path: Path) -> None:
    url = address(running, host)
    for name in ("one", "two"):
        await git("clone", "--quiet", url, name, cwd=tmp_path)
        (tmp_path / name / name).write_text(name)
        await git("add", ".", cwd=tmp_path / name)
        await git("commit", "--quiet", "-m", name, cwd=tmp_path / name)
    await git("push", "--quiet", "origin", "HEAD:refs/heads/topic", cwd=tmp_path / "one")
    done = await git("push", "origin", "HEAD:refs/heads/topic", cwd=tmp_path / "two", check=False)
    assert done.code == 1
    assert "rejected" in done.err


async def test_faults_strike_git_too(host: Host, running: Running, tmp_path: Path) -> None:
    url = address(running, host)
    await git("clone", "--quiet", url, "web", cwd=tmp_path)
    web = tmp_path / "web"
    (web / "a").write_text("a")
    await git("add", ".", cwd=web)
    await git("commit", "--quiet", "-m", "First", cwd=web)
    for kind, words in (
        ("refuse", "unable to access"),
        ("status", "503"),
        ("bad_credentials", "Authentication failed"),
    ):
        host.simulator.inject(Fault(kind, path="info/refs", times=None))  # git asks again with its login
        done = await git("ls-remote", "origin", cwd=web, check=False)
        assert done.code == 128
        assert words in done.err
        host.simulator.clear_faults()
    lost = host.simulator.inject(Fault("applied_then_lost", method="POST", path="git-receive-pack"))
    done = await git("push", "origin", "HEAD:refs/heads/lost", cwd=web, check=False)
    assert done.code != 0
    assert lost.struck == 1
    assert "lost" in host.branches()
    host.simulator.inject(Fault("reset_mid_body", method="POST", path="git-upload-pack"))
    assert (await git("clone", url, "broken", cwd=tmp_path, check=False)).code == 128
    assert not (tmp_path / "broken").exists()


async def test_a_former_name_leads_on(tmp_path: Path) -> None:
    github, gitlab = OnGitHub(), OnGitLab()
    github.hub.rename_repository("acme/web", "site")
    gitlab.lab.rename_project("acme/apps/web", "acme/site")
    for host in (github, gitlab):
        async with serve(host.simulator) as running:
            done = await git("ls-remote", address(running, host), cwd=tmp_path)
            assert "refs/heads/main" in done.out


async def test_a_public_repository_can_be_read_by_anybody(tmp_path: Path) -> None:
    host = OnGitHub()
    host.hub.add_repository("acme/open")
    async with serve(host.simulator) as running:
        assert "main" in (await git("ls-remote", f"{running.url}/acme/open.git", cwd=tmp_path)).out
        await git("clone", "--quiet", f"{running.url}/acme/open.git", "open", cwd=tmp_path)
        done = await git("push", "origin", "HEAD:refs/heads/x", cwd=tmp_path / "open", check=False)
        assert done.code == 128


async def test_github_takes_an_apps_token_only_under_its_name(tmp_path: Path) -> None:
    host = OnGitHub()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    app = host.hub.add_app("smith", public.decode())
    installation = host.hub.apps.installations[host.hub.install_app(int(app["id"]))]
    token = host.hub.apps.new_token(installation, installation.permissions, None).token
    narrow = host.hub.apps.new_token(installation, {"contents": "read"}, None).token
    async with serve(host.simulator) as running:
        url = running.url + host.path()
        assert (await git("ls-remote", as_user(url, "x-access-token", token), cwd=tmp_path)).code == 0
        assert (await git("ls-remote", as_user(url, "somebody", token), cwd=tmp_path, check=False)).code == 128
        await git("clone", "--quiet", as_user(url, "x-access-token", narrow), "web", cwd=tmp_path)
        done = await git("push", "origin", "HEAD:refs/heads/x", cwd=tmp_path / "web", check=False)
        assert "403" in done.err
        host.hub.clock.advance(3601)
        expired = await git("ls-remote", as_user(url, "x-access-token", token), cwd=tmp_path, check=False)
        assert "Authentication failed" in expired.err


async def test_gitlab_takes_an_oauth_token_only_under_its_name(tmp_path: Path) -> None:
    host = OnGitLab()
    host.lab.add_token("oauth-token", username="smith-bot", oauth=True)
    host.lab.add_token("narrow", username="smith-bot", scopes=("read_api",))
    async with serve(host.simulator) as running:
        url = running.url + host.path()
        assert (await git("ls-remote", as_user(url, "oauth2", "oauth-token"), cwd=tmp_path)).code == 0
        assert (await git("ls-remote", as_user(url, "me", "oauth-token"), cwd=tmp_path, check=False)).code == 128
        assert "403" in (await git("ls-remote", as_user(url, "me", "narrow"), cwd=tmp_path, check=False)).err


async def test_azure_takes_an_entra_token_as_a_password(tmp_path: Path) -> None:
    host = OnAzure()
    host.azure.add_token("entra-token", user="service@example.com", bearer=True)
    async with serve(host.simulator) as running:
        assert (await git("ls-remote", as_user(running.url + host.path(), "x", "entra-token"), cwd=tmp_path)).code == 0


async def test_pushes_show_in_githubs_api(tmp_path: Path) -> None:
    host = OnGitHub()
    async with serve(host.simulator) as running:
        await git("clone", "--quiet", address(running, host), "web", cwd=tmp_path)
        web = tmp_path / "web"
        await git("commit", "--quiet", "--allow-empty", "-m", "One\n\nMore", cwd=web)
        await git("push", "--quiet", "origin", "HEAD:refs/heads/topic", cwd=web)
        tip = (await git("rev-parse", "HEAD", cwd=web)).out.strip()
        headers = {"Authorization": f"Bearer {TOKEN}"}
        base = f"{running.api_url}/repos/acme/web"
        async with httpx.AsyncClient(base_url=base, headers=headers, verify=False) as api:  # noqa: S501
            assert (await api.get("/branches/topic")).json()["commit"]["sha"] == tip
            commit = (await api.get(f"/git/commits/{tip}")).json()
            assert (commit["message"], len(commit["parents"])) == ("One\n\nMore", 1)
            await git("push", "--quiet", "origin", ":topic", cwd=web)
            assert (await api.get("/branches/topic")).status_code == 404


def test_the_repositories_are_gone_with_the_simulator(host: Host) -> None:
    host.branches()
    folder = host.simulator.git.folder
    assert folder.is_dir()
    host.simulator.reset()
    assert list(folder.iterdir()) == []
