"""What this process remembers about single issues: what every tracker does, and what our own comment did since."""

from __future__ import annotations

from dataclasses import dataclass

from agentsmith.trackers.shared.memory import BELIEVED_FOR, RememberedTicket, Snapshot, TicketMemory


@dataclass(slots=True)
class RememberedIssue(RememberedTicket):
    """What is remembered of one issue."""

    commented_since: bool = False
    """Whether we wrote a comment since `latest`: its ETag is stale then, by our own doing."""


class IssueMemory(TicketMemory[RememberedIssue]):
    """What is remembered by issue number. A conditional read is free here, so no read is trusted for its age alone."""

    def __init__(self) -> None:
        super().__init__(RememberedIssue)

    def remember(self, snapshot: Snapshot) -> None:
        """This is how the issue is now."""
        super().remember(snapshot)
        self.of(snapshot.key).commented_since = False

    def commented(self, key: str, comment: str) -> None:
        """Our comment was written: it is the one with this id."""
        super().commented(key, comment)
        self.of(key).commented_since = True

    def is_current(self, snapshot: Snapshot | None, now: float) -> bool:
        """Whether reading again would tell nothing that the next write's own answer does not tell.

        So it is for what our own last write left behind, and for a fresh read that only our comment made stale.
        """
        if snapshot is None or self.of(snapshot.key).latest is not snapshot:
            return False
        return snapshot.verified or (self.of(snapshot.key).commented_since and now - snapshot.read_at < BELIEVED_FOR)

    def has_no_comment(self, snapshot: Snapshot | None, now: float) -> bool:
        """Whether the issue certainly has no comment yet, so that ours need not be looked for."""
        return (
            super().has_no_comment(snapshot, now) and snapshot is not None and not self.of(snapshot.key).commented_since
        )
