"""Ways to the next page. A platform picks one and hands it to `ApiClient.pages`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlsplit

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


def link_header(page: Page, answer: Answer) -> Page | None:
    """GitHub: the answer's Link header names the next page.

    An ETag covers the body alone: a full page that is unchanged may have got a successor since, and a 304 need not say
    so. There the next page is asked for by its number; it costs nothing while it stays as it is.
    """
    url = links(answer.link).get("next")
    if url:
        return Page(url)
    return _probe(page, answer.data) if answer.unchanged else None


def _probe(page: Page, records: object) -> Page | None:
    query = {**dict(parse_qsl(urlsplit(page.url).query)), **page.params}
    size = query.get("per_page", "")
    full = len(records) >= int(size) if isinstance(records, list) and size.isdecimal() else bool(records)
    number = query.get("page", "1")
    return Page(page.url, {**page.params, "page": str(int(number) + 1)}) if full and number.isdecimal() else None
