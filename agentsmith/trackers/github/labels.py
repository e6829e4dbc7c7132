"""Label writes: one label at a time, never a whole set (P3), each verified by the label set that GitHub answers.

REST needs two requests to swap two labels (POST, then DELETE). One GraphQL request can carry both mutations; GitHub
runs them in order, but does not promise to skip the second when the first fails. So the caller uses `swap` only on
edges where a ticket without its label is still told the truth about, and `add` then `remove` everywhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import structlog

from agentsmith.bounded import Bounded
from agentsmith.domain.errors import RateLimited, Refused, TicketNotFound
from agentsmith.trackers.github import payloads
from agentsmith.trackers.github.dialect import quota
from agentsmith.trackers.github.payloads import Label, Snapshot
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.http import Answer, ApiClient, OutcomeUnknown

log = structlog.get_logger()

Labels = Mapping[str, str]
"""The labels on an issue: GraphQL id by name, as spelled there; the id is empty where it is not known."""

_MOST_LABELS: Final = 5000
SWAP: Final = """mutation($issue: ID!, $add: [ID!]!, $remove: [ID!]!) {
  add: addLabelsToLabelable(input: {labelableId: $issue, labelIds: $add}) {
    labelable { labels(first: 100) { nodes { id name } } }
  }
  remove: removeLabelsFromLabelable(input: {labelableId: $issue, labelIds: $remove}) {
    labelable { labels(first: 100) { nodes { id name } } }
  }
}"""
_GONE_LABEL: Final = "label does not exist"


@dataclass(frozen=True, slots=True)
class Swapped:
    """What each of the two mutations left on the issue; None for one that failed."""

    added: Labels | None
    removed: Labels | None


class LabelWriter:
    """Writes labels on the issues of one repository and remembers what GraphQL calls them."""

    def __init__(self, client: ApiClient, site: Site) -> None:
        self._client = client
        self._site = site
        self._ids: Bounded[str, str] = Bounded(_MOST_LABELS)
        self._graphql = True

    def learn(self, labels: Iterable[Label]) -> None:
        """Remember ids of labels of this repository, from any answer that shows them."""
        self._ids.update({label.name.casefold(): label.node_id for label in labels if label.node_id})

    async def add(self, number: str, *labels: str, deadline: float) -> Labels:
        """Put labels on, beside those that are there; answers all labels that are there then."""
        path = self._site.path(number, "/labels")
        answer = await self._client.write("POST", path, {"labels": list(labels)}, deadline=deadline)
        return self._read(answer)

    async def remove(self, number: str, label: str, *, deadline: float) -> Labels | None:
        """Take a label off; answers what is left, or None when it was not there any more."""
        path = self._site.path(number, f"/labels/{quote(label, safe='')}")
        answer = await self._client.write("DELETE", path, deadline=deadline, allow=frozenset({404}))
        if answer.status != 404:
            return self._read(answer) if answer.data is not None else None
        # GitHub says 404 both for a label that is gone and for an issue that is (or that we may not see).
        said = str(answer.data.get("message", "")) if isinstance(answer.data, dict) else ""
        if _GONE_LABEL in said.lower():
            return None
        raise TicketNotFound(f"GitHub: {self._site.ticket_id(number)} is not there any more: {said}")

    def can_swap(self, snapshot: Snapshot, add: str, remove: Iterable[str]) -> bool:
        """Whether all ids that `swap` needs are known, and GraphQL has not been refused."""
        known = snapshot.label_ids
        return self._graphql and bool(
            snapshot.node_id and self._ids.get(add.casefold()) and all(known.get(name) for name in remove)
        )

    async def swap(self, snapshot: Snapshot, add: str, remove: Iterable[str], *, deadline: float) -> Swapped | None:
        """Add and remove in one request; None when GraphQL refused to do anything, so that REST may try."""
        ids = {
            "issue": snapshot.node_id,
            "add": [self._ids[add.casefold()]],
            "remove": [snapshot.label_ids[name] for name in remove],
        }
        try:
            body = {"query": SWAP, "variables": ids}
            answer = await self._client.write(
                "POST", self._site.graphql_url, body, deadline=deadline, bucket="graphql", missing=Refused
            )
        except Refused as error:
            # Some tokens and proxies allow REST only; asking again would double the cost of every move.
            self._graphql = False
            log.warning("GraphQL is not available, using two requests per move", error=str(error))
            return None
        data = answer.data if isinstance(answer.data, dict) else {}
        done: Any = data.get("data")
        done = done if isinstance(done, dict) else {}
        swapped = Swapped(self._labels_in(done.get("add")), self._labels_in(done.get("remove")))
        if swapped.added is None:
            self._ids.pop(add.casefold(), None)
        if swapped.added is None and swapped.removed is None:
            self._refused(answer, data)
            return None
        return swapped

    async def create(self, label: str, color: str, description: str) -> None:
        """Make a label of the repository; one that is there already stays as it is."""
        body = {"name": label, "color": color, "description": description}
        answer = await self._client.write(
            "POST", self._site.path(rest="/labels"), body, repeatable=True, allow=frozenset({422}), missing=Refused
        )
        if answer.status == 422 and "already_exists" not in str(answer.data):
            raise Refused(f"GitHub: the label {label} could not be made: {payloads.error_message(answer.data)}")
        if answer.status != 422:
            self.learn([payloads.read(Label, answer.data, "a label")])

    def _refused(self, answer: Answer, data: Mapping[str, Any]) -> None:
        """Both mutations failed: tell a limit, a server that knows no such field, and a fault from stale ids."""
        errors = [e for e in data.get("errors") or () if isinstance(e, dict)]
        kinds = {str(e.get("type", "")) for e in errors}
        said = "; ".join(str(e.get("message", "")) for e in errors)[:200]
        if "RATE_LIMITED" in kinds:
            left = quota(answer.headers)
            raise RateLimited(f"GitHub: {said}", retry_at=left.reset if left else None)
        if errors and "data" not in data:  # refused as a whole, before anything ran
            self._graphql = False
            log.warning("GraphQL is not available, using two requests per move", error=said)
            return
        if not errors or not kinds <= {"NOT_FOUND", "FORBIDDEN", "INSUFFICIENT_SCOPES", "UNPROCESSABLE"}:
            raise OutcomeUnknown(f"GitHub: the labels may or may not have been changed: {said}")

    def _read(self, answer: Answer) -> Labels:
        labels: list[Label] = payloads.read(list[Label], answer.data, "a list of labels")
        self.learn(labels)
        return {label.name: label.node_id for label in labels}

    def _labels_in(self, mutation: object) -> Labels | None:
        try:
            nodes = mutation["labelable"]["labels"]["nodes"]  # type: ignore[index]
            return {str(node["name"]): str(node["id"]) for node in nodes}
        except (TypeError, KeyError):
            return None
