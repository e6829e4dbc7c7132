"""Which names, labels and addresses are accepted."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from agentsmith.config import Config, Redis, TrackerSettings
from agentsmith.config.names import absolute, legal_label, legal_prefix
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.tracker import Access
from tests.support.config_platforms import Hosted


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost",
        "redis://user:p%40ss@host:6379/3",
        "rediss://host:6380/0?ssl_cert_reqs=none",
        "redis://[::1]:6379",
        "unix:///run/redis.sock?db=2",
        "redis+sentinel://a:26379,b:26379/main",
        "redis+sentinel://user:pass@a:26379,[::1]:26379/main/1",
    ],
)
def test_addresses_of_redis(url: str) -> None:
    found = Redis(url=SecretStr(url)).url
    assert found
    assert found.get_secret_value() == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:6379",
        "http://host",
        "redis://",
        "redis:///0",
        "redis://host:port",
        "redis://host:99999",
        "redis://host/zero",
        "redis://host/0/1",
        "redis://[::1",
        "unix://",
        "unix://relative",
        "redis+sentinel://a:26379",
        "redis+sentinel://a:26379,/main",
        "redis+sentinel://a:x/main",
        "redis+sentinel://a:1/main/db",
        "redis+sentinel://a:1/main/0/1",
    ],
)
def test_no_addresses_of_redis(url: str) -> None:
    with pytest.raises(ValueError, match="is not the address of a Redis"):
        Redis(url=SecretStr(url))


@pytest.mark.parametrize("prefix", ["agent-smith", "a", "team:bot", "org/bot", "Bot_1", "日本語", "x" * 38, "v1.0"])
def test_prefixes_that_are_legal_everywhere(prefix: str) -> None:
    assert legal_prefix(prefix) == prefix
    assert max(len(Config(label_prefix=prefix).labels.label(status)) for status in Status) <= 50


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "x" * 39,
        "a b",
        " a",
        "a,b",
        "a;b",
        "a:",
        ":a",
        "a::b",
        "a/",
        "-a",
        "a\n",
        'a"b',
        "a?b",
        "a%b",
        "😀",
        "a\u202eb",
    ],
)
def test_prefixes_that_are_not(prefix: str) -> None:
    with pytest.raises(ValueError, match=r"^(is empty|has|must|holds)"):
        legal_prefix(prefix)


@pytest.mark.parametrize("label", ["agent-smith:fix", "good first issue", "🏃‍♀️ run", "a/b", "x" * 255])
def test_labels_that_people_can_set(label: str) -> None:
    assert legal_label(f" {label} ") == label


@pytest.mark.parametrize("label", ["", "  ", "a,b", "a;b", "a\nb", "a\x1bb", "x" * 256])
def test_labels_that_nobody_can_set(label: str) -> None:
    with pytest.raises(ValueError, match=r"^(is|holds)"):
        legal_label(label)


def test_folders() -> None:
    assert absolute(Path("/a/../b")) == Path("/b")
    for wrong in ("", "a\0b"):
        with pytest.raises(ValueError, match="is not a folder"):
            absolute(Path(wrong))


def test_access_is_ordered_and_can_be_given_as_it_is() -> None:
    config = Config.model_validate({"allow": {"access": Access.ADMIN}})
    assert config.allow.access > Access.TRIAGE


def test_a_platform_without_projects_can_be_used_once() -> None:
    assert TrackerSettings(platform="x").project_identity() == "x"
    with pytest.raises(ValueError, match=r"watches the same project as trackers\.a"):
        Config(trackers={"a": TrackerSettings(platform="x"), "b": TrackerSettings(platform="x")})


def test_a_secret_that_looks_like_a_broken_address_is_still_listed() -> None:
    settings = Hosted(platform="github", repository="a/b", token=SecretStr("http://[oops"))
    assert list(Config(trackers={"w": settings}).secrets()) == ["http://[oops"]
