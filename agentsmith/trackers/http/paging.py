"""Ways to the next page. A platform picks one and hands it to `ApiClient.pages`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from agentsmith.trackers.http.replies import Answer


@dataclass(frozen=True, slots=True)
class Page:
    """Where a page is: a URL or path, and the query on top of it."""

    url: str
    params: Mapping[str, str] = field(default_factory=dict)


NextPage = Callable[[Page, Answer], Page | None]
"""From a page and its answer to the next page; None after the last."""

_LINK: Final = re.compile(r"<([^<>]*)>((?:\s*;\s*[\w-]+\s*=\s*(?:\"[^\"]*\"|[^\s;,\"]+))*)")
_REL: Final = re.compile(r";\s*rel\s*=\s*\"?([^\";,]*)\"?", re.I)


def links(header: str) -> dict[str, str]:
    """The URLs of a Link header by their relation."""
    found: dict[str, str] = {}
    for url, attributes in _LINK.findall(header):
        rel = _REL.search(attributes)
        for name in rel.group(1).lower().split() if rel else ():
            found.setdefault(name, url)
    return found


def link_header(page: Page, answer: Answer) -> Page | None:  # noqa: ARG001 - the shape of every NextPage
    """GitHub and GitLab: the answer's Link header names the next page."""
    url = links(answer.link).get("next")
    return Page(url) if url else None
