"""Where a repository is: API root, web host and GraphQL address, and how its issues are named. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from agentsmith.domain.ticket import TicketId
from agentsmith.trackers.http.addresses import host_of, is_root

GITHUB: Final = "https://api.github.com"

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,9}")
_REPOSITORY: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?/[A-Za-z0-9._-]+")


@dataclass(slots=True)
class Site:
    """One repository on one GitHub. `repository` is `owner/name`, as spelled in the configuration."""

    repository: str
    base_url: str = GITHUB
    """The API root, to which nothing is appended but paths."""
    called: str = ""
    """What GitHub calls the repository today, where it was renamed. Tickets keep the configured name."""
    id: str | None = None
    """The repository's number, which no rename changes: None until it is asked for, empty where it is not told."""

    def __post_init__(self) -> None:
        if not is_root(self.base_url):
            raise ValueError(f"base_url must be the address of an API root, like {GITHUB}")
        if not _REPOSITORY.fullmatch(self.repository) or self.repository.endswith(("/.", "/..")):
            raise ValueError("repository must be owner/name, like acme/web")

    @property
    def api_host(self) -> str:
        """The host of the API, with its port where that is unusual."""
        return host_of(self.base_url)

    @property
    def public(self) -> bool:
        """Whether this is github.com itself, whose limits are strict."""
        return self.api_host == "api.github.com"

    @property
    def web_host(self) -> str:
        """The host that people see: `github.com`, or the Enterprise Server's own."""
        return self.api_host.removeprefix("api.") if self._dedicated_api_host else self.api_host

    @property
    def clone_url(self) -> str:
        """Where git finds the repository; under a former name GitHub leads git on by itself."""
        return f"{urlsplit(self.base_url).scheme}://{self.web_host}/{self.repository}.git"

    @property
    def graphql_url(self) -> str:
        """The GraphQL address that belongs to the API root."""
        root = self.base_url.rstrip("/")
        return root.removesuffix("/v3") + "/graphql"

    @property
    def canonical(self) -> str:
        """The canonical project: `github.com/acme/web`."""
        return f"{self.web_host}/{self.repository.lower()}"

    def path(self, number: str = "", rest: str = "") -> str:
        """The API path of the repository, or of one issue and what belongs to it."""
        issue = f"/issues/{number}" if number else ""
        return f"/repos/{self.called or self.repository}{issue}{rest}"

    def ticket_id(self, number: str) -> TicketId:
        """`github.com/acme/web#12`."""
        return TicketId(f"{self.canonical}#{number}")

    def number(self, key: str) -> str | None:
        """The key itself, if it can be the number of an issue."""
        return key if _NUMBER.fullmatch(key) else None

    def identify(self, text: str) -> str | None:
        """The number in `12`, `#12`, `acme/web#12`, `github.com/acme/web#12` or the issue's URL, if it is ours."""
        if "://" in text:
            return self._from_url(text)
        name, hash_, number = text.rpartition("#")
        if name.lower() not in ("", self.repository.lower(), self.canonical) or (name and not hash_):
            return None
        return self.number(number)

    def reference(self, ticket: TicketId) -> str | None:
        """How a text on this GitHub names one of its issues: `#12`, `acme/other#12`; None for any other ticket."""
        project, _, number = ticket.rpartition("#")
        name = project.removeprefix(f"{self.web_host}/")
        if self.number(number) is None or name == project or not _REPOSITORY.fullmatch(name):
            return None
        return f"#{number}" if project == self.canonical else f"{name}#{number}"

    def holds(self, web_url: str) -> bool:
        """Whether a page that people see (of an issue, say) lies in this repository, on whatever host."""
        name = "/".join(_path(web_url)[:2]).lower()
        return bool(name) and name in (self.repository.lower(), self.called.lower())

    def ours(self, full_name: str, id_: str) -> bool:
        """Whether what a delivery tells of a repository is this one: by the number, else by the name."""
        return (
            id_ == self.id if id_ and self.id else full_name.lower() in (self.repository.lower(), self.called.lower())
        )

    def _from_url(self, text: str) -> str | None:
        try:
            url = urlsplit(text)
        except ValueError:
            return None
        parts = _path(text)
        ours = url.scheme in ("http", "https") and url.netloc.lower().removeprefix("www.") == self.web_host
        if not ours or len(parts) != 4 or parts[2] != "issues" or not self.holds(text):
            return None
        return self.number(parts[3])

    @property
    def _dedicated_api_host(self) -> bool:
        return self.public or self.api_host.endswith(".ghe.com")


def _path(url: str) -> list[str]:
    try:
        return urlsplit(url).path.strip("/").split("/")
    except ValueError:
        return []
