"""What was done to an issue, and by whom: one GraphQL query tells of labels, titles and the last change of the text.

GraphQL answers are never cached, as who did something must not be. Where it cannot be had (an old Enterprise Server, a
token or a proxy that allows REST only), the list of events tells of labels and titles; who changed the text, and when,
REST does not tell at all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import structlog

from agentsmith.domain.errors import BadAnswer, RateLimited, Refused, TrackerUnavailable
from agentsmith.domain.vetting import Deed, DeedKind, History, in_order, since_set
from agentsmith.redaction import excerpt
from agentsmith.trackers.github import payloads
from agentsmith.trackers.github.dialect import message, quota
from agentsmith.trackers.github.payloads import Event, IssueHistory, Line
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.http import Answer
from agentsmith.trackers.http.paging import links
from agentsmith.trackers.shared.api import OnProject, ProjectApi

log = structlog.get_logger()

_MOST_PAGES: Final = 100
_WHO: Final = "{ __typename login ... on User { databaseId } ... on Bot { databaseId } }"
_QUERY: Final = f"""
query($owner: String!, $name: String!, $number: Int!, $size: Int!, $before: String) {{
  repository(owner: $owner, name: $name) {{
    issue(number: $number) {{
      lastEditedAt
      editor {_WHO}
      timelineItems(last: $size, before: $before, itemTypes: [LABELED_EVENT, UNLABELED_EVENT, RENAMED_TITLE_EVENT]) {{
        pageInfo {{ hasPreviousPage startCursor }}
        nodes {{
          __typename
          ... on LabeledEvent {{ id createdAt label {{ name }} actor {_WHO} }}
          ... on UnlabeledEvent {{ id createdAt label {{ name }} actor {_WHO} }}
          ... on RenamedTitleEvent {{ id createdAt actor {_WHO} }}
        }}
      }}
    }}
  }}
}}
"""
_LINES: Final = {
    "LabeledEvent": DeedKind.LABELLED,
    "UnlabeledEvent": DeedKind.UNLABELLED,
    "RenamedTitleEvent": DeedKind.TITLE,
}
_EVENTS: Final = {"labeled": DeedKind.LABELLED, "unlabeled": DeedKind.UNLABELLED, "renamed": DeedKind.TITLE}
_PASSING: Final = ("RATE_LIMITED", "INTERNAL", "SERVICE_UNAVAILABLE", "TIMEOUT")


class Histories(OnProject[Site]):
    """Reads what was done to issues."""

    def __init__(self, api: ProjectApi[Site]) -> None:
        super().__init__(api)
        self._warned = False

    async def since(self, number: str, label: str) -> History:
        """What was done since the label was put on (T21)."""
        wanted = label.casefold()
        try:
            found = await self._by_graphql(number, wanted)
        except Refused as error:
            if not self._warned:
                log.warning("GraphQL is not available: who changed a text is not known", error=str(error))
            self._warned = True
            return await self._by_events(number, wanted)
        self._warned = False
        return found

    async def _by_graphql(self, number: str, wanted: str) -> History:
        before: str | None = None
        deeds: tuple[Deed, ...] = ()
        for _ in range(_MOST_PAGES):
            page = await self._ask(number, before)
            deeds = (*(_deed(line) for line in page.lines.nodes if line.kind in _LINES), *deeds)
            found = since_set(deeds, lambda name: name.casefold() == wanted)
            if found is not None or not page.lines.info.more:
                return History(_with_last_edit(found or (), page))
            before = page.lines.info.start
        return History()

    async def _ask(self, number: str, before: str | None) -> IssueHistory:
        owner, _, name = (self._site.called or self._site.repository).partition("/")
        variables = {"owner": owner, "name": name, "number": int(number), "size": self._page_size, "before": before}
        answer = await self._client.write(
            "POST",
            self._site.graphql_url,
            {"query": _QUERY, "variables": variables},
            repeatable=True,
            bucket="graphql",
            missing=Refused,
        )
        data: Any = answer.data if isinstance(answer.data, dict) else {}
        if data.get("errors"):
            _refused(answer, data["errors"])
        repository = (data.get("data") or {}).get("repository") or {}
        page: IssueHistory = payloads.read(IssueHistory, repository.get("issue"), "the history of an issue")
        return page

    async def _by_events(self, number: str, wanted: str) -> History:
        deeds: tuple[Deed, ...] = ()
        async for page in self._newest_first(number):
            deeds = (*page, *deeds)
            found = since_set(deeds, lambda name: name.casefold() == wanted)
            if found is not None:
                return History(found, tells_edits=False)
        return History(tells_edits=False)

    async def _newest_first(self, number: str) -> AsyncIterator[list[Deed]]:
        """The pages of an issue's events, from the end; each page has its oldest event first.

        They break off where we do not look further, and there are none where we do not get to the end.
        """
        first = await self._client.get(self._site.path(number, "/events"), params={"per_page": str(self._page_size)})
        there = links(first.link)
        url = there.get("last") or there.get("next")  # of a long list GitHub need not name the last page
        if url is None:
            yield _deeds(first)
            return
        newest: list[Deed] = []
        there = {}
        for _ in range(_MOST_PAGES):
            answer = await self._client.get(url)
            newest += _deeds(answer)
            there = there or links(answer.link)
            url = links(answer.link).get("next")
            if url is None:
                break
        else:
            return
        yield newest
        for _ in range(_MOST_PAGES):
            url = there.get("prev")
            if url is None:
                return
            if url == there.get("first"):
                yield _deeds(first)
                return
            answer = await self._client.get(url)
            yield _deeds(answer)
            there = links(answer.link)


def _with_last_edit(deeds: tuple[Deed, ...], page: IssueHistory) -> tuple[Deed, ...]:
    """GitHub counts in seconds: a change of the text in the same second as a label came after it, to be safe."""
    if not deeds or page.edited_at is None or page.edited_at < deeds[0].at:
        return deeds
    editor = page.editor.to_actor() if page.editor is not None else None
    return in_order((*deeds, Deed(DeedKind.BODY, editor, page.edited_at)))


def _deed(line: Line) -> Deed:
    actor = line.actor.to_actor() if line.actor is not None else None
    return Deed(_LINES[line.kind], actor, line.at, line.id, line.label.name if line.label is not None else "")


def _deeds(answer: Answer) -> list[Deed]:
    records: list[Any] = payloads.read(list[Any], answer.data, "a list of events")
    found = []
    for record in records:
        if not isinstance(record, dict):
            raise BadAnswer("GitHub: an event is malformed")  # who knows what it would tell
        if record.get("event") in _EVENTS:
            event: Event = payloads.read(Event, record, "an event")
            actor = event.actor.to_actor() if event.actor is not None else None
            name = event.label.name if event.label is not None else ""
            found.append(Deed(_EVENTS[event.event], actor, event.created_at, str(event.id), name))
    return found


def _refused(answer: Answer, errors: object) -> None:
    """GraphQL answers with 200 and says here what is wrong; REST may still know."""
    kinds = (
        {str(error.get("type", "")) for error in errors if isinstance(error, dict)}
        if isinstance(errors, list)
        else set()
    )
    said = excerpt(message(answer.data))
    if "RATE_LIMITED" in kinds:
        left = quota(answer.headers)
        raise RateLimited(f"GitHub: {said}", retry_at=left.reset if left else None)
    if kinds & set(_PASSING):
        raise TrackerUnavailable(f"GitHub: {said}")
    raise Refused(f"GitHub: {said}")
