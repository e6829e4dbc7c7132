"""Where a project is: API root, web addresses, and how its issues are named. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, urlsplit

from agentsmith.domain.ticket import TicketId
from agentsmith.trackers.http.addresses import host_of, is_root

GITLAB: Final = "https://gitlab.com/api/v4"

_IID: Final = re.compile(r"[1-9][0-9]{0,9}")
_PATH: Final = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_.][A-Za-z0-9_.-]*)+")
_ID: Final = re.compile(r"[1-9][0-9]{0,18}")
_PAGE: Final = re.compile(r"(https?://[^?#\s]+?)/(?:-/)?(?:issues|work_items)/([1-9][0-9]{0,9})")
"""The page of an issue, in every form that GitLab has used."""


@dataclass(slots=True)
class Site:
    """One project on one GitLab. `project` is its id, or its path with all groups, as in the configuration."""

    project: str
    base_url: str = GITLAB
    """The API root, to which nothing is appended but paths."""
    called: str = ""
    """The project's id, once a redirect told that its path has changed. Tickets keep the configured name."""
    id: str | None = None
    """The project's id, asked for once: None before that, empty where it was not told."""
    pages: set[str] = field(default_factory=set)
    """Where people see the project, as its own issues told; GitLab may be known to them by another address."""

    def __post_init__(self) -> None:
        if not is_root(self.base_url):
            raise ValueError(f"base_url must be the address of an API root, like {GITLAB}")
        parts = self.project.split("/")
        if not _ID.fullmatch(self.project) and (not _PATH.fullmatch(self.project) or {".", ".."} & set(parts)):
            raise ValueError("project must be an id or a path with its groups, like acme/web or acme/apps/web")

    @property
    def host(self) -> str:
        """The host of the API, with its port where that is unusual."""
        return host_of(self.base_url)

    @property
    def web_root(self) -> str:
        """The address under which people see this GitLab; it need not be at the top of its host."""
        parts = urlsplit(self.base_url)
        folder = parts.path.rstrip("/").removesuffix("/v4").removesuffix("/api").rstrip("/")
        return f"{parts.scheme}://{self.host}{folder}"

    @property
    def graphql_url(self) -> str:
        """The GraphQL address that belongs to the API root."""
        return self.base_url.rstrip("/").removesuffix("/v4") + "/graphql"

    @property
    def named(self) -> bool:
        """Whether the project is known by its path; git, unlike the API, finds none by its id."""
        return not _ID.fullmatch(self.project)

    @property
    def clone_url(self) -> str:
        """Where git finds the project; under a former path GitLab leads git on by itself."""
        return f"{self.web_root}/{self.project}.git"

    @property
    def place(self) -> str:
        """What stands before the project in canonical names: the host, with the folder where there is one."""
        return self.web_root.partition("://")[2]

    @property
    def canonical(self) -> str:
        """The canonical project: `gitlab.com/acme/apps/web`, or `gitlab.com/4711` where only the id is known."""
        return f"{self.place}/{self.project.lower()}"

    def path(self, iid: str = "", rest: str = "") -> str:
        """The API path of the project, or of one issue and what belongs to it."""
        issue = f"/issues/{iid}" if iid else ""
        return f"/projects/{quote(self.called or self.project, safe='')}{issue}{rest}"

    def ticket_id(self, iid: str) -> TicketId:
        """`gitlab.com/acme/web#12`."""
        return TicketId(f"{self.canonical}#{iid}")

    def foreign_id(self, full_path: str, iid: str) -> TicketId:
        """The canonical name of an issue in any project of this GitLab."""
        if full_path.lower() == self.project.lower() or f"{self.web_root}/{full_path}".lower() in self.pages:
            return self.ticket_id(iid)
        return TicketId(f"{self.place}/{full_path.lower()}#{iid}")

    def reference(self, ticket: TicketId) -> str | None:
        """How a text on this GitLab names one of its issues: `#12`, `acme/other#12`; None for any other ticket."""
        project, _, iid = ticket.rpartition("#")
        path = project.removeprefix(f"{self.place}/")
        if self.iid(iid) is None or path == project:
            return None
        if project == self.canonical:
            return f"#{iid}"
        return f"{path}#{iid}" if _PATH.fullmatch(path) else None

    def iid(self, key: str) -> str | None:
        """The key itself, if it can be the number of an issue."""
        return key if _IID.fullmatch(key) else None

    def ours(self, path: str, id_: str) -> bool:
        """Whether what a delivery tells of a project is this one: by the id, else by the path."""
        known = self.called or self.id or ("" if self.named else self.project)
        return id_ == known if id_ and known else path.lower() == self.project.lower()

    def learn(self, web_url: str) -> None:
        """An issue of this project is shown at `web_url`; the project's other issues are beside it."""
        found = _PAGE.fullmatch(web_url)
        if found and len(self.pages) < 10:
            self.pages.add(found[1].lower())

    def identify(self, text: str) -> str | None:
        """The number in `12`, `#12`, `acme/web#12`, `gitlab.com/acme/web#12` or the issue's URL, if it is ours."""
        if "://" in text:
            found = _PAGE.fullmatch(text)
            ours = {f"{self.web_root}/{self.project}".lower(), *self.pages}
            return found[2] if found and found[1].lower() in ours else None
        name, hash_, iid = text.rpartition("#")
        if name.lower() not in ("", self.project.lower(), self.canonical) or (name and not hash_):
            return None
        return self.iid(iid)
