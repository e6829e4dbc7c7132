"""Where a project is: site root, API paths, web addresses, and how its issues are named. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import quote, urlsplit

from agentsmith.domain.ticket import TicketId

_PROJECT: Final = re.compile(r"[A-Z][A-Z0-9_]{0,254}")
_KEY: Final = re.compile(r"([A-Z][A-Z0-9_]{0,254})-([1-9][0-9]{0,9})")


class Deployment(StrEnum):
    """Which Jira: the two differ in API version, login, texts and users."""

    CLOUD = "cloud"
    DATA_CENTER = "data-center"


@dataclass(frozen=True, slots=True)
class Site:
    """One project on one Jira."""

    project: str
    base_url: str
    """The site root, `https://acme.atlassian.net`; `/rest/api/…` is appended to it."""
    deployment: Deployment = Deployment.CLOUD
    web_url: str = ""
    """Where people see it, if not at `base_url`: scoped tokens go through `https://api.atlassian.com/ex/jira/…`."""

    def __post_init__(self) -> None:
        for name, url in (("base_url", self.base_url), ("web_url", self.web_url or self.base_url)):
            root = urlsplit(url)
            if root.scheme not in ("http", "https") or not root.hostname or root.query or root.fragment:
                raise ValueError(f"{name} must be the address of a Jira site, like https://acme.atlassian.net")
        if "/rest" in urlsplit(self.base_url).path:
            raise ValueError("base_url must be the site root, without /rest/api")
        if not _PROJECT.fullmatch(self.project):
            raise ValueError("project must be a project key in capitals, like WEB")

    @property
    def cloud(self) -> bool:
        """Whether this is Jira Cloud."""
        return self.deployment is Deployment.CLOUD

    @property
    def host(self) -> str:
        """The host of the API, with its port where that is unusual."""
        return _host(self.base_url)

    @property
    def web_root(self) -> str:
        """The address under which people see this Jira; it need not be at the top of its host."""
        url = self.web_url or self.base_url
        parts = urlsplit(url)
        return f"{parts.scheme}://{_host(url)}{parts.path.rstrip('/')}"

    @property
    def place(self) -> str:
        """What stands before the key in canonical names: the host, with the folder where there is one."""
        return self.web_root.partition("://")[2]

    @property
    def canonical(self) -> str:
        """The canonical project: `acme.atlassian.net/WEB`."""
        return f"{self.place}/{self.project}"

    def api(self, rest: str) -> str:
        """A path of the REST API."""
        return f"/rest/api/{3 if self.cloud else 2}{rest}"

    def issue(self, key: str, rest: str = "") -> str:
        """The API path of an issue, and what belongs to it."""
        return self.api(f"/issue/{quote(key, safe='')}{rest}")

    def page(self, key: str) -> str:
        """Where people see an issue."""
        return f"{self.web_root}/browse/{key}"

    def ticket_id(self, key: str) -> TicketId:
        """`acme.atlassian.net/WEB-12`; also for issues of other projects of the site."""
        return TicketId(f"{self.place}/{key}")

    def key(self, text: str) -> str | None:
        """The text itself, if it can be the key of an issue of this project."""
        found = _KEY.fullmatch(text)
        return text if found and found[1] == self.project else None

    def identify(self, text: str) -> str | None:
        """The key in `WEB-12`, `acme.atlassian.net/WEB-12` or the issue's URL, if it is ours."""
        for start in (f"{self.web_root}/browse/", f"{self.place}/", ""):
            if text.startswith(start):
                return self.key(text[len(start) :])
        return None


def _host(url: str) -> str:
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}[parts.scheme]
    host = (parts.hostname or "").lower()
    return host if parts.port in (None, usual) else f"{host}:{parts.port}"
