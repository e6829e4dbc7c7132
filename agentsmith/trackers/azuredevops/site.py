"""Where a project is: service root, organization and project, and how its work items are named. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from agentsmith.domain.ticket import TicketId
from agentsmith.trackers.http.addresses import host_of, is_root

AZURE: Final = "https://dev.azure.com"

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,9}")
_LARGEST: Final = 2**31 - 1
_ORGANIZATION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,127}")
_ILLEGAL: Final = re.compile(r"[\x00-\x1f\\/:*?\"<>|;#$&{},+=\[\]%]")
_GUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
_OLD_HOST: Final = ".visualstudio.com"


@dataclass(slots=True)
class Site:
    """One project of one organization (on a Server: of one collection), as spelled in the configuration."""

    organization: str
    project: str
    base_url: str = AZURE
    """The root before the organization, to which nothing is appended but paths."""
    called: str = ""
    """What Azure DevOps calls the project today, where it was renamed. Tickets keep the configured name."""
    id: str | None = None
    """The project's id, which no rename changes: None until it is asked for, empty where it is not told."""

    def __post_init__(self) -> None:
        if not is_root(self.base_url):
            raise ValueError(f"base_url must be the address before the organization, like {AZURE}")
        if not _ORGANIZATION.fullmatch(self.organization):
            raise ValueError("organization must be its bare name, like acme; on a Server the name of the collection")
        name = self.project
        if not name or len(name) > 64 or _ILLEGAL.search(name) or name != name.strip(" .") or name.startswith("_"):
            raise ValueError("project must be the name of a project, like Web or Fabrikam Fiber")
        if _GUID.fullmatch(name):
            raise ValueError("project must be a name, not an id: tickets are named after it")

    @property
    def host(self) -> str:
        """The host with its port where that is unusual; tells installations apart."""
        return host_of(self.base_url)

    @property
    def canonical(self) -> str:
        """The canonical project: `dev.azure.com/acme/web`, whatever the case in the configuration."""
        path = urlsplit(self.base_url).path.strip("/")
        parts = [self.host, *([path] if path else []), self.organization, self.project]
        return "/".join(quote(part, safe="/:") for part in parts).lower()

    def code_url(self, repository: str) -> str:
        """Where git finds a repository of the project, and people see it."""
        parts = (quote(self.organization), quote(self.project, safe=""), "_git", quote(repository, safe=""))
        return "/".join([self.base_url.rstrip("/"), *parts])

    def neighbour(self, ticket: TicketId) -> str | None:
        """The id of a work item of this organization, in whatever project; None for any other ticket."""
        project, _, number = ticket.rpartition("#")
        here = project.rpartition("/")[0] == self.canonical.rpartition("/")[0]
        return self.number(number) if here else None

    def neighbour_path(self, ticket: TicketId) -> str:
        """The API path of such a work item."""
        project = ticket.rpartition("#")[0].rpartition("/")[2]
        return f"/{quote(self.organization)}/{project}/_apis/wit/workitems/{self.neighbour(ticket)}"

    def path(self, rest: str) -> str:
        """An API path inside the project."""
        return f"/{quote(self.organization)}/{quote(self.called or self.project, safe='')}/_apis{rest}"

    def above(self, rest: str) -> str:
        """An API path of the organization."""
        return f"/{quote(self.organization)}/_apis{rest}"

    def here(self, project: str) -> bool:
        """Whether that is the name of this project, old or new."""
        return project.casefold() in (self.project.casefold(), self.called.casefold() or None)

    def ours(self, project: str, id_: str) -> bool:
        """Whether what a delivery tells of a project is this one: by the id, else by the name."""
        return id_.lower() == self.id.lower() if id_ and self.id else self.here(project)

    def ticket_id(self, number: str, project: str | None = None) -> TicketId:
        """`dev.azure.com/acme/web#12`; with `project`, of a ticket in another project of the organization."""
        site = self if project is None or self.here(project) else Site(self.organization, project, self.base_url)
        return TicketId(f"{site.canonical}#{number}")

    def web_url(self, number: str, project: str | None = None) -> str:
        """The page that people see."""
        name = quote(project or self.called or self.project, safe="")
        return f"{self.base_url.rstrip('/')}/{quote(self.organization)}/{name}/_workitems/edit/{number}"

    def number(self, key: str) -> str | None:
        """The key itself, if it can be the id of a work item."""
        return key if _NUMBER.fullmatch(key) and int(key) <= _LARGEST else None

    def identify(self, text: str) -> str | None:
        """The id in `12`, `#12`, `dev.azure.com/acme/web#12` or the work item's URL, if it is ours."""
        if "://" in text:
            return self._from_url(text)
        name, hash_, number = text.rpartition("#")
        if name.lower() not in ("", self.canonical) or (name and not hash_):
            return None
        return self.number(number)

    def _from_url(self, text: str) -> str | None:
        try:
            url = urlsplit(text)
            host = host_of(text) if url.scheme in ("http", "https") else ""
        except ValueError:
            return None
        parts = [unquote(part) for part in url.path.split("/") if part]
        if host == f"{self.organization.lower()}{_OLD_HOST}" and self.host == "dev.azure.com":
            parts = [self.organization, *(parts[1:] if parts[:1] == ["DefaultCollection"] else parts)]
        elif host != self.host:
            return None
        else:
            root = [part for part in urlsplit(self.base_url).path.split("/") if part]
            if [part.lower() for part in parts[: len(root)]] != [part.lower() for part in root]:
                return None
            parts = parts[len(root) :]
        if len(parts) != 5 or parts[0].lower() != self.organization.lower() or not self.here(parts[1]):
            return None
        if [part.lower() for part in parts[2:4]] != ["_workitems", "edit"]:
            return None
        return self.number(parts[4])
