"""Names and addresses of GitHub issues, the form of our comment, and the settings."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agentsmith.domain.errors import ConfigError
from agentsmith.domain.lifecycle import LabelSet
from agentsmith.domain.memo import Memo
from agentsmith.trackers.github.settings import GitHubSettings
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.github.sticky import COMMENT_LIMIT, CUT, form
from agentsmith.trackers.http import Shared
from agentsmith.trackers.http.connection import connect

MEMO = Memo(run="run--1 -->", fence=3)


@pytest.mark.parametrize(
    ("base_url", "web_host", "graphql", "public"),
    [
        ("https://api.github.com", "github.com", "https://api.github.com/graphql", True),
        ("https://api.github.com/", "github.com", "https://api.github.com/graphql", True),
        ("https://git.acme.example/api/v3", "git.acme.example", "https://git.acme.example/api/graphql", False),
        (
            "https://GIT.acme.example:8443/api/v3/",
            "git.acme.example:8443",
            "https://GIT.acme.example:8443/api/graphql",
            False,
        ),
        ("https://api.octo.ghe.com", "octo.ghe.com", "https://api.octo.ghe.com/graphql", False),
        ("http://127.0.0.1:4010", "127.0.0.1:4010", "http://127.0.0.1:4010/graphql", False),
        ("https://api.github.com:443", "github.com", "https://api.github.com:443/graphql", True),
    ],
)
def test_addresses(base_url: str, web_host: str, graphql: str, public: bool) -> None:
    site = Site("Acme/Web", base_url)
    assert (site.web_host, site.graphql_url, site.public) == (web_host, graphql, public)
    assert site.canonical == f"{web_host}/acme/web"
    assert site.ticket_id("12") == f"{web_host}/acme/web#12"
    assert site.path("12", "/labels") == "/repos/Acme/Web/issues/12/labels"


@pytest.mark.parametrize(
    "repository", ["", "web", "/web", "acme/", "a/b/c", "a b/c", "acme/web#1", "acme/..", "a/./b", "-a/b"]
)
def test_what_is_no_repository(repository: str) -> None:
    with pytest.raises(ValueError, match="owner/name"):
        Site(repository)


@pytest.mark.parametrize("url", ["", "api.github.com", "ftp://x", "https://", "https://x?y=1", "https://x#y"])
def test_what_is_no_api_root(url: str) -> None:
    with pytest.raises(ValueError, match="API root"):
        Site("acme/web", url)


@pytest.mark.parametrize(
    "text",
    [
        "12",
        "#12",
        "acme/web#12",
        "ACME/Web#12",
        "github.com/acme/web#12",
        "https://github.com/acme/web/issues/12",
        "http://www.github.com/Acme/WEB/issues/12/",
        "https://github.com/acme/web/issues/12#issuecomment-99",
        "https://github.com/acme/web/issues/12?notification=1",
    ],
)
def test_what_names_an_issue(text: str) -> None:
    assert Site("Acme/Web").identify(text) == "12"


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "012",
        "12a",
        "-12",
        "1" * 11,
        "web#12",
        "acme/web",
        "acme/web#",
        "acme/other#12",
        "gitlab.com/acme/web#12",
        "https://github.com/acme/web/pull/12",
        "https://github.com/acme/other/issues/12",
        "https://evil.example/acme/web/issues/12",
        "https://github.com.evil.example/acme/web/issues/12",
        "https://user@github.com/acme/web/issues/12",
        "https://github.com/acme/web/issues",
        "https://github.com/acme/web/issues/12/x",
        "ssh://github.com/acme/web/issues/12",
        "https://[/acme/web/issues/12",
        "12\n",
        " 12",
    ],
)
def test_what_names_none_of_ours(text: str) -> None:
    assert Site("Acme/Web").identify(text) is None


@given(st.text())
def test_any_text_can_be_asked_about(text: str) -> None:
    site = Site("Acme/Web")
    number = site.identify(text)
    assert number is None or number in text
    site.holds(text)


# --- our comment ------------------------------------------------------------------------------------------------


@given(st.text(), st.text(), st.integers())
def test_what_was_written_is_read_back(text: str, run: str, fence: int) -> None:
    comment, memo = form(LabelSet("agent-smith")), Memo(run=run, fence=fence)
    fitted = comment.fit(text, memo)
    head = comment.head(memo)
    assert head.count("\n") == 1
    assert "--" not in head[4:-5]
    assert comment.read(head + fitted) == (fitted, memo)
    assert comment.fit(fitted, memo) == fitted
    (head + fitted).encode("utf-8")


@pytest.mark.parametrize(
    "text", ["x" * 70_000, "🧵" * 70_000, "🧵" * 40_000, "x" * (COMMENT_LIMIT - 100) + "🧵" * 100, "漢" * 65_536]
)
def test_long_texts_are_cut_whichever_way_characters_are_counted(text: str) -> None:
    comment = form(LabelSet())
    fitted = comment.fit(text, MEMO)
    whole = comment.head(MEMO) + fitted
    assert fitted.endswith(CUT)
    assert len(whole.encode("utf-16-le")) // 2 <= COMMENT_LIMIT
    assert len(whole.encode("utf-16-le")) // 2 >= COMMENT_LIMIT - 2
    assert comment.read(whole) == (fitted, MEMO)


@pytest.mark.parametrize("prefix", ["agent-smith", "a--b", "a-", "x > y", "ünï/code"])
def test_any_prefix_can_stand_in_the_marker(prefix: str) -> None:
    comment = form(LabelSet(prefix))
    head = comment.head(MEMO)
    assert head.startswith("<!-- ")
    assert head.endswith(" -->\n")
    assert "--" not in head[4:-5]
    assert ">" not in head[:-3].replace("\\u003e", "") or "run" in head
    assert comment.read(head + "x") == ("x", MEMO)


def test_comments_of_a_former_prefix_are_still_ours_and_others_are_not() -> None:
    old, new = form(LabelSet("old")), form(LabelSet("new", former_prefixes=("old",)))
    assert new.read(old.head(MEMO) + "x") == ("x", MEMO)
    assert old.read(new.head(MEMO) + "x") is None
    assert new.read("x\n" + new.head(MEMO)) is None
    assert new.read("<!-- new:status nonsense -->\nx") == ("x", None)
    assert new.read("") is None


# --- settings ---------------------------------------------------------------------------------------------------

TOKEN = {"platform": "github", "repository": "acme/web", "token": "ghp_abcdefghij0123456789"}
APP = {"client_id": "Iv23", "installation_id": 7, "private_key": "-----BEGIN"}


def settings(**more: Any) -> GitHubSettings:
    """Settings with a token and these changes."""
    return GitHubSettings.model_validate({k: v for k, v in {**TOKEN, **more}.items() if v is not None})


async def test_a_token_is_enough() -> None:
    made = settings()
    assert made.project_identity() == "github.com/acme/web"
    assert "ghp_" not in repr(made)
    tracker = made.open("web", LabelSet(), connect(Shared()))
    assert (tracker.name, tracker.platform, tracker.project) == ("web", "github", "github.com/acme/web")
    assert (
        tracker.filter_hint(next(iter(LabelSet().statuses(["agent-smith:done"]))))
        == 'is:issue label:"agent-smith:done"'
    )
    await tracker.aclose()


def test_two_spellings_of_one_repository_are_one_project() -> None:
    one, two = settings(), settings(repository="ACME/Web", base_url="https://api.github.com/")
    assert one.project_identity() == two.project_identity()
    assert settings(base_url="https://git.example/api/v3").project_identity() == "git.example/acme/web"


@pytest.mark.parametrize(
    "changes",
    [
        {"token": None},
        {"app": APP},
        {"token": ""},
        {"repository": "web"},
        {"base_url": "git.example"},
        {"strikt": True},
        {"token": None, "app": {**APP, "client_id": None}},
        {"token": None, "app": {**APP, "id": 5}},
        {"token": None, "app": {**APP, "private_key": None}},
        {"token": None, "app": {**APP, "private_key_path": "x.pem"}},
        {"token": None, "app": {**APP, "installation_id": 0}},
        {"write_spacing": "soon"},
    ],
)
def test_what_is_refused(changes: dict[str, Any]) -> None:
    if "app" in changes:
        changes["app"] = {k: v for k, v in changes["app"].items() if v is not None}
    with pytest.raises(ValidationError) as caught:
        settings(**changes)
    assert "ghp_" not in str(caught.value)


def test_an_apps_key_may_lie_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    made = settings(token=None, app={"id": 5, "installation_id": 7, "private_key_path": str(file)})
    assert made.app is not None
    with pytest.raises(ConfigError, match=r"key\.pem cannot be read"):
        made.app.login()
    file.write_text("-----BEGIN KEY", encoding="ascii")
    file.chmod(stat.S_IRUSR)
    login = made.app.login()
    assert (login.app, login.installation, login.private_key) == ("5", "7", "-----BEGIN KEY")
    assert "BEGIN" not in repr(login)
    file.chmod(stat.S_IRUSR | stat.S_IWUSR)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="no text"):
        made.app.login()


def test_a_key_from_the_environment_may_have_its_line_ends_written_out() -> None:
    made = settings(token=None, app={**APP, "private_key": "-----BEGIN\\nabc\\n-----END"})
    assert made.app is not None
    assert made.app.login().private_key == "-----BEGIN\nabc\n-----END"
