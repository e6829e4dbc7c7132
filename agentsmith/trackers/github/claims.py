"""Strict mode: a git ref as a true compare-and-set around the claim, for installations that share no Redis.

Creating a ref succeeds for exactly one of many (201; the others get 422), which nothing about labels does. On the claim
edge `refs/agent-smith/claims/issue-12` is made; it points to an orphan commit whose message says which run made it,
and it is removed when the ticket leaves enqueued and in-progress.

Leftovers. A process that dies after making the ref and before writing the label leaves a ref on a pending ticket. Its
commit carries GitHub's own date: once it is older than `LIFETIME`, while the ticket still shows pending (checked right
before), nobody is between the two writes any more. It is not deleted, because a delete could hit somebody's new ref;
the successor makes `…-after-{commit}` instead, again by compare-and-set, so of several successors one wins. All refs of
the ticket go when it is released. The same commit tells a claimer whose answer was lost that the ref is its own.
The price: a person who sets a ticket back to pending by hand while its run is alive makes that run's ref look like a
leftover after `LIFETIME`; within one Redis the run lease keeps the two runs apart then, without one nothing does.
"""

from __future__ import annotations

import json
from typing import Final

import structlog

from agentsmith.bounded import Bounded
from agentsmith.domain.errors import BadAnswer, Refused, TicketNotFound, TrackerError
from agentsmith.domain.tracker import Move
from agentsmith.trackers.github import payloads
from agentsmith.trackers.github.payloads import Branch, Commit, GitRef, Repository
from agentsmith.trackers.github.site import Site
from agentsmith.trackers.http import ApiClient
from agentsmith.trackers.http.dialect import http_date

log = structlog.get_logger()

LIFETIME: Final = 600.0
"""Seconds after which a claim that has put no label on its ticket is given up for dead."""
_NAMESPACE: Final = "agent-smith/claims"
_MOST_LEFTOVERS: Final = 5
_MOST_REMEMBERED: Final = 1000


class ClaimRefs:
    """Takes and releases the claims of one repository. Needs permission to write its contents."""

    def __init__(self, client: ApiClient, site: Site) -> None:
        self._client = client
        self._site = site
        self._tree: str | None = None
        self._mine: Bounded[str, str] = Bounded(_MOST_REMEMBERED)
        """The last commit that this process made for an issue, whether or not its ref was answered."""

    async def take(self, number: str, move: Move) -> bool:
        """Whether the claim is ours now. False: somebody else holds it, or may hold it."""
        earlier = self._mine.get(number)
        commit = await self._commit(number, move)
        name = f"{_NAMESPACE}/issue-{number}"
        for _ in range(_MOST_LEFTOVERS):
            body = {"ref": f"refs/{name}", "sha": commit}
            path = self._site.path(rest="/git/refs")
            held = frozenset({409, 422})
            answer = await self._client.write("POST", path, body, deadline=move.deadline, allow=held, missing=Refused)
            if answer.status not in held:
                return True
            holder = await self._holder(name, move.deadline)
            if holder is None:
                return False
            if holder in (commit, earlier):
                return True
            if not await self._leftover(holder, move.deadline):
                return False
            log.warning("taking over a claim that was never finished", ticket=self._site.ticket_id(number), ref=name)
            name = f"{_NAMESPACE}/issue-{number}-after-{holder[:12]}"
        return False

    async def release(self, number: str, *, deadline: float) -> None:
        """Remove the claim. What cannot be removed now becomes a leftover; it never fails the move."""
        name = f"{_NAMESPACE}/issue-{number}"
        self._mine.pop(number, None)
        try:
            path = self._site.path(rest=f"/git/matching-refs/{name}")
            answer = await self._client.get(path, deadline=deadline, missing=Refused)
            refs: list[GitRef] = payloads.read(list[GitRef], answer.data, "a list of refs")
            # The first ref goes last: while it stands nobody can claim, so no new ref is among those removed.
            for ref in sorted(refs, key=lambda found: found.ref, reverse=True):
                full = ref.ref.removeprefix("refs/")
                if full == name or full.startswith(f"{name}-after-"):
                    path = self._site.path(rest=f"/git/refs/{full}")
                    gone = frozenset({404, 422})
                    # Not repeatable: a second try could remove what somebody else has made since.
                    await self._client.write("DELETE", path, deadline=deadline, allow=gone)
        except TrackerError as error:
            log.warning("a claim was not released yet", ticket=self._site.ticket_id(number), error=str(error))

    async def _holder(self, name: str, deadline: float) -> str | None:
        """The commit that the ref points to; None while reads lag behind, and then it counts as held."""
        path = self._site.path(rest=f"/git/ref/{name}")
        answer = await self._client.get(path, deadline=deadline, allow=frozenset({404, 409}))
        if answer.status != 200:
            return None
        ref: GitRef = payloads.read(GitRef, answer.data, "a ref")
        return ref.object.sha

    async def _leftover(self, sha: str, deadline: float) -> bool:
        """Whether a claim is so old that whoever made it must have died; by GitHub's own clock on both sides."""
        path = self._site.path(rest=f"/git/commits/{sha}")
        try:
            answer = await self._client.get(path, deadline=deadline)
            commit: Commit = payloads.read(Commit, answer.data, "a commit")
        except (TicketNotFound, BadAnswer):
            return False
        now = http_date(answer.headers)
        if commit.committer is None or now is None:
            return False
        return now - commit.committer.date.timestamp() > LIFETIME

    async def _commit(self, number: str, move: Move) -> str:
        """An orphan commit that only says whose claim this is."""
        who = json.dumps({"issue": int(number), "run": move.run, "fence": move.fence}, sort_keys=True)
        body = {"message": f"agentsmith claim {who}", "tree": await self._any_tree(move.deadline), "parents": []}
        path = self._site.path(rest="/git/commits")
        answer = await self._client.write("POST", path, body, deadline=move.deadline, repeatable=True, missing=Refused)
        commit: Commit = payloads.read(Commit, answer.data, "a commit")
        self._mine[number] = commit.sha
        return commit.sha

    async def _any_tree(self, deadline: float) -> str:
        """A tree that exists; which one does not matter, so the first one seen serves for ever."""
        if self._tree is None:
            answer = await self._client.get(self._site.path(), deadline=deadline, missing=Refused)
            repository: Repository = payloads.read(Repository, answer.data, "a repository")
            path = self._site.path(rest=f"/branches/{repository.default_branch}")
            answer = await self._client.get(path, deadline=deadline, allow=frozenset({404}))
            if answer.status == 404:
                raise Refused(f"GitHub: strict mode needs a commit in {self._site.repository}, which is empty")
            branch: Branch = payloads.read(Branch, answer.data, "a branch")
            self._tree = branch.commit.commit.tree.sha
        return self._tree
