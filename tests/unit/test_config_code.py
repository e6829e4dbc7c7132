"""Where the code of a ticket is: `repositories`, `code`, what lies beside the tickets, and every mistake in them."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from agentsmith.config import Config, load
from agentsmith.daemon.open import open_forges
from agentsmith.domain.errors import ConfigError
from agentsmith.domain.forge import GitCredential, NoPullRequests, WantedPullRequest
from agentsmith.trackers import forges, registry

HOME = {"HOME": "/home/tester"}
GITHUB = "trackers: {web: {platform: github, repository: acme/web, token: secret-token"
PLAIN = "repositories: {tools: {platform: git, url: 'https://git.example.com/tools.git'"


def loaded(folder: Path, text: str) -> Config:
    file = folder / "agentsmith.yaml"
    file.write_text(text)
    return load(file, platforms=registry.settings_models(), hosts=forges.settings_models(), environ=HOME)


def mistake(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, text)
    return str(caught.value).replace(f"{folder}/", "")


async def test_a_github_tracker_has_its_own_repository_and_token(tmp_path: Path) -> None:
    async with open_forges(loaded(tmp_path, f"{GITHUB}}}}}")) as found:
        forge = found["web"]
        assert (forge.name, forge.platform) == ("web", "github")
        assert forge.clone_url == "https://github.com/acme/web.git"
        assert await forge.credential() == GitCredential("x-access-token", "secret-token")


async def test_a_tracker_without_code_has_no_forge(tmp_path: Path) -> None:
    async with open_forges(loaded(tmp_path, "")) as found:
        assert found == {}


async def test_tracker_and_code_may_be_in_different_places_and_several_trackers_share_one(tmp_path: Path) -> None:
    text = """
trackers:
  desk: {platform: local, project: desk, code: website}
  web: {platform: github, repository: acme/web, token: t, code: website}
  notes: {platform: local, project: notes, code: tools}
repositories:
  website: {platform: gitlab, project: acme/apps/website, token: glpat-secret, base_url: "https://git.example/gl/api/v4"}
  tools: {platform: git, url: "https://git.example.com/tools.git", username: bot, token: pass, default_branch: trunk}
  unused: {platform: azure-devops, organization: acme, project: "Fabrikam Fiber", token: t}
"""
    async with open_forges(loaded(tmp_path, text)) as found:
        assert set(found) == {"desk", "web", "notes"}
        assert found["desk"] is found["web"]
        assert (found["web"].name, found["web"].platform) == ("website", "gitlab")
        assert found["web"].clone_url == "https://git.example/gl/acme/apps/website.git"
        assert await found["web"].credential() == GitCredential("oauth2", "glpat-secret")
        assert await found["notes"].credential() == GitCredential("bot", "pass")
        assert await found["notes"].default_branch() == "trunk"


@pytest.mark.parametrize(
    ("more", "url"),
    [
        ("", "https://dev.azure.com/acme/Fabrikam%20Fiber/_git/Fabrikam%20Fiber"),
        ("repository: web site,", "https://dev.azure.com/acme/Fabrikam%20Fiber/_git/web%20site"),
        (
            "base_url: 'https://tfs.example/tfs/',",
            "https://tfs.example/tfs/acme/Fabrikam%20Fiber/_git/Fabrikam%20Fiber",
        ),
    ],
)
async def test_azure_takes_the_repository_of_its_project_or_the_one_named(tmp_path: Path, more: str, url: str) -> None:
    settings = f"platform: azure-devops, organization: acme, project: Fabrikam Fiber, {more} token: t"
    async with open_forges(loaded(tmp_path, f"repositories: {{r: {{{settings}}}}}\n{LOCAL}")) as found:
        assert found["desk"].clone_url == url
        assert found["desk"].platform == "azure-devops"


LOCAL = "trackers: {desk: {platform: local, code: r}}"


async def test_a_plain_server_makes_no_pull_requests_and_says_what_to_do(tmp_path: Path) -> None:
    config = loaded(tmp_path, f"{PLAIN}}}}}\ntrackers: {{desk: {{platform: local, code: tools}}}}")
    async with open_forges(config) as found:
        forge = found["desk"]
        assert await forge.credential() is None
        assert await forge.default_branch() == "main"
        with pytest.raises(NoPullRequests, match=r"leave the step `pull_request` out, or describe"):
            await forge.ensure(WantedPullRequest("b", "main", "t", "b"), deadline=0.0)
        with pytest.raises(NoPullRequests):
            await forge.find("b")


@pytest.mark.parametrize("url", ["ssh://git@host/a/b.git", "git@host:a/b.git", "/srv/git/a.git", "file:///srv/a.git"])
def test_addresses_that_git_understands(tmp_path: Path, url: str) -> None:
    config = loaded(tmp_path, f"repositories: {{r: {{platform: git, url: '{url}'}}}}")
    settings = config.repositories["r"]
    assert getattr(settings, "url") == url  # noqa: B009 - the attribute is the platform's own


def test_the_secrets_of_repositories_are_secrets(tmp_path: Path) -> None:
    text = f"{PLAIN}, token: a-secret-of-git}}}}"
    assert "a-secret-of-git" in set(loaded(tmp_path, text).secrets())
    assert "a-secret-of-git" not in repr(loaded(tmp_path, text))
    leak = "pipelines: {p: {steps: [run: make], env: [GIT_PASS]}}\n"
    file = tmp_path / "agentsmith.yaml"
    file.write_text(leak + text)
    with pytest.raises(ConfigError, match="GIT_PASS holds a secret of agentsmith itself"):
        load(
            file,
            platforms=registry.settings_models(),
            hosts=forges.settings_models(),
            environ={**HOME, "GIT_PASS": "a-secret-of-git"},
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "trackers: {desk: {platform: local, code: website}}",
            "1: trackers.desk.code: there is no repository `website`; describe it under `repositories`",
        ),
        (
            f"{PLAIN}}}}}\ntrackers: {{desk: {{platform: local, code: tols}}}}",
            "2: trackers.desk.code: there is no repository `tols`; did you mean `tools`? Known: tools",
        ),
        (
            "trackers: {desk: {platform: local, code: acme/web}}",
            "1: trackers.desk.code: 'acme/web' is not a repository name; use up to 63 of a-z, 0-9, - and _, starting "
            "with a letter or digit (where the repository is stands in the settings below it)",
        ),
        ("repositories: {r: {url: /srv/r.git}}", "1: repositories.r.platform: is missing; name one of azure-devops, "),
        (
            "repositories: {r: {platform: jira}}",
            "1: repositories.r.platform: is not a platform; known: azure-devops, git, github, gitlab",
        ),
        (
            "repositories: {r: {platform: github, repository: acme/web}}",
            "1: repositories.r: needs either a token or an app",
        ),
        (
            "repositories: {r: {platform: github, repository: web, token: t}}",
            "1: repositories.r.repository: repository must be owner/name, like acme/web (found 'web')",
        ),
        (
            "repositories: {r: {platform: gitlab, project: 4711, token: t}}",
            "1: repositories.r.project: must be the path with all its groups, like acme/apps/web: git finds no project "
            "by its id (found 4711)",
        ),
        (
            "repositories: {r: {platform: azure-devops, organization: a, project: p, repository: a/b, token: t}}",
            "1: repositories.r.repository: must be the name of a git repository in the project, like web (found 'a/b')",
        ),
        (
            "repositories: {r: {platform: git, url: 'https://bot:hunter22@host/r.git'}}",
            "1: repositories.r.url: holds a credential; put it into `username` and `token`, the latter from the "
            "environment",
        ),
        (
            "repositories: {r: {platform: git, url: '--upload-pack=x'}}",
            "1: repositories.r.url: '--upload-pack=x' is not ",
        ),
        (
            "repositories: {r: {platform: git, url: 'ext::sh -c x'}}",
            "1: repositories.r.url: 'ext::sh -c x' is not the ",
        ),
        (
            "repositories: {r: {platform: git, url: 'https://host/r.git?a'}}",
            "1: repositories.r.url: 'https://host/r.git",
        ),
        (
            "repositories: {r: {platform: git, url: /srv/r.git, token: hunter22}}",
            "1: repositories.r: takes a token only with an http or https url",
        ),
        (
            "repositories: {r: {platform: git, url: /srv/r.git, default_branch: 'a..b'}}",
            "1: repositories.r.default_branch: 'a..b' is not the name of a branch; write it as git does, like main or "
            "release/2.x",
        ),
        (
            "repositories: {r: {platform: git, ulr: /srv/r.git, url: /srv/r.git}}",
            "1: repositories.r.ulr: unknown key; did you mean `url`? Known: platform, url, username, token, "
            "default_branch",
        ),
        ("repositories: {Web: {platform: git, url: /srv/r.git}}", "1: repositories.Web: is not a repository name; use"),
        ("repositories: {r: }", "1: repositories.r.platform: is missing; name one of"),
        ("repositories: [a]", "1: repositories: must be a mapping: indented lines like `key: value`"),
        (
            f"{GITHUB}}}}}\nrepositories: {{web: {{platform: git, url: /srv/r.git}}}}",
            "2: repositories.web: is the name of a tracker with a repository of its own; rename it, or set "
            "trackers.web.code",
        ),
    ],
)
def test_each_mistake_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    told = mistake(tmp_path, text)
    assert told.startswith(f"agentsmith.yaml:{message}"), told
    assert "\n" not in told
    assert "hunter22" not in told


def test_something_else_behind_an_entry_point_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint(name="broken", value="os:getcwd", group=forges.ENTRY_POINTS)
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: [point] if group == forges.ENTRY_POINTS else []
    )
    with pytest.raises(ConfigError, match=r"'broken' \(os:getcwd\) must name a"):
        forges.code_hosts()["broken"]
