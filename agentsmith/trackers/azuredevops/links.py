"""What a work item waits for: its predecessors, in whatever project of the organization they are."""

from __future__ import annotations

import re
from typing import Any, Final

from agentsmith.domain.errors import BadAnswer, Refused
from agentsmith.domain.tracker import Blocker
from agentsmith.trackers.azuredevops import payloads
from agentsmith.trackers.azuredevops.dialect import API_VERSION
from agentsmith.trackers.azuredevops.listing import BATCH
from agentsmith.trackers.azuredevops.payloads import Linked, Page, WorkItem
from agentsmith.trackers.azuredevops.site import Site
from agentsmith.trackers.azuredevops.states import States
from agentsmith.trackers.shared.api import ProjectApi

PREDECESSOR: Final = "System.LinkTypes.Dependency-Reverse"
_TARGET: Final = re.compile(r"/_apis/wit/workItems/([1-9][0-9]{0,9})$", re.I)
_FACTS: Final = ("System.Id", "System.State", "System.WorkItemType", "System.TeamProject")


async def blockers(api: ProjectApi[Site], states: States, number: str) -> tuple[Blocker, ...]:
    """The predecessors of a work item. One that we may not see counts as open: nothing says that it is done."""
    params = {"api-version": API_VERSION, "$expand": "relations"}
    answer = await api.client.get(api.site.path(f"/wit/workitems/{number}"), params=params)
    item: WorkItem = payloads.read(WorkItem, answer.data, f"work item {number}")
    links = [relation.url for relation in item.relations or () if relation.rel == PREDECESSOR]
    ids = sorted({int(target[1]) for url in links if (target := _TARGET.search(url))})
    found: list[Blocker] = []
    for start in range(0, len(ids), BATCH):
        some = ids[start : start + BATCH]
        body = {"ids": some, "fields": list(_FACTS), "errorPolicy": "omit"}
        path = api.site.above("/wit/workitemsbatch") + f"?api-version={API_VERSION}"
        batch = await api.client.write("POST", path, body, repeatable=True, missing=Refused)
        page: Page = payloads.read(Page, batch.data, "a batch of work items")
        seen = {linked.id: linked for record in page.value if (linked := _linked(record)) is not None}
        found += [await _blocker(api.site, states, id_, seen.get(id_)) for id_ in some]
    return tuple(found)


async def _blocker(site: Site, states: States, id_: int, linked: Linked | None) -> Blocker:
    number = str(id_)
    if linked is None:
        return Blocker(site.ticket_id(number), site.web_url(number), open=True)
    facts = linked.fields
    open_ = await states.is_open(facts.type, facts.state, project=facts.project, deadline=None)
    return Blocker(site.ticket_id(number, facts.project), site.web_url(number, facts.project), open_)


def _linked(record: Any) -> Linked | None:
    if record is None:
        return None
    try:
        linked: Linked = payloads.read(Linked, record, "a linked work item")
    except BadAnswer:
        return None
    return linked
