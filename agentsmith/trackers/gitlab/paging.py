"""The way to the next page of a list, by keyset or by number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from agentsmith.domain.errors import BadAnswer
from agentsmith.trackers.http import Answer, NextPage
from agentsmith.trackers.http.paging import Page, links

_POSITION: Final[tuple[str, ...]] = ("cursor", "id_after", "page")


def onward(sent: Mapping[str, str]) -> NextPage:
    """The next page of a list that was asked for with `sent`, by our own address.

    The Link header may name a host that only people use, and repeats every parameter that GitLab knows; what it alone
    knows is the position.
    """

    def next_page(page: Page, answer: Answer) -> Page | None:
        url = links(answer.link).get("next")
        if not url:
            return None
        try:
            query = dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
        except ValueError:
            query = {}
        position = {name: query[name] for name in _POSITION if name in query}
        if not position:
            raise BadAnswer("GitLab: the link to the next page does not say where that is")
        return Page(page.url, {**sent, **position})

    return next_page
