"""Where a project is: site root, API paths, web addresses, and how its issues are named. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import quote, urlsplit

from agentsmith.domain.ticket import TicketId
from agentsmith.trackers.http.addresses import host_of, is_root

_PROJECT: Final = re.compile(r"[A-Z][A-Z0-9_]{0,254}")
_KEY: Final = re.compile(r"([A-Z][A-Z0-9_]{0,254})-([1-9][0-9]{0,9})")


class Deployment(StrEnum):
    """Which Jira: the two differ in API version, login, texts and users."""

    CLOUD = "cloud"
    DATA_CENTER = "data-center"


@dataclass(slots=True)
class Site:
    """One project on one Jira."""

    project: str
    base_url: str
    """The site root, `https://acme.atlassian.net`; `/rest/api/…` is appended to it."""
    deployment: Deployment = Deployment.CLOUD
    web_url: str = ""
    """Where people see it, if not at `base_url`: scoped tokens go through `https://api.atlassian.com/ex/jira/…`."""
    id: str | None = None
    """The project's number, once Jira told it: it stays when the key changes."""
    called: str = ""
    """The project's key today, where it was changed. Tickets keep the configured one: their numbers stay."""

    def __post_init__(self) -> None:
        for name, url in (("base_url", self.base_url), ("web_url", self.web_url or self.base_url)):
            if not is_root(url):
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
        return host_of(self.base_url)

    @property
    def web_root(self) -> str:
        """The address under which people see this Jira; it need not be at the top of its host."""
        url = self.web_url or self.base_url
        parts = urlsplit(url)
        return f"{parts.scheme}://{host_of(url)}{parts.path.rstrip('/')}"

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
        return self.api(f"/issue/{quote(self._today(key), safe='')}{rest}")

    def page(self, key: str) -> str:
        """Where people see an issue."""
        return f"{self.web_root}/browse/{self._today(key)}"

    def ticket_id(self, key: str) -> TicketId:
        """`acme.atlassian.net/WEB-12`; also for issues of other projects of the site."""
        return TicketId(f"{self.place}/{self.key(key) or key}")

    def key(self, text: str) -> str | None:
        """The text as the key of an issue of this project, under the configured name; None if it cannot be one."""
        found = _KEY.fullmatch(text)
        return f"{self.project}-{found[2]}" if found and found[1] in (self.project, self.called) else None

    def key_in(self, project_id: str, text: str) -> str | None:
        """The same where Jira tells the project's number as well: that decides, whatever the project is called."""
        found = _KEY.fullmatch(text)
        if not project_id or not self.id:
            return self.key(text)
        return f"{self.project}-{found[2]}" if found and project_id == self.id else None

    def learn(self, id_: str, key: str) -> bool:
        """What Jira tells of the project; answers whether its key has changed since we last knew."""
        if not id_.isdecimal() or not _PROJECT.fullmatch(key):
            raise ValueError("a project has a number and a key")
        before, self.id, self.called = self.named, id_, "" if key == self.project else key
        return before != key

    @property
    def named(self) -> str:
        """The project's key today, as far as we know."""
        return self.called or self.project

    def _today(self, key: str) -> str:
        """An issue's key as Jira has it now; that of another project is left alone."""
        ours = self.key(key)
        return key if ours is None else f"{self.named}-{ours.rpartition('-')[2]}"

    def identify(self, text: str) -> str | None:
        """The key in `WEB-12`, `acme.atlassian.net/WEB-12` or the issue's URL, if it is ours."""
        for start in (f"{self.web_root}/browse/", f"{self.place}/", ""):
            if text.startswith(start):
                return self.key(text[len(start) :])
        return None
