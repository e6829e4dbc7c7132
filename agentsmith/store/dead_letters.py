"""Dead letters: what was given up, with the reason, for a person to look at."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from agentsmith.domain.request import MalformedRequest, PipelineRequest


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A request that nobody could run."""

    payload: str
    reason: str
    at: float

    @property
    def id(self) -> str:
        """A short name for it, the same each time that it is read."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:10]

    @property
    def request(self) -> PipelineRequest | None:
        """The request, if this release can read it."""
        try:
            return PipelineRequest.from_json(self.payload)
        except MalformedRequest:
            return None

    def to_json(self) -> str:
        """The form in which the list keeps it."""
        return json.dumps({"payload": self.payload, "reason": self.reason, "at": self.at})

    @classmethod
    def from_json(cls, text: str) -> DeadLetter:
        """Read back what `to_json` wrote."""
        data = json.loads(text)
        return cls(str(data.get("payload", "")), str(data.get("reason", "")), float(data.get("at", 0.0)))
