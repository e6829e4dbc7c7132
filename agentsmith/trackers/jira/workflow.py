"""Status mode: the project's own workflow shows the status too, and refuses the second of two writers.

Jira lets only one of several simultaneous transitions of an issue succeed. That is a true compare-and-set where the
workflow has the transition from the expected status only, and not from "any". The claim travels with the transition as
an issue property, so that a transition whose label did not follow (a crash in between) is finished by its own run, and
by nobody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from agentsmith.bounded import Bounded
from agentsmith.domain.errors import Refused
from agentsmith.domain.lifecycle import Status
from agentsmith.domain.ticket import Ticket
from agentsmith.domain.tracker import Move
from agentsmith.redaction import excerpt
from agentsmith.trackers.http import Answer
from agentsmith.trackers.jira import payloads
from agentsmith.trackers.jira.dialect import bucket, message
from agentsmith.trackers.jira.issues import Claim, Issues
from agentsmith.trackers.jira.payloads import Transition, snapshot_of
from agentsmith.trackers.jira.site import Site
from agentsmith.trackers.shared.api import OnProject, ProjectApi

log = structlog.get_logger()

_MOST_KNOWN: Final = 1000


class Overtaken(Exception):
    """Somebody else moved the ticket; carries what it shows now."""

    def __init__(self, ticket: Ticket) -> None:
        super().__init__(ticket.id)
        self.ticket = ticket


@dataclass(frozen=True, slots=True)
class KnownTransition:
    """A transition, and the status it leads to."""

    id: str
    to: str


class Workflow(OnProject[Site]):
    """Takes issues through the project's workflow. `words` name a status or a transition's id, by our status."""

    def __init__(self, api: ProjectApi[Site], *, issues: Issues, words: Mapping[Status, str]) -> None:
        super().__init__(api)
        self._issues = issues
        self._words = {status: word.strip() for status, word in words.items()}
        self._known: Bounded[tuple[str, str], KnownTransition] = Bounded(_MOST_KNOWN)
        self._targets: dict[str, str] = {}
        """Where a transition leads that is configured by its id, once we have seen it offered."""

    async def advance(self, seen: Ticket, move: Move, claim: Claim) -> Ticket:
        """Make the transition for `move.to`, if one is configured and not made yet; Overtaken when it is lost."""
        word = self._words.get(move.to) if move.to is not None else None
        snapshot = snapshot_of(seen)
        if word is None or snapshot is None or snapshot.status is None:
            return seen
        made_by = _run_of(snapshot.claim, move)
        if made_by == move.run:
            return seen  # made before; only the label is missing
        if self._is(snapshot.status.name, snapshot.status.id, word):
            if made_by is not None:
                raise Overtaken(seen)
            return seen  # a person was faster, or never moved it away
        transition = await self._transition(seen, snapshot.status, word, move)
        body = {
            "transition": {"id": transition.id},
            "properties": [{"key": self._issues.property, "value": claim.to_json()}],
        }
        path = self._site.issue(seen.key, "/transitions")
        answer = await self._client.write(
            "POST", path, body, deadline=move.deadline, bucket=bucket(seen.key), allow=frozenset({400, 409})
        )
        after = await self._issues.read(seen.key, deadline=move.deadline)
        if answer.status in (400, 409):
            return self._refused(answer, seen, after)
        return self._arrived(after, transition, claim)

    def _refused(self, answer: Answer, before: Ticket, after: Ticket) -> Ticket:
        """Of two at once one gets 409; one that comes a little later finds the transition gone."""
        self._known.clear()
        if answer.status == 409 or _moved(before, after):
            raise Overtaken(after)
        raise Refused(f"Jira refused the transition of {before.key}: {excerpt(message(answer.data))}")

    def _arrived(self, after: Ticket, transition: KnownTransition, claim: Claim) -> Ticket:
        now = snapshot_of(after)
        if now is not None and now.claim is not None and not claim.made(now.claim):
            raise Overtaken(after)
        if now is not None and now.status is not None and now.status.name.casefold() != transition.to.casefold():
            log.warning("the workflow led elsewhere", ticket=after.id, meant=transition.to, found=now.status.name)
        return after

    def _is(self, name: str, id_: str, word: str) -> bool:
        """Whether a status is the one that `word` leads to, as far as we know."""
        target = self._targets.get(word)
        return id_ == target if target is not None else name.casefold() == word.casefold()

    async def _transition(self, seen: Ticket, status: payloads.Status, word: str, move: Move) -> KnownTransition:
        """The transition from where the issue is; asked once per pair of statuses."""
        known = self._known.get((status.id, word))
        if known is not None:
            return known
        path = self._site.issue(seen.key, "/transitions")
        answer = await self._client.get(path, deadline=move.deadline)
        offered: list[Any] = payloads.listed(answer.data, "transitions", "a list of transitions")
        transitions: list[Transition] = [
            payloads.read(Transition, transition, "a transition") for transition in offered
        ]
        for transition in transitions:
            if transition.id == word or transition.to.name.casefold() == word.casefold():
                if transition.id == word:
                    self._targets[word] = transition.to.id
                found = KnownTransition(transition.id, transition.to.name)
                self._known[status.id, word] = found
                return found
        after = await self._issues.read(seen.key, deadline=move.deadline)
        if _moved(seen, after):
            raise Overtaken(after)  # what is offered leads from where somebody else has brought it
        names = (
            ", ".join(sorted(f"{transition.to.name} ({transition.id})" for transition in transitions))[:200] or "none"
        )
        raise Refused(
            f"Jira: the workflow offers {seen.key} no transition from {status.name!r} to {word!r}; offered: {names}. "
            "Correct `statuses` in the configuration, or the workflow"
        )


def _moved(before: Ticket, after: Ticket) -> bool:
    """Whether the issue is in another status than it was, as far as anybody can tell."""
    was, now = snapshot_of(before), snapshot_of(after)
    if was is None or now is None or was.status is None or now.status is None:
        return True
    return was.status.id != now.status.id


def _run_of(claim: object, move: Move) -> object:
    """Which run made the transition for this very step; None when the property tells of another step."""
    return claim.get("run") if isinstance(claim, dict) and claim.get("status") == move.to else None
