"""What the platforms' webhook readers share: comparing secrets, and proofs that grow with the body (W1)."""

from __future__ import annotations

import hashlib
import hmac
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

from agentsmith.domain.webhook import BadSignature, Incoming, Proof, TicketEvent, Uninteresting

_HEX: Final = 64
"""Characters of a SHA-256."""


class Reader(ABC):
    """What every platform's reader does in the same way."""

    def read(self, incoming: Incoming, *, now: float) -> TicketEvent | Uninteresting:
        """See WebhookReader."""
        proof = self.proof(incoming, now=now)
        proof.feed(incoming.body)
        proof.check()
        return self.understand(incoming)

    @abstractmethod
    def proof(self, head: Incoming, *, now: float) -> Proof:
        """See WebhookReader."""

    @abstractmethod
    def understand(self, incoming: Incoming) -> TicketEvent | Uninteresting:
        """See WebhookReader."""


class AlreadyProved:
    """The proof of a delivery whose headers were enough, or of which none is asked."""

    def feed(self, chunk: bytes) -> None:
        """See Proof."""

    def check(self) -> None:
        """See Proof."""


class SignatureProof:
    """The proof of a signed body: one of the keys must make one of the given signatures."""

    def __init__(
        self, keys: Sequence[bytes], given: Sequence[str], *, written: Callable[[bytes], bytes], before: bytes = b""
    ) -> None:
        """`before` is signed in front of the body; `written` is how the platform writes a digest."""
        self._given = [one.encode("utf-8", "replace") for one in given]
        self._written = written
        self._sums = [hmac.new(key, before, hashlib.sha256) for key in keys]

    def feed(self, chunk: bytes) -> None:
        """See Proof."""
        for one in self._sums:
            one.update(chunk)

    def check(self) -> None:
        """See Proof; takes the same time for every wrong one."""
        genuine = False
        for one in self._sums:
            for given in self._given:
                genuine |= hmac.compare_digest(self._written(one.digest()), given)
        if not genuine:
            raise BadSignature("the signature is wrong")


def hub_signature(secrets: Sequence[str], signature: str | None) -> Proof:
    """The proof of a body signed as `sha256=…`; BadSignature at once where no such signature is given."""
    kind, _, given = (signature or "").partition("=")
    if kind != "sha256" or len(given) != _HEX:
        raise BadSignature("the signature is missing or wrong")
    return SignatureProof(
        [secret.encode() for secret in secrets], [given], written=lambda digest: digest.hex().encode()
    )


def same_secret(secrets: Sequence[str], given: str | None) -> bool:
    """Whether `given` is one of the secrets; an empty or missing one never is."""
    seen = (given or "").encode("utf-8", "replace")
    found = False
    for secret in secrets:
        found |= hmac.compare_digest(secret.encode(), seen)
    return bool(given) and found
