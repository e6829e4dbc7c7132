"""What the configuration says about a repository on a plain git server."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from agentsmith.config import RepositorySettings
from agentsmith.config.names import Secret
from agentsmith.domain.forge import GitCredential
from agentsmith.trackers.git.forge import GitForge

_SCP_LIKE: Final = re.compile(r"(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9][A-Za-z0-9.-]*:(?!//|:)[^\s\x00-\x1f]+")
_BRANCH: Final = re.compile(
    r"(?!/|.*//|.*\.\.|.*@\{|.*\.lock(?:/|$)|.*[/.]$)[^\s\x00-\x20\x7f~^:?*\[\\-][^\s\x00-\x20\x7f~^:?*\[\\]*"
)


def _an_address(url: str) -> str:
    """The address as it is, if git can be given it; a password in it is never quoted."""
    good = "; write https://host/path.git, ssh://git@host/path.git, git@host:path.git or a folder (/srv/git/web.git)"
    if not url or any(ord(c) < 33 for c in url) or url.startswith("-"):
        raise ValueError(f"is not the address of a git repository{good}")
    if url.startswith("/"):
        return url
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:
        raise ValueError(f"is not the address of a git repository{good}") from None
    if parts.scheme in ("http", "https") and parts.hostname and len(parts.path) > 1:
        if parts.username or password:
            raise ValueError("holds a credential; put it into `username` and `token`, the latter from the environment")
        if not parts.query and not parts.fragment:
            return url
    elif parts.scheme in ("ssh", "file") and len(parts.path) > 1:
        if password:
            raise ValueError("holds a password; ssh takes none from here, give the account a key")
        if parts.hostname or parts.scheme == "file":
            return url
    elif "://" not in url and _SCP_LIKE.fullmatch(url):
        return url
    raise ValueError(f"is not the address of a git repository{good}")


def _a_branch(name: str) -> str:
    if not _BRANCH.fullmatch(name):
        raise ValueError("is not the name of a branch; write it as git does, like main or release/2.x")
    return name


class GitRepository(RepositorySettings):
    """A repository on a server that knows git only, or in a folder."""

    platform: Literal["git"]
    url: Annotated[str, AfterValidator(_an_address)]
    """Where git finds it; without a password."""
    username: Annotated[str, Field(min_length=1, max_length=255)] = "git"
    """Who git says it is, where there is a token."""
    token: Secret | None = None
    """The password, for http and https only; ssh has its keys."""
    default_branch: Annotated[str, AfterValidator(_a_branch)] = "main"
    """What work starts from; a plain server cannot be asked for it."""

    @model_validator(mode="after")
    def _a_password_over_http(self) -> Self:
        if self.token is not None and not self.url.startswith(("http://", "https://")):
            raise ValueError("takes a token only with an http or https url")
        return self

    def open(self, name: str) -> GitForge:
        """The forge that these settings describe: a plain server has no API to reach."""
        credential = None if self.token is None else GitCredential(self.username, self.token.get_secret_value())
        return GitForge(name=name, url=self.url, branch=self.default_branch, credential=credential)
